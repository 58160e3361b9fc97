"""Means of kernels over groups: against training on all transformed copies, and other heads."""

from itertools import permutations, product

import numpy as np
import pytest

import rescntk as rk
from rescntk.theory.learning import symmetrized
from tests import tolerances
from tests.helpers import assert_within


def reverse(X):
    return X[:, :, ::-1]


def swap(X):
    return X[:, [1, 0, 2]]


def turn(X):
    return X[:, [1, 2, 0]]


def shift(X):
    return np.roll(X, 1, axis=2)


CASES = [
    ([reverse], [np.positive, reverse]),
    ([reverse, np.negative], [np.positive, np.negative, reverse, lambda X: -reverse(X)]),
    ([swap, turn], [lambda X, p=p: X[:, list(p)] for p in permutations(range(3))]),
]
"""Generators, and all elements of the groups, written out."""


@pytest.mark.slow
@pytest.mark.parametrize("head", ["trace", "gap", 3])
@pytest.mark.parametrize("kind", ["gpk", "ntk"])
@pytest.mark.parametrize(("generators", "elements"), CASES)
def test_symmetrized_kernels_are_training_on_all_copies(generators, elements, kind, head, rng):
    """Ridge with K_G and the penalty λ/|G| is ridge with K and λ on n |G| signals."""
    kernel = rk.Kernel(rk.Network(3), kind, head)
    X, Z, y = rng.standard_normal((6, 3, 8)), rng.standard_normal((4, 3, 8)), rng.standard_normal(6)
    copies, penalty = np.concatenate([g(X) for g in elements]), 0.3
    K = kernel(copies) + penalty * np.eye(len(copies))
    expected = kernel(Z, copies) @ np.linalg.solve(K, np.tile(y, len(elements)))
    K_G = symmetrized(kernel, generators)
    own = K_G(X) + penalty / len(elements) * np.eye(len(X))
    found = K_G(Z, X) @ np.linalg.solve(own, y)
    assert np.abs(found - expected).max() <= tolerances.ROUTES * np.linalg.cond(K)


@pytest.mark.parametrize("head", ["trace", "gap", 3])
@pytest.mark.parametrize("kind", ["gpk", "ntk"])
@pytest.mark.parametrize(("generators", "elements"), CASES)
def test_symmetrized_kernels_are_those_of_changed_signals(generators, elements, kind, head, rng):
    """By one element on each side."""
    K_G = symmetrized(rk.Kernel(rk.Network(3), kind, head), generators)
    X, Z = rng.standard_normal((3, 3, 8)), rng.standard_normal((2, 3, 8))
    own, expected = K_G(X), K_G(X, Z)
    assert (own == own.T).all()
    for g, h in product(elements, repeat=2):
        assert_within(K_G(g(X), h(Z)), expected, tolerances.ROUTES, own.max())


@pytest.mark.parametrize("kind", ["gpk", "ntk"])
def test_the_mean_of_trace_over_all_shifts_is_gap(kind, rng):
    """Barzilai et al. 2022, section 4."""
    X, network = rng.standard_normal((4, 2, 7)), rk.Network(2, alpha=0.7)
    found = symmetrized(rk.Kernel(network, kind, "trace"), [shift])(X)
    expected = rk.Kernel(network, kind, "gap")(X)
    assert np.abs(found - expected).max() <= tolerances.ROUTES * expected.max()


def test_images_turn(rng):
    """The four quarter turns of images, whose kernels with trace they do not change."""
    X = rng.standard_normal((3, 1, 4, 4))
    kernel = rk.Kernel(rk.Network(2), "gpk", "trace")
    found = symmetrized(kernel, [lambda X: np.rot90(X, axes=(2, 3))])(X)
    turns = [kernel(X, np.rot90(X, k, axes=(2, 3))) for k in range(4)]
    assert np.abs(found - np.mean(turns, axis=0)).max() <= tolerances.ROUTES * found.max()


def ones(X, Z=None):
    return np.ones((len(X), len(X if Z is None else Z)))


X = np.random.default_rng(0).standard_normal((3, 3, 8))
TRACE, SCALELESS = (rk.Kernel(rk.Network(2), "gpk", "trace", normalized=n) for n in (False, True))


def test_biases_do_not_see_the_sign_of_both_signals():
    """Both signs together change no covariance of pre-activations, nor equivariant kernels."""
    K_G = symmetrized(rk.Kernel(rk.Network(2, bias=0.5), "ntk", "equivariant"), [np.negative])
    assert np.abs(K_G(X, -X) - K_G(X)).max() <= tolerances.ROUTES * K_G(X).max()


def test_a_group_may_have_all_permutations_of_seven_channels(rng):
    """The mean of ⟨x, πz⟩ over all permutations is the product of sums, divided by 7."""
    X, Z = rng.standard_normal((2, 7, 1)), rng.standard_normal((3, 7, 1))
    swap, turn = [1, 0, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 0]
    K_G = symmetrized(
        lambda X, Z=None: X[:, :, 0] @ (X if Z is None else Z)[:, :, 0].T,
        [lambda X: X[:, swap], lambda X: X[:, turn]],
    )
    expected = np.outer(X.sum(axis=(1, 2)), Z.sum(axis=(1, 2))) / 7
    bar = tolerances.added_up(5040 * 7) * 7 * np.abs(X).max() * np.abs(Z).max()
    assert np.abs(K_G(X, Z) - expected).max() <= bar


@pytest.mark.parametrize("size", [1.0, 1e-6])
def test_kernels_with_the_rounding_errors_of_float32_are_symmetrized(size):
    """Two kernels, each within the bar that the guide promises, differ by twice the bar.

    It is relative to the larger signal, beside which another one may be small.
    """
    signals = X * np.array([1.0, size, 1.0])[:, None, None]
    bar = tolerances.PROMISED["float32"] * TRACE(signals[:2]).max()

    def rounded(left, right=None):
        return TRACE(left, right) + (bar if np.array_equal(left[0], X[0]) else -bar)

    symmetrized(rounded, [reverse])(signals)


@pytest.mark.parametrize(
    ("kernel", "group", "message"),
    [
        (3, [reverse], "kernel is 3, expected a rescntk.Kernel or another callable"),
        (TRACE, [], r"group is \[\], expected one or more functions of signals"),
        (TRACE, reverse, "group is <function reverse.*, expected one or more functions"),
        (TRACE, [reverse, 2], "group is .*, expected one or more functions of signals"),
        (TRACE, [np.abs], "changes the kernel, number 0: expected K"),
        (ones, [np.abs], "is not one to one, number 0: expected symmetries such as time reversal"),
        (TRACE, [reverse, lambda X: X[:, :, ::2]], r"makes shape \(2, 3, 4\) of \(2, 3, 8\)"),
        (TRACE, [lambda X: 2.0 * X], "changes the kernel, number 0: expected K"),
        (TRACE, [lambda X: 1.0001 * X], "changes the kernel, number 0: expected K"),
        # The kernel of each signal with itself stays, that of two does not.
        (TRACE, [lambda X: np.sign(X[:, :1, 1:2]) * X], "changes the kernel, number 0: expected K"),
        (SCALELESS, [lambda X: 1.1 * X], "more than 5040 elements, expected a finite group"),
        (rk.ResCGPK(2, head="equivariant"), [reverse], "changes the kernel, number 0: expected K"),
    ],
)
def test_what_is_no_group_or_no_symmetry_is_refused(kernel, group, message):
    with pytest.raises(ValueError, match=message):
        symmetrized(kernel, group)(X)
