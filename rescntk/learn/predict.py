"""Answers of a condensed model of rescntk, by NumPy alone: `predict.py model.npz X.npy`.

``export`` of a condensed model writes ``model.npz`` and puts this file beside it. The answers are a
table, with probabilities and novelties. ``X.npz`` has signals of different lengths, an array each.
"""

# mypy: disallow_untyped_defs=False, disallow_incomplete_defs=False, check_untyped_defs=False

import csv
import json
import sys

import numpy as np


class Model:
    """The model in a file of ``export``; X is (n_cases, n_channels, n_timepoints), or a list."""

    def __init__(self, path):
        with np.load(path, allow_pickle=False) as file:
            self.arrays = {name: file[name] for name in file.files}
        self.settings = json.loads(str(self.arrays["settings"]))
        self.passes = [_Pass(*pair, self.arrays) for pair in enumerate(self.settings["passes"])]

    def decide(self, X):
        """Return decisions, (n_cases, n_outputs), and novelties, (n_cases,)."""
        X, (channels, d) = [np.asarray(x, dtype=np.float64) for x in X], self.settings["shape"]
        for x in X:
            if x.shape != (channels, d or x.shape[-1]) or not x.size or not np.isfinite(x).all():
                raise ValueError(f"X has a signal of {x.shape}, expected finite {(channels, d)}")
        pairs = [(each, each.matrix(X)) for each in self.passes]
        novelties = np.array([each.novelty(K) for each, K in pairs])
        decisions = np.array([K @ each["coefficients"] + each["intercepts"] for each, K in pairs])
        lines = np.array([each.settings["line"] for each in self.passes])[:, None]
        see_levels = np.array([each.settings["sees_levels"] for each in self.passes])[:, None]
        weights = self.arrays["weights"][:, None] * np.maximum(1, novelties) ** -2.0
        weights = weights * np.maximum(1, novelties / lines) ** -8.0
        weights = weights * np.maximum(1, np.where(see_levels, self._distances(X), 1)) ** -8.0
        weights /= weights.sum(axis=0)
        decisions = np.einsum("pn,pno->no", weights, decisions) + self.arrays.get("offsets", 0.0)
        return decisions, np.exp(self.arrays["inverse_errors"] @ np.log(novelties))

    def _distances(self, X):
        levels = np.array([np.ldexp(x, -self.settings["exponent"]).mean(axis=1) for x in X])
        levels, spread = levels - self.arrays["level"], self.arrays["spread"]
        levels = np.divide(levels, spread, out=np.zeros_like(levels), where=spread > 0)
        return np.fmin(np.sqrt((levels**2).mean(axis=1)) / self.settings["farthest"], 1e6)

    def decision_function(self, X):
        """Return decisions of classes, (n_cases, n_outputs): one column for two classes."""
        return self.decide(X)[0]

    def predict_proba(self, X, decided=None):
        """Return probabilities of the classes, (n_cases, n_classes); `decided` is ``decide(X)``."""
        decisions, novelties = decided or self.decide(X)
        columns = _columns(decisions)
        near = 1 / np.maximum(1, novelties / self.settings["novel"])[:, None]
        logits = near * self.settings["inverse_temperature"] * columns
        logits = logits + (1 - near) * np.log(self.arrays["shares"])
        chances = np.exp(logits - logits.max(axis=1, keepdims=True))
        return chances / chances.sum(axis=1, keepdims=True)

    def predict(self, X, decided=None):
        """Return classes, (n_cases,), or values, (n_cases, n_targets)."""
        decisions = (decided or self.decide(X))[0]
        if "classes" in self.arrays:
            return self.arrays["classes"][_columns(decisions).argmax(axis=1)]
        values = decisions * self.arrays["scale"] + self.arrays["mean"]
        return np.ldexp(values, self.arrays["exponents"])


def _columns(decisions):
    return decisions if decisions.shape[1] > 1 else np.hstack([-decisions, decisions])


class _Pass:
    def __init__(self, number, settings, arrays):
        self.settings, self.number, self.arrays = settings, number, arrays
        count = settings["n_batches"]
        self.batches = [_of_one_size(self[f"signals{k}"]) for k in range(count)]
        self.own = np.hstack([self._kernels(z, z[None]) for Z in self.batches for z in Z])

    def __getitem__(self, name):
        return self.arrays[f"{self.number}_{name}"]

    def novelty(self, K):
        variance = np.maximum(1 - ((K @ self["root"]) ** 2).sum(axis=1), 0)
        return (variance + self.settings["penalty"]) / self.settings["usual_variance"]

    def matrix(self, X):
        """Return the mean of normalized kernels of X with the learned signals."""
        rows = []
        for x in (self._view(x[None])[0] for x in X):
            norms = np.sqrt(self._kernels(x, x[None])) * np.sqrt(self.own)
            across = np.hstack([self._kernels(x, batch) for batch in self.batches])
            rows.append((across / np.where(norms > 0, norms, np.inf)).mean(axis=0))
        return np.array(rows)

    def _kernels(self, x, Z):
        """Return kernels of x with signals Z of one length, (n_depths · n_kinds, n_signals).

        a and b are mean squares of features at pixels of x and Z. D is half their mean squared
        distance, which keeps its digits where pixels are alike. Covariances are (a + b) / 2 - D.
        """
        p, size, step = self.settings, self.settings["filter_size"], self.settings["dilation"]
        a, b = x.T[None], Z.transpose(0, 2, 1)
        a, b = (a[:, :, None], b[:, None]) if p["head"] == "gap" else (a, b)
        squares = (np.square(each).mean(axis=-1) for each in ((a - b) / np.sqrt(2.0), a, b))
        D, a, b = (_box(each, p["input_filter_size"], 1) for each in squares)
        T, kernels = np.zeros_like(D), []
        for layer in range(1, max(p["depths"]) + 1):
            inner = 1 if layer == 1 else size
            D_g, a_g, b_g, T_g = (_box(each, inner, step) for each in (D, a, b, T))
            u, v = np.sqrt(a_g), np.sqrt(b_g)
            least, g, middle = 0.5 * (u - v) ** 2, u * v, 0.5 * (a_g + b_g)
            w = np.where(g > 0, np.clip((D_g - least) / np.where(g > 0, g, 1), 0, 2), 1)
            near = np.minimum(w, 2 - w)  # 1 - |cosine|
            angle = 2 * np.arcsin(np.sqrt(0.5 * near))
            k1 = (np.sqrt(near * (2 - near)) - (1 - near) * angle) / np.pi
            slope = np.where(w <= 1, 1 - angle / np.pi, angle / np.pi)
            D_k = least + g * np.where(w <= 1, w - k1, 1 - k1)
            T_k = middle - D_k + slope * (middle - D_g + T_g)
            branch = (p["alpha"] ** 2 * _box(each, size, step) for each in (D_k, a_g, b_g, T_k))
            D, a, b, T = (sum(pair) for pair in zip((D, a, b, T), branch, strict=True))
            if layer in p["depths"]:
                kernels += [0.5 * (a + b) - D + (kind == "ntk") * T for kind in p["kinds"]]
        first = p["head"] == "equivariant"
        return np.array([K[:, 0] if first else K.reshape(len(K), -1).mean(axis=1) for K in kernels])

    def _view(self, X):
        p, block = self.settings, self.settings["block"]
        X = np.ldexp(X, -p["exponent"])
        if f"{self.number}_mix" in self.arrays:
            X = self["mix"] @ (X - self["mix_mean"][:, None])
        if p["standardize"] == "each":
            mean, deviation = X.mean(axis=2, keepdims=True), X.std(axis=2, keepdims=True)
            tiny = 10 * np.finfo(np.float64).eps * np.abs(X).max(axis=2, keepdims=True)
            X = (X - mean) / np.where(deviation > tiny, deviation, 1.0)
        if p["spectra"] is True and block > 1:
            X = _short_time(X, block)
        else:
            if p["spectra"] == "whole":
                waves = np.fft.rfft(X, axis=2, norm="ortho")[:, :, 1:]
                X = np.sqrt(np.abs(waves)) if X.shape[2] > 1 else np.zeros(X.shape)
            X = _shorten(X, block, p["block_statistics"])
        X = (X - self["mean"][:, None]) / self["scale"][:, None]
        if p["first_differences"]:
            rises = np.gradient(X, axis=2) if X.shape[2] > 1 else np.zeros(X.shape)
            rises = rises * self["difference_scale"][:, None]
            X = rises if p["first_differences"] == "only" else np.concatenate([X, rises], axis=1)
        X = (X - self["point_mean"]) / self["point_scale"]
        (n, c, d), turns = X.shape, np.pi * np.arange(X.shape[2]) / X.shape[2]
        time = np.stack([np.cos(turns), np.sin(turns)]) * p["time_scale"] * np.sqrt(c)
        more = np.vstack([np.ones((int(p["constant"]), d)), time[: 2 * (p["time_scale"] > 0)]])
        return _of_one_size(np.concatenate([X, np.tile(p["level"] * more, (n, 1, 1))], axis=1))


def _of_one_size(X):
    """Return signals divided by powers of two: normalized kernels are the same."""
    return np.array([np.ldexp(x, -np.frexp(np.abs(x).max())[1]) for x in X])


def _box(A, size, step):
    """Return the mean over a filter's taps, circular along the pixels of both signals."""
    axes, reach = tuple(range(1, A.ndim)), step * (size // 2)
    taps = range(-reach, reach + 1, step)
    return sum(np.roll(A, (tap,) * len(axes), axes) for tap in taps) / size


def _shorten(X, block, statistics):
    if block == 1:
        return X
    starts = np.arange(0, X.shape[2], block)
    sizes = np.minimum(block, X.shape[2] - starts)
    means = np.add.reduceat(X, starts, axis=2) / sizes
    if not statistics:
        return means
    squares = np.add.reduceat((X - np.repeat(means, sizes, axis=2)) ** 2, starts, axis=2) / sizes
    ends = [f.reduceat(X, starts, axis=2) for f in (np.minimum, np.maximum)]
    return np.concatenate([means, np.sqrt(squares), *ends], axis=1)


def _short_time(X, block):
    padded = np.pad(X, ((0, 0), (0, 0), (block // 2, (block + 1) // 2 + -X.shape[2] % block)))
    parts = np.lib.stride_tricks.sliding_window_view(padded, 2 * block, axis=2)[:, :, ::block]
    roots = np.sqrt(np.abs(np.fft.rfft(parts * np.hanning(2 * block + 1)[:-1], axis=3)))
    return roots.transpose(0, 1, 3, 2).reshape(len(X), -1, roots.shape[2])


if __name__ == "__main__":
    model, X = Model(sys.argv[1]), np.load(sys.argv[2])
    X = X if isinstance(X, np.ndarray) else [*X.values()]
    classes = [*model.arrays.get("classes", ())]
    decided = model.decide(X)
    chances = model.predict_proba(X, decided) if classes else np.zeros((len(X), 0))
    columns = zip(model.predict(X, decided), decided[1], chances, strict=True)
    rows = [[*np.atleast_1d(answer), novelty, *others] for answer, novelty, others in columns]
    head = ["answer"] * (len(rows[0]) - 1 - len(classes)) + ["novelty"]
    head += [f"probability of {label}" for label in classes]
    csv.writer(sys.stdout).writerows([head, *rows])
