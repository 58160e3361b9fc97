"""Sampled networks against the exact kernels: the strongest independent check there is."""

import numpy as np
import pytest

import rescntk as rk
from rescntk import finite, literature
from rescntk.finite.sampling import slope_over_widths
from tests import tolerances

pytestmark = pytest.mark.slow

WIDTHS, SAMPLES = (16, 128), 36

# Systems of the papers, heads and kinds: all rows are in benchmarks/finite_concentration.py.
CASES = {
    "ResCNTK, dilated": (rk.Network(2, 3, alpha=0.8, dilation=(2, 3)), "ntk", "trace", 4),
    "ResCGPK, of several lengths": (rk.Network(2, 5, readout_scale=0.5), "gpk", "gap", [4, 2, 4]),
    "CNTK, one convolution": (literature.geifman_cnn(2), "ntk", "equivariant", 4),
    "erf, window, frozen readout": (
        rk.Network(2, 3, activation="erf", input_filter_size=3, trained=("inner", "outer")),
        "ntk",
        "gap",
        4,
    ),
    "biases": (rk.Network(2, 3, bias=0.8, alpha=0.7), "ntk", "gap", 4),
    "images": (rk.Network(2, 3, outer_filter_size=5, input_filter_size=3), "ntk", "gap", (2, 3)),
}


@pytest.mark.parametrize("name", CASES)
def test_finite_networks_concentrate_on_the_kernels(name, rng):
    network, kind, head, d = CASES[name]
    lists, sides = isinstance(d, list), np.atleast_1d(d)
    X = [rng.standard_normal((2, n)) for n in d] if lists else rng.standard_normal((3, 2, *sides))
    table = finite.concentration(1, network, X, WIDTHS, SAMPLES, head, kind)
    assert abs(table.slope + 0.5) <= tolerances.STANDARD_ERRORS * table.slope_error
    assert np.abs(table.deviations).max() <= tolerances.STANDARD_ERRORS
    # The test has teeth: the slopes 0 and −1, and means a tenth away, would not pass.
    assert table.slope_error <= 0.5 / tolerances.STANDARD_ERRORS
    assert table.widest[1].max() <= 0.1 * np.abs(table.exact).max()
    assert "theory: −1/2" in str(table)
    assert table.column("width").tolist() == list(WIDTHS) and len(table) == 2


def test_mean_and_standard_error(rng):
    network, X = rk.Network(1, 3), rng.standard_normal((2, 2, 3))
    mean, error = finite.gpk(0, network, X, 8, 5, "trace")
    kernels = finite.samples(0, network, X, 8, 5, "trace", "gpk")
    assert kernels.shape == (5, 2, 2) and (mean == kernels.mean(axis=0)).all()
    deviation = kernels.std(axis=0, ddof=1) / np.sqrt(5)
    assert np.abs(error / deviation - 1).max() <= tolerances.ROUTES
    assert finite.samples(0, network, X, 8, 2, dtype="float32").dtype == np.float32


def test_the_power_law_fit():
    rows = [finite.ConcentrationRow(c, 3 * c**-0.5, 0.1 * c**-0.5) for c in (10, 100, 1000)]
    slope, error = slope_over_widths(rows)
    assert abs(slope + 0.5) <= tolerances.ROUTES
    assert abs(error - 1 / 30 / (np.sqrt(2) * np.log(10))) <= tolerances.ROUTES
    assert np.isnan(slope_over_widths([rows[0], finite.ConcentrationRow(100, 0.0, 0.1)])).all()


def test_refusals(rng):
    network, X = rk.Network(1), rng.standard_normal((2, 2, 3))
    for match, arguments in {
        "n_samples is 1, expected an integer of at least 2": (0, network, X, (4, 8), 1),
        r"widths is \(8, 4\), expected at least two rising": (0, network, X, (8, 4), 2),
        r"widths is \(8,\), expected": (0, network, X, (8,), 2),
        "widths is 3, expected a sequence": (0, network, X, 3, 2),
        "kind is 'nngp', expected one of": (0, network, X, (4, 8), 2, "gap", "nngp"),
        "head is 'max'": (0, network, X, (4, 8), 2, "max"),
        "the exact kernel of X is 0": (0, network, 0 * X, (4, 8), 2),
        "expected one length, or head 'gap'": (0, network, [X[0], X[1, :, :2]], (4, 8), 2, "trace"),
    }.items():
        with pytest.raises(ValueError, match=match):
            finite.concentration(*arguments)


def test_samples_larger_than_the_free_memory_are_refused(rng):
    network, X, many = rk.Network(1), rng.standard_normal((2, 2, 3)), 10**13
    for call in (
        lambda: finite.samples(0, network, X, 8, many),
        lambda: finite.gpk(0, network, X, 8, many),
        lambda: finite.concentration(0, network, X, (4, 8), many),
    ):
        with pytest.raises(MemoryError, match=f"^n_samples is {many}: {many} kernels of 2 × 2"):
            call()
