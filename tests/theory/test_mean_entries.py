"""Mean entries over depth, against matrices and sums written out."""

from math import comb

import numpy as np
import pytest

import rescntk as rk
from rescntk.theory import conditioning, multisphere
from tests import tolerances


@pytest.mark.parametrize("network", [rk.Network(1, alpha=0.5), rk.Network(1, 5, c_w=3.0)])
def test_mean_entries_of_both_matrices_and_the_sum_between(network):
    X, depths = multisphere.sample(6, 3, 7, rng=0), (1, 2, 7, 30)
    off = ~np.eye(6, dtype=bool)

    def mean(depth, skip):
        deep = network.replace(depth=depth, skip=skip)
        return rk.Kernel(deep, "gpk", "trace", normalized=True)(X)[off].mean()

    b = [(X.reshape(6, -1) @ X.reshape(6, -1).T)[off].mean() / 21]
    b += [mean(k, False) for k in range(1, 31)]
    p = network.branch_weight
    table = conditioning.mean_entries(network, X, depths)
    for row, L in zip(table, depths, strict=True):
        expected = sum(comb(L, k) * p**k * (1 - p) ** (L - k) * b[k] for k in range(L + 1))
        found = np.array([row.resnet, row.mixture, row.cnn])
        assert np.abs(found - [mean(L, True), expected, b[L]]).max() <= tolerances.ROUTES
        assert row.depth == L
        assert (np.diff(found) >= -tolerances.ROUTES).all()
        if L >= table.first_depth:  # theorem 6.2, part 3
            of_b = [1 + 6 * each / (1 - each) for each in (row.resnet, row.cnn)]
            assert of_b[0] < of_b[1]


def test_the_first_depth_where_the_theorem_holds():
    """Opposite signals start at −1: a ResNet's b is −½ at depth 1, a CNN's 0."""
    X = multisphere.sample(1, 4, 5, rng=0)
    pair = np.concatenate([X, -X])
    table = conditioning.mean_entries(rk.Network(1), pair, (1, 2, 3, 4))
    assert abs(table.rows[0].resnet + 0.5) <= tolerances.ROUTES
    assert abs(table.rows[0].cnn) <= tolerances.ROUTES
    positive = [row.depth for row in table if row.resnet >= 0]
    assert table.first_depth == positive[0] > 1
    assert conditioning.mean_entries(rk.Network(1), pair, (1,)).first_depth is None
