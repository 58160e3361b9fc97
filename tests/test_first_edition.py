"""Kernels and theory have the golden values of the first edition (tests/first_edition.py)."""

import numpy as np
import pytest

from . import first_edition, tolerances

SIGNALS, GOLDEN = first_edition.load()
KERNELS = [key for key in first_edition.GROUPS if key[1] != "theory"]
THEORY = [key for key in first_edition.GROUPS if key[1] == "theory"]


def errors(key, *engine):
    """Return the relative error of each case of a group; infinite where its shape is wrong."""
    group, *dtype = first_edition.GROUPS[key]
    found = {}
    for name, values, _ in group(SIGNALS, *dtype, *engine):
        golden, sizes = GOLDEN[(*key, name)]
        values = np.ravel(values).astype(np.float64)
        values = values if values.shape == golden.shape else np.nan
        with np.errstate(invalid="ignore", divide="ignore"):
            apart = np.where(values == golden, 0.0, np.abs(values - golden) / sizes)
        found[name] = np.nan_to_num(apart, nan=np.inf).max()
    assert [(*key, name) for name in found] == [case for case in GOLDEN if case[:2] == key]
    return found


def assert_golden(found, tolerance):
    assert not {name: error for name, error in found.items() if not error <= tolerance}


@pytest.mark.parametrize("engine", ["auto", "reference"])
@pytest.mark.parametrize("key", KERNELS, ids=" ".join)
def test_kernels(key, engine):
    bar = tolerances.KERNEL[key[1]]
    if key[0] == "erf":
        bar = max(bar, tolerances.FIRST_EDITION["erf"])
    assert_golden(errors(key, engine), bar)


@pytest.mark.parametrize("key", THEORY, ids=" ".join)
def test_theory(key):
    bar = tolerances.FIRST_EDITION["theory"]
    if key[0] == "derivatives":
        bar = tolerances.derivative("float64")
    assert_golden(errors(key), bar)
