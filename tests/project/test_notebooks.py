"""Every notebook runs with small sizes and prints the numbers in the metadata of its cells."""

import numpy as np
import pytest

pytest.importorskip("nbformat")
import nbformat
from jupyter_client import KernelManager

import run
from tests import tolerances
from tests.project.pages import ROOT

FOLDER = ROOT / "notebooks"

pytestmark = pytest.mark.slow

NEEDED = {
    "finite_networks": "jax",  # longest first, so that no worker waits for them
    "beyond_the_kernel_regime": "jax",
    "what_is_learned_first": "jax",
    "large_gram": "zarr",
    "gaussian_process": "sklearn",
}
"""Packages that notebooks need or take their data from; all other notebooks use aeon's data."""
NAMES = [*NEEDED, *sorted({path.stem for path in FOLDER.glob("*.ipynb")} - {*NEEDED})]


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


@pytest.mark.parametrize("name", NAMES)
def test_runs(name, kernel):
    pytest.importorskip(NEEDED.get(name, "aeon"))
    executed = run.run(FOLDER / f"{name}.ipynb", run.SMALL.get(name), kernel)
    committed = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    for now, then in zip(executed.cells, committed.cells, strict=True):
        if now.cell_type == "code":
            kinds = [[output.output_type for output in cell.outputs] for cell in (now, then)]
            assert kinds[0] == kinds[1], "committed without its outputs: run make notebooks"
            if "machine-dependent" not in now.metadata.get("tags", ()):
                stored = then.metadata.get("small", "") if name in run.SMALL else run.texts(then)
                assert not run.differences(run.texts(now), stored), "run make notebooks"


def test_what_pages_say_of_stored_networks():
    """docs/theory/finite_width.md, section 4: numbers from the stored arrays."""
    pytest.importorskip("jax")
    finite_experiments = pytest.importorskip("finite_experiments")
    ffnet, _ = finite_experiments.stored("deep_regression")["result"]["rows"]
    fine = np.array(finite_experiments.stored("deep_regression")["result"]["fine"])
    for beside, share, error in ((0.0, 0.38, 0.17), (np.pi, 0.398, 0.038)):
        away = np.abs(np.abs(fine) - beside)
        at = np.argsort(np.abs(away - np.pi / 8))[:2]
        found = np.mean(np.array(ffnet["added"])[:, at] / np.cos(fine[at]), axis=1)
        assert abs(found.mean() - share) <= tolerances.printed(2)  # the page's digits
        assert abs(found.std(ddof=1) / len(found) ** 0.5 - error) <= tolerances.printed(2)
        assert abs(
            np.mean(np.array(ffnet["kernel"])[at] / np.cos(fine[at])) - 0.205
        ) <= tolerances.printed(2)
    between = {}
    for row in finite_experiments.stored("trained_fields")["result"]["rows"]:
        near, far, networks = (
            np.arange(len(row[name])) @ row[name] for name in ("predicted", "field", "measured")
        )
        between[row["system"], row["kind"]] = min(near, far) < networks < max(near, far)
        if row["system"] == "ResNet" and row["kind"] == "gpk":
            off = np.subtract((networks, near, far), (1.05, 1.02, 0.92))
            assert np.abs(off).max() <= tolerances.printed(2)
    assert [key for key, value in between.items() if not value] == [("ResNet", "gpk")]


def test_numbers_differ_by_more_than_their_last_digit():
    for one, other, expected in (
        ("3 of 30: 0.914, −2e-9", "3 of 30: 0.915, 5e-11", []),
        ("3 of 30 in 0.5 s, 12 MB", "4 of 30 in 9 s, 1 MB", [("3", "4")]),
        ("right: 99.2%, 1e-3", "right: 99.5%, 3e-3", [("99.2", "99.5"), ("1e-3", "3e-3")]),
        ("1 2", "1", [("1 2", "1")]),
    ):
        assert run.differences(one, other) == expected
