"""Metrics of the channels: average gradient outer products by differences, and what they find."""

import numpy as np
import pytest

import rescntk as rk
from rescntk import regression
from rescntk.learn.passes import Pass
from rescntk.learn.views import View
from rescntk.regression import channels
from tests import tolerances
from tests.learn.cases import bordered, refitted

GPK = rk.ResCGPK(2, 3, normalized=True)
REFERENCE = {"engine": "reference"}

STEP = 1e-3
CONDITION = 1e3
"""Condition number of K + λI of 20 signals of three channels, with the penalty that they choose."""


def transformed(S, X):
    if isinstance(X, list):
        return [S @ x for x in X]
    return np.einsum("ij,nj...->ni...", S, X)


def ridge_by_refits(K, Y):
    """Return coefficients and least squared leave-one-out error; each error from a new fit."""
    Y, penalties = Y.reshape(len(K), -1), channels.PENALTIES * np.trace(K) / len(K)
    errors = [((refitted(K, Y, penalty) - Y) ** 2).sum() for penalty in penalties]
    return bordered(K, Y, penalties[np.argmin(errors)])[0], min(errors)


def slopes_by_differences(function, x, step=STEP):
    """Return derivatives, of the shape of x before the outputs': central differences.

    A signal's kernel with itself has even and odd orders of the step on each side. Three steps take
    away the first two orders of the error.
    """
    directions = np.eye(x.size).reshape(-1, *x.shape)

    def slope(h):
        ends = function([*(x + h * directions), *(x - h * directions)])
        return (ends[: x.size] - ends[x.size :]) / (2 * h)

    first = [2 * slope(h / 2) - slope(h) for h in (step, step / 2)]
    return ((4 * first[1] - first[0]) / 3).reshape(*x.shape, -1)


def metric_by_differences(kernel, X, Y, steps, identity):
    C = len(X[0])
    S = np.eye(C)
    for _ in range(steps):
        Z = transformed(S, X)
        coefficients, _ = ridge_by_refits(kernel(Z, **REFERENCE), Y)

        def predict(batch, S=S, Z=Z, coefficients=coefficients):
            signals = [S @ x.reshape(C, -1) for x in batch]
            signals = [x.reshape(b.shape) for x, b in zip(signals, batch, strict=True)]
            signals = signals if isinstance(Z, list) else np.array(signals)
            return kernel(signals, Z, **REFERENCE) @ coefficients

        M = np.zeros((C, C))
        for x in X:
            g = slopes_by_differences(predict, x).reshape(C, -1)
            M += g @ g.T
        M = (1 - identity) * C * M / np.trace(M) + identity * np.eye(C)
        values, V = np.linalg.eigh(M)
        S = V @ np.diag(np.sqrt(values)) @ V.T
    return S, M


CASES = {
    "normalized": (GPK, 1),
    "not normalized": (rk.ResCGPK(1, 3, head="trace"), 1),
    "tangent kernel": (rk.ResCNTK(1, 3), 1),
    "several targets": (GPK, 3),
    "lists": (GPK, 1),
    "images": (rk.ResCGPK(1, 3, normalized=True), 1),
}


@pytest.mark.parametrize("name", CASES)
def test_metric_is_the_average_gradient_outer_product(rng, name):
    """Of ridge regression by refits, and gradients by differences."""
    kernel, n_targets = CASES[name]
    X, Y = rng.standard_normal((7, 3, 6)), rng.standard_normal((7, n_targets))
    if name == "lists":
        X = [x[:, : 4 + k % 3] for k, x in enumerate(X)]
    if name == "images":
        X = X.reshape(7, 3, 2, 3)
    for steps, identity in ((1, 0.0), (2, 0.3)):
        m = regression.channel_metric(kernel, X, Y, steps=steps, identity=identity, **REFERENCE)
        S, M = metric_by_differences(kernel, X, Y, steps, identity)
        close = tolerances.gradient_products(STEP)
        assert np.abs(m.relevance - M.diagonal()).max() <= close
        assert np.abs(m.transform - S).max() <= close


def smooth_and_rough(rng, n=20, length=12):
    """Return signals and numbers from −1 to 1, by which neighbours in channel 1 are alike."""
    y, X = np.linspace(-1, 1, n), rng.standard_normal((n, 3, length))
    X[:, 1] += y[:, None] * np.roll(X[:, 1], 1, axis=1)
    return X, y


@pytest.mark.parametrize("n_targets", [1, 2])
def test_weights_are_of_errors_by_refits(rng, n_targets):
    X, y = smooth_and_rough(rng)
    X[:, 2] = 0.0
    Y = y[:, None] * np.arange(1, n_targets + 1) + 5.0
    errors = [ridge_by_refits(GPK(X[:, c : c + 1], **REFERENCE), Y)[1] for c in (0, 1)]
    shares = np.maximum(0, 1 - np.array([*errors, np.inf]) / ((Y - Y.mean(axis=0)) ** 2).sum())
    weights = regression.channel_weights(GPK, X, Y, **REFERENCE)
    expected = (shares + 1e-3) / (shares + 1e-3).mean()
    assert np.abs(weights**2 / expected - 1).max() <= tolerances.solution(20, CONDITION)
    assert weights[1] > 1 > weights[0] >= weights[2] > 0


def sensors(rng, n=60, n_sensors=40, length=12):
    """Return signals, classes ±1, and the three sensors that smooth or roughen with the class."""
    y, X = np.where(np.arange(n) % 2, 1.0, -1.0), rng.standard_normal((n, n_sensors, length))
    places = np.sort(rng.permutation(n_sensors)[:3])
    X[:, places] += 0.6 * y[:, None, None] * np.roll(X[:, places], 1, axis=2)
    return X / X.std(axis=(0, 2), keepdims=True), y, places


def test_weights_find_three_of_forty_sensors(rng):
    """All sensors together are at chance, and so are their gradients."""
    X, y, places = sensors(rng, 120)
    Z, expected = X[60:], y[60:]
    X, y = X[:60], y[:60]

    def accuracy(transform):
        ridge = regression.decompose(GPK(transform @ X)).coefficients(y, 0.1)
        return np.mean(np.sign(GPK(transform @ Z, transform @ X) @ ridge) == expected)

    weights = regression.channel_weights(GPK, X, y)
    assert set(places) <= set(np.argsort(-weights)[:4])
    metric = regression.channel_metric(GPK, X, y)
    assert not set(places) <= set(np.argsort(-metric.relevance)[:4])
    assert accuracy(np.eye(40)) < 0.6 and accuracy(metric.transform) < 0.6
    assert accuracy(np.diag(weights)) > 0.9


@pytest.mark.parametrize("kernel", [rk.ResCNTK(2, 3, normalized=True), rk.ResCNTK(2, 3)])
def test_metric_finds_the_difference_of_two_noisy_channels(rng, kernel):
    """Noise that both channels share is twice as large as what decides."""
    X = rng.standard_normal((80, 2, 12)) + 2 * rng.standard_normal((80, 1, 12))
    D = X[:, 0] - X[:, 1]
    y = (D * np.roll(D, 1, axis=1)).mean(axis=1)
    m = regression.channel_metric(kernel, X, y, identity=0.0)
    values, V = np.linalg.eigh(m.transform)
    assert values[1] > 2 * values[0]
    assert abs(V[:, 1] @ [1, -1]) / np.sqrt(2) > 0.97


def test_metric_turns_with_the_channels(rng):
    """The kernels depend on products of channels alone: on no rotation, and on no order."""
    X, y = smooth_and_rough(rng)
    m = regression.channel_metric(GPK, X, y, steps=2)
    close = tolerances.solution(20, CONDITION)
    order = np.array([1, 2, 0])
    for Q in (np.linalg.qr(rng.standard_normal((3, 3)))[0], np.eye(3)[order]):
        turned = regression.channel_metric(GPK, transformed(Q, X), y, steps=2)
        assert np.abs(turned.transform - Q @ m.transform @ Q.T).max() <= close
    weights = regression.channel_weights(GPK, X, y)
    assert (regression.channel_weights(GPK, X[:, order], y) == weights[order]).all()


def test_lists_passes_and_float32(rng):
    X, y = smooth_and_rough(rng)
    one = Pass(View(), GPK.network, "gap", ("gpk",), (2,))
    m, weights = regression.channel_metric(GPK, X, y), regression.channel_weights(GPK, X, y)
    same = regression.channel_metric(GPK, list(X), y[:, None])
    assert (same.transform == m.transform).all()
    assert (regression.channel_weights(GPK, list(X), y) == weights).all()
    for kernel, dtype in ((one, "float64"), (GPK, "float32"), (one, "float32")):
        close = tolerances.solution(20, CONDITION, dtype)
        again = regression.channel_metric(kernel, X, y, dtype=dtype)
        assert np.abs(again.transform - m.transform).max() <= close
        again = regression.channel_weights(kernel, X, y, dtype=dtype)
        assert np.abs(again - weights).max() <= close


def test_landmarks_that_span_all_signals_change_nothing(rng, monkeypatch):
    """Each signal stands twice: half of the signals as landmarks predict like all."""
    X, y = smooth_and_rough(rng)
    X, Y = np.tile(X, (2, 1, 1)), np.stack([np.tile(y, 2), rng.standard_normal(40)], axis=1)
    m, weights = regression.channel_metric(GPK, X, Y), regression.channel_weights(GPK, X, Y)
    monkeypatch.setattr(channels, "_MOST_CENTRES", 20)
    close = tolerances.solution(40, CONDITION)
    of_landmarks = regression.channel_metric(GPK, X, Y)
    assert np.abs(of_landmarks.transform - m.transform).max() <= close
    assert np.abs(regression.channel_weights(GPK, X, Y) - weights).max() <= close
    X[:, 2] = 0.0
    weights = regression.channel_weights(GPK, X, Y)
    assert weights[2] == weights.min() < weights[1]


def test_cases_are_drawn_by_the_seed(rng):
    X, y = rng.standard_normal((40, 2, 6)), rng.standard_normal(40)

    def relevance(cases, seed):
        m = regression.channel_metric(GPK, X, y, cases=cases, random_state=seed)
        return m.relevance.tolist()

    assert relevance(40, 0) == relevance(200, 1)
    assert relevance(10, 0) == relevance(10, 0) != relevance(10, 1)


@pytest.mark.parametrize("power", [-600, 600])
def test_powers_of_two_change_no_digit(rng, power):
    X, y = smooth_and_rough(rng)
    for function in (regression.channel_metric, regression.channel_weights):
        plain = function(GPK, X, y, **REFERENCE)
        scaled = function(GPK, np.ldexp(X, power), np.ldexp(y, power), **REFERENCE)
        assert (np.vstack(plain) == np.vstack(scaled)).all()


class GradientsOnly:
    """A kernel that allows no matrix: what is refused is refused before long work."""

    vjp = staticmethod(GPK.vjp)

    def __call__(self, *signals, **options):
        raise AssertionError


def test_refusals(rng):
    X, y = rng.standard_normal((9, 2, 6)), rng.standard_normal(9)
    bad = [
        ({"kernel": GPK.network}, "kernel is Network"),
        ({"X": X[:, :1]}, "X has one channel, expected two or more"),
        ({"X": X[0]}, "X has shape"),
        ({"X": X * np.nan}, "X of shape .* contains NaN"),
        ({"y": y[:3]}, "y has shape"),
        ({"y": np.array(["a"] * 9)}, "y has dtype"),
        ({"y": np.full((9, 2), 0.1)}, "y has equal values for all 9 signals"),
        ({"y": np.append(y[:8], np.inf)}, "y of shape .* contains NaN or infinity"),
        ({"progress": "yes"}, "progress is 'yes'"),
    ]
    for change, message in bad:
        with pytest.raises(ValueError, match=message):
            regression.channel_weights(**{"kernel": GradientsOnly(), "X": X, "y": y} | change)
    for change, message in (
        *bad,
        ({"kernel": lambda X, Z=None: X}, "which has gradients"),
        ({"kernel": rk.ResCNTK(1, activation="erf")}, "gradients of"),
        ({"steps": 0}, "steps is 0"),
        ({"identity": 1.0}, "identity is 1.0, expected from 0 to below 1"),
        ({"cases": 0}, "cases is 0"),
        ({"random_state": -1}, "random_state is -1"),
        ({"dtype": "float16"}, "dtype is 'float16'"),
    ):
        with pytest.raises(ValueError, match=message):
            regression.channel_metric(**{"kernel": GradientsOnly(), "X": X, "y": y} | change)
    with pytest.raises(ValueError, match="gradients of 0 at X, expected signals"):
        regression.channel_metric(GPK, 0 * X, y)
