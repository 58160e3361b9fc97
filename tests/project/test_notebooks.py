"""Every notebook runs from its first cell to its last, and is committed with its outputs."""

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
}  # the others' data come with aeon

NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


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
