"""Filters and dilations that go beyond the signal, and long signals of equal numbers."""

import numpy as np
import pytest

import rescntk as rk
from rescntk import Network
from rescntk.checks.values import DTYPES
from tests import tolerances
from tests.difficult_signals import near
from tests.helpers import (
    CPU,
    ENGINES,
    assert_within,
)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("head", "d"), [("gap", 4000), ("trace", 100_000), (3, 1100)])
def test_constant_signals_have_the_kernel_of_one_point(head, d, dtype, rng):
    """Sums of equal terms are rounded alike."""
    network, x = Network(1, alpha=0.7), rng.standard_normal((4, 2, 1))
    long, short = (
        rk.gram(network, np.repeat(x, n, axis=2), head=head, dtype=dtype) for n in (d, 1)
    )
    for K, expected in zip(long, short, strict=True):
        size = np.sqrt(np.outer(expected.diagonal(), expected.diagonal()))
        assert (np.abs(K - expected) / size).max() <= tolerances.KERNEL[dtype]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES[1:])
def test_very_long_filters_are_exact(engine, rng):
    """A filter of a prime number of pixels is one merge of all of them, also in float32."""
    x = rng.standard_normal((1, 300))
    X, network = np.stack([x, near(x, rng)]), Network(20, 293)
    exact = rk.gram(network, X, head="equivariant", engine="array")
    for dtype, bar in tolerances.KERNEL.items():
        computed = rk.gram(network, X, head="equivariant", engine=engine, dtype=dtype)
        for K, P in zip(computed, exact, strict=True):
            size = np.sqrt(np.outer(P.diagonal(), P.diagonal()))
            assert (np.abs(K - P) / size).max() <= bar


@pytest.mark.parametrize("engine", CPU)
def test_filters_fold_on_the_ring(engine, rng):
    """6561 taps go 729 times around 9 pixels, as 9 taps go once."""
    X = rng.standard_normal((3, 2, 9))
    long, short = (rk.gram(Network(3, q, dilation=4), X, engine=engine) for q in (6561, 9))
    for K, expected in zip(long, short, strict=True):
        assert_within(K, expected, tolerances.KERNEL["float64"])


@pytest.mark.parametrize("engine", CPU)
@pytest.mark.parametrize("size", [999_983, 3 * 999_983, 999_983 * 1_000_003])
def test_filters_with_a_huge_prime_factor_are_refused(engine, size, rng):
    """Otherwise a filter of a million taps would take minutes and gigabytes."""
    X = rng.standard_normal((2, 1, 5))
    with pytest.raises(ValueError, match=f"a filter of {size} pixels, .* prime factors"):
        rk.gram(Network(1, size), X, engine=engine)


@pytest.mark.parametrize("engine", CPU)
def test_dilations_of_layers_count_modulo_the_lengths(engine, rng):
    """Both are bitwise equal."""
    lists = [rng.standard_normal((2, d)) for d in (4, 6, 12)]
    far = Network(3, 3, dilation=(12 * 10**12 + 5, 1, 12 * 10**9 + 7))
    folded = rk.gram(far.replace(dilation=(5, 1, 7)), lists, engine=engine)
    assert np.array_equal(rk.gram(far, lists, engine=engine), folded)


@pytest.mark.parametrize("engine", CPU)
@pytest.mark.parametrize("depth", [4, 40])
def test_dilations_that_float64_rounds_count_modulo_the_lengths(engine, depth, rng):
    """Both dilations are equal modulo 180, which all lengths divide. 40 layers exceed 64 bits."""
    lists = [rng.standard_normal((2, d)) for d in (5, 9, 4)]
    steps = (2**57 + 5, (2**57 + 5) % 180)
    far, folded = (rk.gram(Network(depth, 5, dilation=s), lists, engine=engine) for s in steps)
    for K, expected in zip(far, folded, strict=True):
        assert_within(K, expected, tolerances.KERNEL["float64"])


@pytest.mark.parametrize("fields", [{}, {"filter_size": 9}, {"outer_filter_size": 1}], ids=str)
@pytest.mark.parametrize("dilation", [29, 61, 700])
def test_dilations_may_exceed_the_lengths_of_a_list(dilation, fields, rng):
    """Compiled strips have vectors only at pixels that filters read. Arrays are rolled instead."""
    lists = [rng.standard_normal((2, d)) for d in (29, 31, 7, 30)]
    network = Network(3, dilation=dilation, **fields)
    for K, expected in zip(
        *(rk.gram(network, lists, engine=engine) for engine in CPU), strict=True
    ):
        assert np.abs(K - expected).max() <= 2 * tolerances.KERNEL["float64"] * expected.max()
