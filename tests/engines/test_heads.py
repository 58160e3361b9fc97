"""Offsets of pixels that share pools, and means over pools."""

from fractions import Fraction

import numpy as np
import pytest

import rescntk as rk
from rescntk.engines import heads
from rescntk.engines.layer.means import pooled
from rescntk.theory import depth, multisphere
from tests import tolerances
from tests.helpers import ENGINES
from tests.oracles import definition
from tests.tolerances import CONSTANT

SIZES = [(2, (3,)), (3, (7,)), (4, (7,)), (4, (8,)), (5, (8,)), (7, (8,)), (3, (3, 5)), (3, (4, 4))]
"""Pools and axes: of few and of most pixels, even and odd; of images higher than they are."""

of_sizes = pytest.mark.parametrize(("w", "axes"), SIZES)


def shared_pairs(w, axes):
    """Return the number of pools that have both pixels of each pair, by counting, (d, d)."""
    inside = definition.pools(w, axes)
    return inside.T @ inside


def counts_of_ranges(w, axes, half):
    """Return the pools of each pixel pair by ranges of offsets, and how many offsets have it."""
    d = int(np.prod(axes))
    pixels = np.arange(d).reshape(axes)
    pools, n_offsets = np.zeros((2, d, d))
    for lines, first, counts in heads.offset_ranges(w, axes, half):
        for more, count in enumerate(counts):
            move = (lines, first + more)[-len(axes) :]
            right = np.roll(pixels, [-k for k in move], range(len(axes)))
            pools[pixels, right] += count
            n_offsets[pixels, right] += 1
    return pools, n_offsets


@of_sizes
def test_ranges_have_pixel_pairs_that_share_pools_once(w, axes):
    expected = shared_pairs(w, axes)
    pools, n_offsets = counts_of_ranges(w, axes, half=False)
    assert (pools == expected).all() and (n_offsets == (expected > 0)).all()


@of_sizes
def test_half_of_the_offsets_and_their_opposites_are_all_offsets(w, axes):
    pools, _ = counts_of_ranges(w, axes, half=True)
    assert (pools + pools.T == shared_pairs(w, axes)).all()


@of_sizes
def test_counts_of_pools_add_up_over_the_offsets_of_a_pixel(w, axes):
    assert heads.pool_count_sum(w, axes) * np.prod(axes) == shared_pairs(w, axes).sum()


@of_sizes
def test_offsets_are_counted_without_their_ranges(w, axes):
    assert heads.n_offsets(w, axes) == (shared_pairs(w, axes)[0] > 0).sum()


@of_sizes
def test_weights_of_offsets_are_their_parts_of_the_pools(w, axes):
    expected, d = shared_pairs(w, axes), int(np.prod(axes))
    weights, places = heads.pool_weights(w, axes), heads.right_pixels(w, axes)
    of_pairs = np.zeros((d, d))
    for weight, right in zip(weights, places, strict=True):
        of_pairs[np.arange(d).reshape(axes), right] += weight
    np.testing.assert_allclose(of_pairs, expected / expected[0].sum(), rtol=CONSTANT)


@of_sizes
@pytest.mark.parametrize("step", [1, -1])
def test_means_over_pools_keep_their_digits(w, axes, step, rng):
    """The terms are 1e9 times as large as the means, and the means have all digits."""
    X = rng.standard_normal((2, *axes)) * 1e9
    X -= X.mean(axis=tuple(range(1, X.ndim)), keepdims=True)
    pixels = heads.pool_pixels(w, axes)
    found = pooled(np, X, pixels, step)
    for place in np.ndindex(*axes):
        along = ((k + step * np.arange(w)) % n for k, w, n in zip(place, pixels, axes, strict=True))
        rows = X[:, *np.ix_(*along)].reshape(2, -1)
        exact = [float(sum(map(Fraction, row.tolist())) / rows.shape[1]) for row in rows]
        np.testing.assert_allclose(found[:, *place], exact, rtol=1.5 * tolerances.EPS["float64"])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("axes", [(12,), (3, 5)])
def test_pools_of_one_pixel_and_of_all_have_other_heads_bits(engine, axes, rng):
    X = rng.standard_normal((3, 2, *axes))
    for head, w in (("trace", 1), ("gap", np.int64(max(axes))), ("gap", 100)):
        for normalized in (False, True):
            options = {"normalized": normalized, "engine": engine}
            pairs = (rk.gram(rk.Network(3), X, head=each, **options) for each in (head, w))
            assert all((a == b).all() for a, b in zip(*pairs, strict=True))


CALLS = {
    "gram": lambda net, X, head: rk.gram(net, X, head=head).ntk,
    "pixel_shares": lambda net, X, head: rk.pixel_shares(net, X, head=head),
    "gram_complements": lambda net, X, head: multisphere.gram_complements(
        [net], X, kind="ntk", head=head
    ),
    "flow_limit": lambda net, X, head: depth.flow_limit(net, X, kind="ntk", head=head),
    "predict": lambda net, X, head: (
        depth.Family(net).predict(X, kind="ntk", head=head).complements(len(X))
    ),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_calls_take_pools_that_are_integers_of_numpy(call):
    X = multisphere.sample(3, 2, 8, rng=0)
    expected = call(rk.Network(2), X, 3)
    assert np.array_equal(call(rk.Network(2), X, np.int64(3)), expected)
    assert not np.array_equal(call(rk.Network(2), X, "trace"), expected)


def test_kernels_hold_integers_of_numpy_as_integers():
    kernel = rk.Kernel(rk.Network(3), "gpk", np.int64(4))
    assert kernel == rk.ResCGPK(3, head=4) and type(kernel.head) is int
