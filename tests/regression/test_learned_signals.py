"""Learned signals: their loss, its gradient, starts, interruptions, and what they predict."""

import numpy as np
import pytest

import rescntk as rk
from rescntk import regression
from rescntk.arrays import SignalList
from rescntk.datasets import load_labelled
from rescntk.regression import learned_signals
from tests import tolerances

REFERENCE = {"engine": "reference"}


def loss_of(kernel, X, Y, start, weights=None, penalty=0.1):
    weights = np.ones(len(X)) if weights is None else weights
    return learned_signals._Loss(kernel, X, Y, weights, penalty, start, REFERENCE)


KERNELS = {
    "normalized NTK": rk.ResCNTK(2, normalized=True),
    "GPK of large scale": rk.CGPK(2, c_w=30.0),
    "trace": rk.ResCNTK(2, head="trace"),
    "lists": rk.ResCGPK(1, normalized=True),
    "images": rk.ResCNTK(1, normalized=True),
}


@pytest.mark.parametrize("name", KERNELS)
def test_gradient_is_the_derivative_of_the_loss(rng, name):
    """Central differences in a random direction, Richardson's extrapolation of two steps."""
    X, S = rng.standard_normal((2, 12, 2, 9)) * 3.0
    if name == "images":
        X, S = X[:, :1].reshape(12, 1, 3, 3), S[:, :1].reshape(12, 1, 3, 3)
    S = S[:4]
    if name == "lists":
        X, S = (SignalList([x[:, : 5 + k % 4] for k, x in enumerate(part)]) for part in (X, S))
    loss = loss_of(KERNELS[name], X, rng.standard_normal((12, 3)), S, rng.uniform(0.5, 2, 12))
    at = loss.flat(S)
    gradient, way = loss(at)[1], rng.standard_normal(len(at))
    step = 2e-4
    slopes = [(loss(at + h * way)[0] - loss(at - h * way)[0]) / (2 * h) for h in (step, 2 * step)]
    expected = (4 * slopes[0] - slopes[1]) / 3
    # Losses are of order 1: they err by some 100 eps, divided by the step; truncation is step^4.
    assert abs(gradient @ way - expected) <= 1e3 * tolerances.EPS["float64"] / step


def test_loss_at_the_start_is_of_the_restricted_ridge(rng):
    X, Y, w = rng.standard_normal((15, 1, 8)), rng.standard_normal((15, 2)), rng.uniform(1, 2, 15)
    kernel = rk.ResCNTK(2, normalized=True)
    S = X[:5]
    found = regression.learn_signals(
        kernel, X, Y, 5, start=S, penalty=0.1, max_iterations=1, case_weights=w, **REFERENCE
    )
    ridge = regression.restricted_ridge(kernel, X, Y, range(5), 0.1, case_weights=w)
    W, chosen = ridge.coefficients, X[ridge.features.landmarks]
    errors = kernel(X, chosen) @ W - Y
    expected = (w[:, None] * errors**2).sum() + 0.1 * np.trace(W.T @ kernel(chosen) @ W)
    assert np.isclose(found.losses[0], expected, rtol=1e-9)
    assert found.losses[-1] < found.losses[0] and found.signals.shape == S.shape
    assert (S == X[:5]).all()


def test_equal_signals_have_finite_coefficients(rng):
    X, y = rng.standard_normal((15, 1, 8)), rng.standard_normal(15)
    kernel, S = rk.ResCNTK(2, normalized=True), X[[0, 0, 1, 2]]
    for dtype in ("float64", "float32"):
        found = regression.learn_signals(
            kernel, X, y, 4, start=S, max_iterations=8, dtype=dtype, **REFERENCE
        )
        assert np.isfinite(found.coefficients).all() and found.coefficients.shape == (4,)
        assert found.losses[-1] < 0.9 * found.losses[0]
        assert (np.diff(found.losses) <= 0).all()


def test_powers_of_two_change_no_digit(rng):
    """Of signals with a normalized kernel, and of targets."""
    X, y = rng.standard_normal((15, 1, 8)), rng.standard_normal(15)
    kernel = rk.ResCNTK(2, normalized=True)
    options = {"max_iterations": 5, **REFERENCE}
    plain = regression.learn_signals(kernel, X, y, 3, **options)
    for power in (-990, -200, 100, 990):
        targets = int(np.clip(power, -400, 400))  # losses are squares of targets
        inputs = np.ldexp(X, power), np.ldexp(y, targets)
        scaled = regression.learn_signals(kernel, *inputs, 3, **options)
        assert (scaled.signals == np.ldexp(plain.signals, power)).all()
        assert (scaled.coefficients == np.ldexp(plain.coefficients, targets)).all()


def test_starts(rng):
    X, kernel = rng.standard_normal((30, 1, 8)), rk.ResCNTK(2, normalized=True)
    labels = np.array([0] * 20 + [1] * 8 + [2] * 2)
    places = learned_signals.of_each_label(labels, 9, np.random.default_rng(0))
    assert np.bincount(labels[places]).tolist() == [4, 3, 2] and len(set(places)) == 9
    one_hot = 1.0 * (labels[:, None] == np.arange(3))
    chosen = learned_signals._start(kernel, X, one_hot, 3, None, 0, {})
    assert {labels[(X == s).all(axis=(1, 2))].item() for s in chosen} == {0, 1, 2}
    numbers = rng.standard_normal(30)
    pivots = regression.pivoted_cholesky(kernel, X, 3, seed=4).landmarks
    assert (learned_signals._start(kernel, X, numbers, 3, None, 4, {}) == X[pivots]).all()
    X[3:] = X[2]  # of rank 3 only
    assert len(learned_signals._start(kernel, X, numbers, 5, "pivoted", 4, {})) == 5


class Interrupted:
    """A kernel that is interrupted at its gradient number `at`."""

    def __init__(self, at):
        self.kernel, self.at = rk.ResCNTK(2, normalized=True), at

    def __call__(self, *signals, **options):
        return self.kernel(*signals, **options)

    def vjp(self, *signals, **options):
        self.at -= 1
        if self.at == 0:
            raise KeyboardInterrupt
        return self.kernel.vjp(*signals, **options)


def test_tolerance_ends_it_at_the_first_small_gain(rng):
    """With the signals that the same search has there."""
    X, y = rng.standard_normal((15, 1, 8)), rng.standard_normal(15)
    kernel, options = rk.ResCNTK(2, normalized=True), {"max_iterations": 15, **REFERENCE}
    long = regression.learn_signals(kernel, X, y, 3, **options)
    short = regression.learn_signals(kernel, X, y, 3, tolerance=0.2, **options)
    small = long.losses[3:] > 0.8 * long.losses[:-3]
    end = int(small.argmax()) + 4
    assert small.any() and end < len(long.losses)
    assert (short.losses == long.losses[:end]).all()


def test_interruption_returns_the_best_so_far(rng):
    X, y = rng.standard_normal((15, 1, 8)), rng.standard_normal(15)
    with pytest.warns(UserWarning, match="interrupted in iteration [23] of 50.*best so far"):
        found = regression.learn_signals(
            Interrupted(8), X, y, 3, max_iterations=50, start=X[:3], **REFERENCE
        )
    K = rk.ResCNTK(2, normalized=True)(X, found.signals)
    errors = K @ found.coefficients - y
    assert errors @ errors < found.losses[0]
    with pytest.raises(KeyboardInterrupt):  # nothing has been computed yet
        regression.learn_signals(Interrupted(2), X, y, 3, start=X[:3], **REFERENCE)


def test_refusals(rng):
    X, y, kernel = rng.standard_normal((15, 1, 8)), rng.standard_normal(15), rk.ResCNTK(1)
    for change, message in (
        ({"kernel": lambda X, Z=None: X}, "which has gradients"),
        ({"kernel": rk.ResCNTK(1, activation="erf")}, "gradients of"),
        ({"n_signals": 16}, "n_signals is 16, expected at most the number of signals of X, 15"),
        ({"n_signals": 0}, "n_signals is 0"),
        ({"penalty": 0.0}, "penalty is 0.0"),
        ({"max_iterations": 0}, "max_iterations is 0"),
        ({"tolerance": 1.0}, "tolerance is 1.0, expected from 0 to below 1"),
        ({"tolerance": -0.1}, "tolerance is -0.1"),
        ({"start": "random"}, "start is 'random', expected"),
        ({"start": X[:3]}, "start has 3 signals, expected n_signals = 4"),
        ({"start": X[:4, :, :5]}, "start has .* expected 8 timepoints"),
        ({"y": y[:3]}, "y has shape"),
        ({"y": y * np.nan}, "y"),
        ({"case_weights": -np.ones(15)}, "weights"),
        ({"random_state": -1}, "random_state is -1"),
    ):
        arguments = {"kernel": kernel, "X": X, "y": y, "n_signals": 4} | change
        with pytest.raises(ValueError, match=message):
            regression.learn_signals(**arguments)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": 1e300 * np.arange(15)}, "the results exceed float64, expected smaller targets"),
        ({"size": 1e300, "normalized": False}, "the kernel exceeds float64"),
        ({"size": 1e-300, "normalized": False}, "the kernel falls below float64"),
        ({"size": 1e-200, "dtype": "float32"}, "float32: X has signals of size 1e-200, expected a"),
        ({"size": 0.0}, "starts at signals whose kernels are all 0, expected some other than 0"),
        ({"size": 0.0, "normalized": False}, "signals whose kernels are all 0, expected some"),
    ],
)
def test_numbers_out_of_range_are_named(rng, changes, message):
    X = changes.pop("size", 1.0) * np.sign(rng.standard_normal((15, 1, 8)))
    kernel = rk.ResCNTK(2, normalized=changes.pop("normalized", True))
    arguments = {"y": np.arange(15.0), "max_iterations": 2} | changes
    with pytest.raises((ValueError, OverflowError), match=message):
        regression.learn_signals(kernel, X, n_signals=3, **arguments)


def test_four_learned_signals_classify_like_all():
    """ItalyPowerDemand, official parts: .94 with all 67 signals, some .6 with 4 chosen ones."""
    X, y = load_labelled("ItalyPowerDemand")
    Z, expected = load_labelled("ItalyPowerDemand", "test")
    kernel, signs = rk.ResCNTK(4, normalized=True), 2.0 * (y == y[0]) - 1
    options = {"max_iterations": 30, "dtype": "float32"}
    found = regression.learn_signals(kernel, X, signs, 4, **options)
    decisions = kernel(Z, found.signals, dtype="float32") @ found.coefficients
    assert ((decisions > 0) == (expected == y[0])).mean() >= 0.92
