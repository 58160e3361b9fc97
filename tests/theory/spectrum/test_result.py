"""What a spectrum tells, from eigenvalues and errors that are written down."""

import numpy as np
import pytest

from rescntk.theory.spectrum import Spectrum
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
