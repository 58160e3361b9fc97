"""Every notebook runs from its first cell to its last, and is committed with its outputs.

Notebooks run with smaller sizes here; the committed outputs have the notebooks' own.
"""

import math
import sys
from pathlib import Path

import nbformat
import pytest

FOLDER = Path(__file__).parents[2] / "notebooks"
sys.path.insert(0, str(FOLDER))
import run  # noqa: E402

pytestmark = pytest.mark.slow

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
    "finite_networks": 36,
    "beyond_the_kernel_regime": 34,
    "large_gram": 33,
    "infinite_depth": 29,
    "gaussian_process": 20,
    "time_series_classification": 17,
    "condition_numbers": 15,
    "eigenvalue_decay": 14,
    "smoothness": 12,
    "deep_degeneracy": 9,
    "locality": 5,
}

NOTEBOOKS = sorted(
    FOLDER.glob("*.ipynb"), key=lambda path: (-SECONDS.get(path.stem, math.inf), path)
)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs(path):
    pytest.importorskip(NEEDED.get(path.stem, "aeon"))
    executed = run.run(path, run.SMALL.get(path.stem))
    committed = nbformat.read(path, as_version=4)
    for now, then in zip(executed.cells, committed.cells, strict=True):
        if now.cell_type == "code":
            kinds = [[output.output_type for output in cell.outputs] for cell in (now, then)]
            assert kinds[0] == kinds[1], "committed without its outputs: run make notebooks"


def test_smaller_sizes_belong_to_notebooks():
    assert run.SMALL.keys() <= {path.stem for path in NOTEBOOKS}
    notebook = nbformat.read(FOLDER / "infinite_depth.ipynb", as_version=4)
    with pytest.raises(ValueError, match=r"sizes has \['shallowest'\], expected some of"):
        run.resize(notebook, {"shallowest": 3})
