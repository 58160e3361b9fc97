"""Doubtful pairs: what the kernels add up, what is computed again, and what that is worth."""

from functools import partial
from itertools import product

import numpy as np
import pytest

import rescntk as rk
from rescntk.engines.cuda.launch_plan import LaunchPlan
from rescntk.validation import DTYPES, HEADS, KINDS
from tests.difficult_signals import decays, lognormal, steps, uneven
from tests.engines import test_properties as properties
from tests.engines.bodies import accuracy
from tests.engines.cuda import emulated

pytestmark = [emulated.on_host, pytest.mark.slow]

ALL = ("input", "inner", "outer", "readout")


FAMILIES = {
    **{f"near {change:g}": partial(uneven, closeness=change) for change in (1e-2, 1e-4, 1e-7)},
    "decays": decays,
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


@pytest.mark.parametrize(
    ("name", "family"),
    [*(("filter 3", family) for family in FAMILIES), *product([*NETWORKS][1:], MOST_DOUBTFUL)],
)
def test_families_that_lose_digits(device, name, family, rng):
    """Against the definition in 40-digit arithmetic."""
    accuracy.assert_accurate(["cuda"], NETWORKS[name], FAMILIES[family](1, 6, rng))


@pytest.mark.parametrize("family", MOST_DOUBTFUL)
@pytest.mark.parametrize("head", HEADS)
def test_properties_of_doubtful_pairs(device, family, head, rng):
    """To the bit: symmetric, the diagonal, a pair by itself, shifts."""
    X, network = FAMILIES[family](1, 6, rng), NETWORKS["filter 3"]
    for dtype in DTYPES:
        options = {"head": head, "engine": "cuda", "dtype": dtype}
        whole = rk.gram(network, X, **options)
        apart = rk.gram(network, X[1:], X[:2], **options)
        shifted = rk.gram(network, np.roll(X, 2, axis=2), **options)
        for kind, K, part, moved in zip(KINDS, whole, apart, shifted, strict=True):
            assert (K == K.T).all() and (part == K[1:, :2]).all()
            diagonal = rk.Kernel(network, kind, head).diag(X, engine="cuda", dtype=dtype)
            assert (diagonal == K.diagonal()).all()
            pairs = rk.Kernel(network, kind, head).paired(X, X[::-1], engine="cuda", dtype=dtype)
            assert (pairs == K[:, ::-1].diagonal()).all()
            assert head == "equivariant" or (moved == K).all()
    symmetric = properties.test_a_gram_is_symmetric_to_the_bit_and_semidefinite
    frozen = network.replace(trained=("inner", "outer"))
    symmetric.hypothesis.inner_test("cuda", frozen, X, head)


# ---------------------------------------------------------------- sums


@pytest.mark.parametrize("alpha", [1e-9, 1e-2, 1e3])
def test_gap_of_signals_of_zero_mean(device, alpha, rng):
    """Branches of order α² beside entries of F⁰ of order 1, whose mean is 0."""
    X = rng.standard_normal((3, 2, 5))
    X -= X.mean(axis=2, keepdims=True)
    for network in (rk.Network(3, 3, alpha=alpha, trained=ALL), rk.Network(2, 17, alpha=alpha)):
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


@pytest.mark.parametrize("channels", [17, 10_000])
def test_many_channels(device, channels, rng):
    X = rng.standard_normal((2, channels, 1))
    accuracy.assert_accurate(["cuda"], rk.Network(1, 1), X)
