"""Answers of a condensed model of rescntk, by NumPy alone: `predict.py model.npz X.npy`.

``export`` of a condensed model writes ``model.npz`` and puts this file beside it.
"""

# mypy: disallow_untyped_defs=False, disallow_incomplete_defs=False, check_untyped_defs=False

import json
import sys

import numpy as np


class Model:
    """The model in a file of ``export``; signals X are (n_cases, n_channels, n_timepoints)."""

    def __init__(self, path):
        with np.load(path, allow_pickle=False) as file:
            self.arrays = {name: file[name] for name in file.files}
        self.settings = json.loads(str(self.arrays["settings"]))
        self.passes = [_Pass(*pair, self.arrays) for pair in enumerate(self.settings["passes"])]

    def decide(self, X):
        """Return decisions, (n_cases, n_outputs), and novelties, (n_cases,)."""
        X = np.asarray(X, dtype=np.float64)
        shape = tuple(self.settings["shape"])
        if X.ndim != 3 or X.shape[1:] != shape or not np.isfinite(X).all():
            raise ValueError(f"X has shape {X.shape}, expected finite (n_cases, *{shape})")
        matrices = [each.matrix(X) for each in self.passes]
        pairs = list(zip(self.passes, matrices, strict=True))
        novelties = np.array([each.novelty(K) for each, K in pairs])
        decisions = np.array([K @ each["coefficients"] + each["intercepts"] for each, K in pairs])
        lines = np.array([each.settings["line"] for each in self.passes])[:, None]
        see_levels = np.array([each.settings["sees_levels"] for each in self.passes])[:, None]
        weights = self.arrays["weights"][:, None] * np.maximum(1, novelties) ** -2.0
        weights = weights * np.maximum(1, novelties / lines) ** -8.0
        weights = weights * np.maximum(1, np.where(see_levels, self._distances(X), 1)) ** -8.0
        weights /= weights.sum(axis=0)
        decisions = np.einsum("pn,pno->no", weights, decisions)
        return decisions, np.exp(self.arrays["inverse_errors"] @ np.log(novelties))

    def _distances(self, X):
        levels = np.ldexp(X, -self.settings["exponent"]).mean(axis=2) - self.arrays["level"]
        spread = self.arrays["spread"]
        levels = np.divide(levels, spread, out=np.zeros_like(levels), where=spread > 0)
        return np.fmin(np.sqrt((levels**2).mean(axis=1)) / self.settings["farthest"], 1e6)

    def decision_function(self, X):
        """Return decisions of classes, (n_cases, n_outputs): one column for two classes."""
        return self.decide(X)[0] + self.arrays["offsets"]

    def predict_proba(self, X):
        """Return probabilities of the classes, (n_cases, n_classes)."""
        decisions, novelties = self.decide(X)
        columns = _columns(decisions + self.arrays["offsets"])
        near = 1 / np.maximum(1, novelties / self.settings["novel"])[:, None]
        logits = near * self.settings["inverse_temperature"] * columns
        logits = logits + (1 - near) * np.log(self.arrays["shares"])
        chances = np.exp(logits - logits.max(axis=1, keepdims=True))
        return chances / chances.sum(axis=1, keepdims=True)

    def predict(self, X):
        """Return classes, (n_cases,), or values, (n_cases, n_targets)."""
        if "classes" in self.arrays:
            return self.arrays["classes"][_columns(self.decision_function(X)).argmax(axis=1)]
        values = self.decide(X)[0] * self.arrays["scale"] + self.arrays["mean"]
        return np.ldexp(values, self.arrays["exponents"])


def _columns(decisions):
    return decisions if decisions.shape[1] > 1 else np.hstack([-decisions, decisions])


class _Pass:
    def __init__(self, number, settings, arrays):
        self.settings, self.number, self.arrays = settings, number, arrays
        self.signals = self["signals"]
        self.own = [self._head(self._walk(s, s[None])) for s in self.signals]

    def __getitem__(self, name):
        return self.arrays[f"{self.number}_{name}"]

    def novelty(self, K):
        variance = np.maximum(1 - ((K @ self["root"]) ** 2).sum(axis=1), 0)
        return (variance + self.settings["penalty"]) / self.settings["usual_variance"]

    def matrix(self, X):
        """Return the mean of normalized kernels of X with the learned signals."""
        rows = []
        for x in self._view(X):
            own = self._head(self._walk(x, x[None]))
            across = self._head(self._walk(x, self.signals))
            norms = np.sqrt(own * np.array(self.own)[:, :, 0].transpose(1, 0))
            rows.append((across / norms).mean(axis=0))
        return np.array(rows)

    def _head(self, fields):
        """Return kernels (n_kernels, n_signals) from fields (n_signals, n_offsets, d)."""
        if self.settings["head"] == "equivariant":
            return np.array([field[:, 0, 0] for field in fields])
        return np.array([field.mean(axis=(1, 2)) for field in fields])

    def _walk(self, x, Z):
        """Return the GPK and NTK of x and signals Z at pixels j and j + offset, at each depth."""
        p, (c, d) = self.settings, x.shape
        offsets = d if p["head"] == "gap" else 1
        places = (np.arange(d) + np.arange(offsets)[:, None]) % d
        F = np.einsum("cj,mcoj->moj", x, Z[:, :, places]) / c
        a, b = (x**2).sum(axis=0) / c, (Z**2).sum(axis=1) / c
        size = p["input_filter_size"]
        F, a, b = _box(F, size, 1), _box(a, size, 1), _box(b, size, 1)
        T, fields = np.zeros_like(F), []
        for layer in range(1, max(p["depths"]) + 1):
            inner, step = 1 if layer == 1 else p["filter_size"], p["dilation"]
            S, of_x, of_z = (_box(each, inner, step) for each in (F, a, b))
            roots = np.sqrt(of_x * of_z[:, places])
            cosine = np.clip(np.divide(S, roots, out=np.zeros_like(S), where=roots > 0), -1, 1)
            angle = (np.pi - np.arccos(cosine)) / np.pi
            K = roots * (np.sqrt(1 - cosine**2) / np.pi + angle * cosine)
            branch = _box(K, p["filter_size"], step)
            tangent = _box(angle * (_box(T, inner, step) + S), p["filter_size"], step) + branch
            F, T = F + p["alpha"] ** 2 * branch, T + p["alpha"] ** 2 * tangent
            a = a + p["alpha"] ** 2 * _box(of_x, p["filter_size"], step)
            b = b + p["alpha"] ** 2 * _box(of_z, p["filter_size"], step)
            if layer in p["depths"]:
                fields += [{"gpk": F, "ntk": T + F}[kind] for kind in p["kinds"]]
        return fields

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
                X = np.sqrt(np.abs(np.fft.rfft(X, axis=2, norm="ortho")[:, :, 1:]))
            X = _shorten(X, block, p["block_statistics"])
        X = (X - self["mean"][:, None]) / self["scale"][:, None]
        if p["first_differences"]:
            rises = np.gradient(X, axis=2) if X.shape[2] > 1 else np.zeros(X.shape)
            rises = rises * self["difference_scale"][:, None]
            X = rises if p["first_differences"] == "only" else np.concatenate([X, rises], axis=1)
        X = (X - self["point_mean"]) / self["point_scale"]
        (n, c, d), parts = X.shape, [X]
        if p["constant"]:
            parts.append(np.full((n, 1, d), p["level"]))
        if p["time_scale"]:
            turns = np.pi * np.arange(d) / d
            time = np.stack([np.cos(turns), np.sin(turns)]) * p["time_scale"] * p["level"]
            parts.append(np.broadcast_to(time * np.sqrt(c), (n, 2, d)))
        return np.concatenate(parts, axis=1)


def _box(A, size, step):
    """Return the mean over a filter's taps, circular along the last axis."""
    return sum(np.roll(A, step * k, axis=-1) for k in range(-(size // 2), size // 2 + 1)) / size


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
    length, before = X.shape[2], block // 2
    after = (-(-length // block) + 1) * block - length - before
    padded = np.pad(X, ((0, 0), (0, 0), (before, after)))
    parts = np.lib.stride_tricks.sliding_window_view(padded, 2 * block, axis=2)[:, :, ::block]
    roots = np.sqrt(np.abs(np.fft.rfft(parts * np.hanning(2 * block + 1)[:-1], axis=3)))
    return roots.transpose(0, 1, 3, 2).reshape(len(X), -1, roots.shape[2])


if __name__ == "__main__":
    print("\n".join(map(str, Model(sys.argv[1]).predict(np.load(sys.argv[2])))))
