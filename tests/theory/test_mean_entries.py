"""Mean entries over depth, against matrices and sums written out."""

from math import comb
from typing import NamedTuple

import numpy as np
import pytest

import rescntk as rk
from rescntk.theory import conditioning, multisphere
from tests import tolerances
from tests.helpers import assert_within

X, DEPTHS = multisphere.sample(6, 3, 7, rng=0), (1, 2, 7, 30)
OFF = ~np.eye(6, dtype=bool)


class Entries(NamedTuple):
    """A network, the table of its mean entries, and a CNN's by depth, from its matrices."""

    network: rk.Network
    table: conditioning.MeanEntries
    of_cnn: list

    @property
    def resnets_and_sums_and_cnns(self):
        """The table's columns of mean entries, (depths, 3)."""
        return np.array([[row.resnet, row.mixture, row.cnn] for row in self.table])


def mean_entry(network):
    """Return the mean of the entries beside a Gram matrix's diagonal."""
    return rk.Kernel(network, "gpk", "trace", normalized=True)(X)[OFF].mean()


@pytest.fixture(scope="module", params=[rk.Network(1, alpha=0.5), rk.Network(1, 5, c_w=3.0)])
def entries(request):
    network = request.param
    cnns = [network.replace(depth=depth, skip=False) for depth in range(1, 31)]
    of_signals = (X.reshape(6, -1) @ X.reshape(6, -1).T)[OFF].mean() / 21
    table = conditioning.mean_entries(network, X, DEPTHS)
    return Entries(network, table, [of_signals, *map(mean_entry, cnns)])


def test_rows_have_the_depths_that_were_asked_for(entries):
    assert tuple(row.depth for row in entries.table) == DEPTHS


def test_mean_entries_of_resnets_are_those_of_their_matrices(entries):
    expected = [mean_entry(entries.network.replace(depth=depth)) for depth in DEPTHS]
    assert_within(entries.table.column("resnet"), expected, tolerances.ROUTES, 1)


def test_mean_entries_of_cnns_are_those_of_their_matrices(entries):
    expected = [entries.of_cnn[depth] for depth in DEPTHS]
    assert_within(entries.table.column("cnn"), expected, tolerances.ROUTES, 1)


def test_the_sum_between_is_binomial_over_the_depths_of_cnns(entries):
    p, b = entries.network.branch_share, entries.of_cnn
    expected = [
        sum(comb(L, k) * p**k * (1 - p) ** (L - k) * b[k] for k in range(L + 1)) for L in DEPTHS
    ]
    assert_within(entries.table.column("mixture"), expected, tolerances.ROUTES, 1)


def test_mean_entries_rise_from_resnets_over_the_sum_to_cnns(entries):
    assert (np.diff(entries.resnets_and_sums_and_cnns, axis=1) >= -tolerances.ROUTES).all()


def test_condition_numbers_of_mean_entries_are_lower_for_resnets(entries):
    """Theorem 6.2, part 3: 1 + n b/(1 − b), from the first depth with b ≥ 0 on."""
    b = np.array([[row.resnet, row.cnn] for row in entries.table])
    resnets, cnns = (1 + 6 * b / (1 - b))[np.array(DEPTHS) >= entries.table.first_depth].T
    assert len(resnets) and (resnets < cnns).all()


@pytest.fixture(scope="module")
def opposites():
    signal = multisphere.sample(1, 4, 5, rng=0)
    return np.concatenate([signal, -signal])


@pytest.fixture(scope="module")
def of_opposites(opposites):
    """Return the table of two opposite signals."""
    return conditioning.mean_entries(rk.Network(1), opposites, (1, 2, 3, 4))


def test_mean_entries_of_opposite_signals_at_depth_1(of_opposites):
    """From −1 the first layer leads to −½ in a ResNet, and to 0 in a CNN."""
    first = of_opposites.rows[0]
    assert_within([first.resnet, first.cnn], np.array([-0.5, 0.0]), tolerances.ROUTES, 1)


def test_the_first_depth_where_the_theorem_holds(of_opposites):
    """The first ResNet whose mean entry is not negative has this depth."""
    positive = [row.depth for row in of_opposites if row.resnet >= 0]
    assert of_opposites.first_depth == positive[0] > 1
    assert of_opposites.rows[positive[0] - 1].cnn >= 0


def test_no_first_depth_is_known_before_the_theorem_holds(opposites):
    assert conditioning.mean_entries(rk.Network(1), opposites, (1,)).first_depth is None
