"""What a spectrum tells, from eigenvalues and errors that are written down."""

import numpy as np
import pytest

from rescntk.theory.spectrum import Spectrum
from rescntk.theory.spectrum.quadrature import multiplicities
from tests import tolerances


def spectrum_of(values, errors=None, trace=1.0, head="trace", n_channels=2):
    """Return a spectrum, without errors where none are given."""
    values = np.array(values)
    errors = np.full(values.shape, np.nan) if errors is None else np.array(errors)
    return Spectrum(values, errors, trace, head, n_channels)


def test_an_eigenvalue_enters_a_fit_above_ten_times_its_error():
    found = spectrum_of([1.0, 1.0, 1.0, 0.0], [1 / 9, 1 / 11, 0.0, 0.0])
    assert found.resolved.tolist() == [False, True, True, False]


def test_an_eigenvalue_of_one_function_is_0_up_to_its_error():
    found = spectrum_of([1.0, 1.0, -1.0], [1.01, 0.99, 0.5])
    assert found.significant.tolist() == [0.0, 1.0, 0.0]


def test_an_eigenvalue_in_a_sum_counts_below_its_error_but_not_below_0():
    found = spectrum_of([1.0, 0.5, -0.5], [0.1, 1.0, 1.0])
    assert found.estimates.tolist() == [1.0, 0.5, 0.0]


def test_the_tail_is_what_the_trace_has_beside_its_eigenvalues():
    """On the circle frequency 0 occurs once and each other one twice."""
    found = spectrum_of([0.5, 0.125, -1.0])
    assert found.tail == 0.25


def test_no_tail_is_negative():
    """Rounding errors of quadrature may lift a sum of eigenvalues above the trace."""
    assert spectrum_of([1.0, 0.125]).tail == 0.0


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_a_norm_is_that_of_all_frequencies_whatever_its_size(scale):
    """3² + 4² = 5², also where the squares leave float64."""
    found = spectrum_of([1.0, 0.25], [0.0, 0.0])
    norm = found.rkhs_norm([3.0 * scale, 2.0 * scale])
    assert abs(norm / scale - 5.0) <= 5.0 * tolerances.ROUTES


@pytest.mark.parametrize(("change", "finite"), [(1e-14, True), (1e-9, False)])
def test_coefficients_of_gap_are_equal_at_all_shifts_up_to_rounding(change, finite):
    found = spectrum_of(np.full((2, 2), 0.1), np.zeros((2, 2)), head="gap")
    norm = found.rkhs_norm([[0.0, 1.0], [1.0 + change, 0.0]])
    assert np.isfinite(norm) == finite


def test_the_tail_of_gap_is_the_part_of_the_equivariant_kernel():
    """Whose eigenvalues are those of trace on average over shifts."""
    values = [[0.25, 0.125], [0.125, 1 / 32]]
    tails = [spectrum_of(values, head=head).tail for head in ("gap", "trace")]
    assert tails[0] == tails[1] > 0


@pytest.mark.parametrize("frequency", [(2, 2), (2, 2, 2), (2, 0, 2, 0), (2, 0, 0, 0)])
@pytest.mark.parametrize("n_channels", [2, 3])
def test_bounds_of_gaps_tail_hold_for_the_least_frequency_that_is_missing(frequency, n_channels):
    """GAP has a d-th of the equivariant functions, and those more that a shift keeps."""
    d, top = len(frequency), (2,) * len(frequency)
    counts = [multiplicities(n_channels, top, shift_invariant=gap)[frequency] for gap in (1, 0)]
    values = np.zeros((2,) * (d - 1) + (4,))
    found = spectrum_of(values, head="gap", n_channels=n_channels)
    least, most = found.tail_bounds
    share = counts[0] / counts[1]
    assert least == found.tail / d <= share * (1 + tolerances.ROUTES)
    assert share <= most * (1 + tolerances.ROUTES)
    if set(frequency) == {2}:  # every shift keeps as many as any
        assert abs(most / share - 1) <= tolerances.ROUTES
