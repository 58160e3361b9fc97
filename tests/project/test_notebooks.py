"""Every notebook runs from its first cell to its last, and is committed with its outputs.

Notebooks run with smaller sizes here; the committed outputs have the notebooks' own.
"""

import sys

import nbformat
import pytest
from jupyter_client import KernelManager

from tests.project.pages import ROOT

FOLDER = ROOT / "notebooks"
sys.path.insert(0, str(FOLDER))
import run  # noqa: E402

pytestmark = pytest.mark.slow

NEEDED = {
    "gaussian_process": "sklearn",
    "finite_networks": "jax",
    "beyond_the_kernel_regime": "jax",
    "large_gram": "zarr",
}
"""Packages that notebooks need or take their data from; all other notebooks use aeon's data."""

LONGEST = ["finite_networks", "beyond_the_kernel_regime", "large_gram", "infinite_depth"]
"""Half a minute each, twice the time of any other: first, so that no worker waits for them."""


@pytest.fixture(scope="module")
def kernel():
    """A process that runs one notebook after the other: imports take a third of the time."""
    manager = KernelManager()
    coarse = "{'dpi': 20, 'bbox_inches': None}"  # figures are drawn in a third less of the time
    manager.start_kernel(
        cwd=str(FOLDER), extra_arguments=[f"--InlineBackend.print_figure_kwargs={coarse}"]
    )
    yield manager
    manager.shutdown_kernel(now=True)


@pytest.mark.parametrize(
    "name", [*LONGEST, *sorted({p.stem for p in FOLDER.glob("*.ipynb")} - {*LONGEST})]
)
def test_runs(name, kernel):
    pytest.importorskip(NEEDED.get(name, "aeon"))
    executed = run.run(FOLDER / f"{name}.ipynb", run.SMALL.get(name), kernel)
    committed = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    for now, then in zip(executed.cells, committed.cells, strict=True):
        if now.cell_type == "code":
            kinds = [[output.output_type for output in cell.outputs] for cell in (now, then)]
            assert kinds[0] == kinds[1], "committed without its outputs: run make notebooks"
