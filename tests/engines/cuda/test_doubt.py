"""Doubtful pairs: what the kernels add up, what is computed again, and what that is worth."""

from functools import partial

import numpy as np
import pytest

import rescntk as rk
from rescntk.engines.cuda.launch_plan import LaunchPlan
from tests import tolerances
from tests.engines.bodies import accuracy, properties
from tests.engines.cuda import emulated

pytestmark = [emulated.on_host, pytest.mark.slow]

BOTH = ("gpk", "ntk")
ALL = ("input", "inner", "outer", "readout")


def near(change, rng, d=6):
    """Positive signals of one channel: one, and two with changed amplitudes; and its negative."""
    x = np.exp(rng.standard_normal((1, d)))
    changed = [x * (1 + change * rng.standard_normal(x.shape)) for _ in range(2)]
    return np.stack([x, *changed, -2 * x])


def decaying(rng, d=6):
    """exp(−k t) for some k."""
    return np.exp(-np.array([0.3, 1.0, 1.7])[:, None, None] * np.arange(d))


def lognormal(rng, d=6):
    """Amplitudes over many orders of magnitude."""
    return np.exp(4 * rng.standard_normal((3, 1, d)))


def steps(rng, d=6):
    """Windows exactly parallel and unequally long."""
    first = np.arange(d) < d // 2
    return np.stack([np.where(first, a, b)[None] for a, b in ((1.0, 1.0), (2.0, 0.3), (3.0, 5.0))])


FAMILIES = {
    **{f"near {change:g}": partial(near, change) for change in (1e-2, 1e-3, 1e-4, 1e-5, 1e-7)},
    "decaying": decaying,
    "lognormal": lognormal,
    "steps": steps,
}
MOST_DOUBTFUL = ("near 0.0001", "lognormal", "steps")

NETWORKS = {
    "filter 3": rk.Network(4, 3, trained=ALL),
    "no skip": rk.Network(4, 3, skip=False, trained=("inner",)),
    "shared memory": rk.Network(3, 17, outer_filter_size=3),
    "large alpha": rk.Network(5, 3, alpha=30.0),
    "pixels": rk.Network(50, 1),  # deep features of pixels become nearly parallel by themselves
}


FAMILIES_OF_NETWORKS = [
    (name, family)
    for name in NETWORKS
    for family in (FAMILIES if name == "filter 3" else MOST_DOUBTFUL)
]


@pytest.mark.parametrize(("name", "family"), FAMILIES_OF_NETWORKS)
def test_families_that_lose_digits(device, name, family, rng):
    """Against the definition in 40-digit arithmetic."""
    accuracy.assert_accurate(["cuda"], NETWORKS[name], FAMILIES[family](rng))


@pytest.mark.parametrize("family", MOST_DOUBTFUL)
@pytest.mark.parametrize("head", ["equivariant", "trace", "gap"])
def test_properties_of_doubtful_pairs(device, family, head, rng):
    """To the bit: symmetric, the diagonal, a pair by itself, shifts."""
    X, network = FAMILIES[family](rng), NETWORKS["filter 3"]
    for dtype in ("float64", "float32"):
        options = {"head": head, "engine": "cuda", "dtype": dtype}
        whole = rk.gram(network, X, **options)
        apart = rk.gram(network, X[1:], X[:2], **options)
        shifted = rk.gram(network, np.roll(X, 2, axis=2), **options)
        for kind, K, part, moved in zip(BOTH, whole, apart, shifted, strict=True):
            assert (K == K.T).all() and (part == K[1:, :2]).all()
            diagonal = rk.Kernel(network, kind, head).diag(X, engine="cuda", dtype=dtype)
            assert (diagonal == K.diagonal()).all()
            assert head == "equivariant" or (moved == K).all()
    network = network.replace(trained=("inner", "outer"))
    properties.a_gram_is_symmetric_to_the_bit_and_semidefinite("cuda", network, X, head)


# ---------------------------------------------------------------- sums


@pytest.mark.parametrize("alpha", [1e-9, 1e-2, 1e3])
def test_gap_of_signals_of_zero_mean(device, alpha, rng):
    """Branches of order α² beside entries of F⁰ of order 1, whose mean is 0."""
    X = rng.standard_normal((3, 2, 5))
    X -= X.mean(axis=2, keepdims=True)
    for network in (
        rk.Network(3, 3, alpha=alpha, trained=ALL),
        rk.Network(2, 17, alpha=alpha),
        rk.Network(3, 3, c_v=alpha**2, trained=("inner",)),
    ):
        accuracy.assert_accurate(["cuda"], network, X)


def test_three_grids(device, monkeypatch, rng):
    """Sums on three grids are those on two, to the last digits; forced upon short signals."""
    X, original = rng.standard_normal((2, 1, 13)), LaunchPlan.__init__

    def with_three(self, *shapes):
        original(self, *shapes)
        self.grids = 3

    whole = rk.gram(rk.Network(2), X, engine="cuda")
    monkeypatch.setattr(LaunchPlan, "__init__", with_three)
    for two, three in zip(whole, rk.gram(rk.Network(2), X, engine="cuda"), strict=True):
        assert (two == three).all()


@pytest.mark.parametrize("channels", [17, 20_000])
def test_many_channels(device, channels, rng):
    """Against signals of four channels with the same inner products, found in long double."""
    X = rng.standard_normal((2, channels, 2))
    X[1] = X[0] + 0.3 * X[1]
    vectors = X.transpose(0, 2, 1).reshape(4, channels).astype(np.longdouble)
    few = cholesky(vectors @ vectors.T).astype(float).reshape(2, 2, 4).transpose(0, 2, 1)
    network = rk.Network(2, 1, input_scale=1 / channels)
    for head in ("trace", "gap"):
        exact = rk.gram(network, few, head=head, engine="reference")
        for dtype, bar in tolerances.KERNEL.items():
            ours = rk.gram(network, X, head=head, engine="cuda", dtype=dtype)
            for A, B in zip(ours, exact, strict=True):
                assert np.abs(A - B).max() <= bar * np.abs(B).max()


def cholesky(A):
    """Return L with A = L Lᵀ, in the precision of A."""
    L = np.zeros_like(A)
    for j in range(len(A)):
        L[j, j] = np.sqrt(A[j, j] - (L[j, :j] ** 2).sum())
        for i in range(j + 1, len(A)):
            L[i, j] = (A[i, j] - (L[i, :j] * L[j, :j]).sum()) / L[j, j]
    return L
