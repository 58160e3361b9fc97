"""Images outside the engines: results equal the plain Gram, or a message refuses them."""

from dataclasses import replace

import numpy as np
import pytest

import rescntk as rk
from rescntk.theory import conditioning, depth, limits, locality, multisphere, smoothness
from tests import tolerances


@pytest.fixture
def X(rng):
    return rng.standard_normal((9, 2, 3, 4))


@pytest.mark.parametrize("head", ["trace", "gap"])
def test_condition_numbers(head, X):
    for row in conditioning.compare(X, (1, 4), head=head):
        K = rk.ResCGPK(row.depth, head=head, normalized=True)(X)
        assert row.resnet == conditioning.condition_number(K)
    # Filters of one tap see no neighbours: images are signals of all their pixels. Deficits repeat
    # whole pairs of images, and some rows of pairs of signals: λ_min errs by up to n entries.
    tables = [conditioning.compare(A, (1, 50), 1, head=head) for A in (X, X.reshape(9, 2, 12))]
    if head == "trace":
        assert tables[0] == tables[1]
    images, signals = (np.array(table.rows) for table in tables)
    largest = max(max(row.cnn, row.resnet) for row in tables[0])
    bar = 4 * len(X) * tolerances.KERNEL["float64"] * largest  # a ratio has two λ_max and two λ_min
    assert np.isclose(images, signals, rtol=bar, atol=0).all() and bar < 1e-6
    assert replace(tables[0], rows=()) == replace(tables[1], rows=())
    assert tables[0].n_timepoints == 12


@pytest.mark.parametrize("kind", ["gpk", "ntk"])
def test_receptive_fields_of_images(kind):
    """Weights are K(x, x) of images with one pixel of energy 1."""
    impulses = np.eye(35).reshape(35, 1, 5, 7)
    options = {"outer_filter_size": 5, "input_filter_size": 3, "dilation": (1, 2)}
    paths = np.outer(*(locality.path_counts(2, 3, d, **options) for d in (5, 7))).astype(float)
    for net in (rk.Network(2, 3, skip=skip, **options) for skip in (True, False)):
        weights = rk.Kernel(net, kind, "equivariant").diag(impulses).reshape(5, 7)
        fields = [locality.effective_receptive_field(net, d, kind) for d in (5, 7)]
        # Each line of weights has the rounding errors of the whole field.
        bar = tolerances.KERNEL["float64"] * weights.sum()
        for axis, field in enumerate(fields):
            assert np.abs(weights.sum(axis=1 - axis) - field).max() <= bar
        shares = paths * (weights.sum() / paths.sum())
        assert bool(np.abs(weights - shares).max() <= bar) is not net.skip


def test_rooms_of_one_axis(X):
    family = limits.Family(rk.Network(1), 1.0)
    functions = [multisphere.project, multisphere.dot_products, smoothness.gaussian_kernel]
    for function in (*functions, lambda X: depth.check(family, X)):
        with pytest.raises(ValueError, match="only signals, not images, are supported here"):
            function(X)
