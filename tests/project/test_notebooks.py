"""Every notebook runs from its first cell to its last, and is committed with its outputs."""

import math
import sys
from pathlib import Path

import nbformat
import pytest

FOLDER = Path(__file__).parents[2] / "notebooks"
sys.path.insert(0, str(FOLDER))
import run  # noqa: E402

NEEDED = {
    "gaussian_process": "sktime",
    "finite_networks": "jax",
    "beyond_the_kernel_regime": "jax",
    "large_gram": "zarr",
}
"""Packages that notebooks need or take their data from; all other notebooks use aeon's data."""

# Seconds of processor time, one run each. A notebook without an entry is new, and counts as
# the longest. The longest run first, so that no worker has one left when the others have finished.
SECONDS = {
    "time_series_classification": 80,
    "finite_networks": 42,
    "large_gram": 35,
    "beyond_the_kernel_regime": 34,
    "infinite_depth": 30,
    "gaussian_process": 27,
    "condition_numbers": 25,
    "eigenvalue_decay": 15,
    "smoothness": 12,
    "deep_degeneracy": 7,
    "locality": 3,
}

NOTEBOOKS = sorted(
    FOLDER.glob("*.ipynb"), key=lambda path: (-SECONDS.get(path.stem, math.inf), path)
)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs(path):
    pytest.importorskip(NEEDED.get(path.stem, "aeon"))
    executed = run.run(path)
    committed = nbformat.read(path, as_version=4)
    for now, then in zip(executed.cells, committed.cells, strict=True):
        if now.cell_type == "code":
            kinds = [[output.output_type for output in cell.outputs] for cell in (now, then)]
            assert kinds[0] == kinds[1], "committed without its outputs: run make notebooks"


def test_there_are_some():
    assert NOTEBOOKS
