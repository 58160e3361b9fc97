"""Run the notebooks as a check, all or those named; with --write, keep their outputs.

The outputs are of the notebook's own sizes. Texts that cells print with the sizes of `SMALL` are
kept in the cells' metadata, as "small": tests compare their numbers with a run.
"""

from __future__ import annotations

import ast
import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client import KernelManager
from nbclient import NotebookClient

HERE = Path(__file__).parent

SMALL: dict[str, dict[str, Any]] = {
    "beyond_the_kernel_regime": {
        "sizes": {
            "figure_1b": {"width": 32, "n_networks": 1, "steps": 200},
            "theorem_5": {"widths": [16, 64], "n_networks": 2, "steps": 20},
            "theorem_4": {"widths": [16, 64], "depths": [2, 6], "n_samples": 8},
            "deep_regression": {"depth": 5, "width": 32, "n_networks": 2, "steps": 50},
            "figure_9": {"width": 32, "n_networks": 1, "steps": 500},
        },
    },
    "condition_numbers": {
        "depths": (1, 2, 3, 5, 10, 22, 50, 110, 250),
        "every": 3,
        "n_signals": 8,
        "deepest": 10**4,
    },
    "deep_degeneracy": {"ladder": (10, 30, 100, 300, 1000), "deep": 300},
    "eigenvalue_decay": {
        "limit": 0.3,
        "compared": 2,
        "widest": 10,
        "farthest": 8,
        "n_nodes": (16, 24),
        "most_signals": 1000,
    },
    "finite_networks": {
        "widths": (16, 64),
        "n_networks": 12,
        "wide": 256,
        "n_steps": 100,
        "n_gradients": 2,
        "sizes": {
            "trained_fields": {"width": 16, "n_networks": 2, "steps": 20},
            "training_speed": {"width": 32, "depths": [2], "n_networks": 1},
            "trained_ensemble": {"width": 32, "n_networks": 4, "steps": [20]},
        },
        "layers": (2,),
        "n_fluctuating": 500,
    },
    "gaussian_process": {"every": 5, "compared": ("slope",)},
    "images": {"depths": (2, 3, 5, 7, 10, 15), "every": 90, "n_train": 60, "n_sweeps": 12},
    "infinite_depth": {"deepest": 12, "resolved": 0.25, "usual": 11, "gammas": (0.25, 0.5, 1.25)},
    "large_gram": {"n": 256, "n_workers": 1},
    "smoothness": {"n_draws": 4},
    "time_series_classification": {"every": 6, "methods": ("ridge, flat", "rescntk, fast")},
    "what_is_learned_first": {
        "depths": (2, 8),
        "highest": 5,
        "alphas": (0.5, 1.0),
        "n_distances": 2,
        "n_draws": 2,
        "n_signals": 251,
    },
    "which_part_decides": {"every": 5, "n_cases": 15, "n_new": 6, "n_occluded": 1, "step": 52},
}
"""Sizes with which the test suite runs notebooks: every cell, in a part of the time.

They take the place of those in the notebook's cell with the tag "parameters".
"""

BETWEEN = "%reset_selective -f .\n__import__('gc').freeze()  # modules stay out of its rounds"
"""The cell in front of a notebook that runs in the process of others."""


def run(
    path: Path, sizes: Mapping[str, Any] | None = None, kernel: KernelManager | None = None
) -> nbformat.NotebookNode:
    """Return the notebook with the outputs of a fresh run, or raise the error of a cell.

    The run takes `sizes` in place of the notebook's own. It starts a process, or takes the process
    of `kernel`, without the names of notebooks that ran there before. What cells write to stderr
    differs from machine to machine: it goes to the stderr of this process, and is not kept.
    """
    notebook = nbformat.read(path, as_version=4)
    if sizes:
        resize(notebook, sizes)
    if kernel is not None:
        notebook.cells.insert(0, nbformat.v4.new_code_cell(BETWEEN))
    client = NotebookClient(
        notebook,
        kernel,
        timeout=600,  # seconds for one cell; all cells of one notebook take less together
        coalesce_streams=True,  # a cell's text arrives in pieces that depend on the clock
        resources={"metadata": {"path": str(HERE)}},
    )
    executed = client.execute()
    if kernel is not None:
        executed.cells.pop(0)
    for cell in executed.cells:
        for output in [o for o in cell.get("outputs", ()) if o.get("name") == "stderr"]:
            print(output.text, file=sys.stderr)
            cell.outputs.remove(output)
    return executed


def resize(notebook: nbformat.NotebookNode, sizes: Mapping[str, Any]) -> None:
    """Assign `sizes` behind the notebook's own, which must have the same names."""
    (cell,) = (c for c in notebook.cells if "parameters" in c.metadata.get("tags", ()))
    targets = [ast.unparse(line.targets[0]) for line in ast.parse(cell.source).body]
    names = {name for target in targets for name in target.strip("()").split(", ")}
    if unknown := sizes.keys() - names:
        raise ValueError(f"sizes has {sorted(unknown)}, expected some of {sorted(names)}")
    cell.source += "".join(f"\n{name} = {value!r}" for name, value in sizes.items())


NUMBER = re.compile(r"(?<![\w.])[-−]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")

MACHINE = re.compile(
    r"\d[\d.]*\s*(?:s|ms|minutes|MB|million points a second)\b|<[\w.]+ at 0x\w+>|/[\w/.]+"
    r"|some \d+"
)
"""Texts that differ from machine to machine: times, memory, addresses, paths, "some" products."""

LEAST = 1e-6
"""Numbers below it, by magnitude, are rounding errors or sums of them. Raising it compares less."""


def texts(cell: nbformat.NotebookNode) -> str:
    """Return the text that a cell printed or returned, without pictures."""
    parts = []
    for output in cell.get("outputs", ()):
        data = output.get("data", {})
        plain = "" if "image/png" in data else data.get("text/plain", "")
        parts.append(output.get("text") or data.get("text/markdown") or plain)
    return "\n".join(filter(None, parts))


def differences(one: str, other: str) -> list[tuple[str, str]]:
    """Return the pairs of numbers in two printed texts that differ by more than rounding.

    Integers are equal. Other numbers differ by at most one unit of their last digit. Numbers below
    `LEAST`, and what `MACHINE` finds, may differ. Different counts of numbers are one difference.
    """
    left, right = (NUMBER.findall(MACHINE.sub("", text)) for text in (one, other))
    if len(left) != len(right):
        return [(one, other)]
    return [pair for pair in zip(left, right, strict=True) if not _same(*pair)]


def _same(one: str, other: str) -> bool:
    left, right = (float(number.replace("−", "-")) for number in (one, other))
    units = [
        10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
        for digits, _, power in (number.partition("e") for number in (one, other))
    ]
    are_integers = not re.search("[.e]", one + other)
    near = abs(left - right) <= (0 if are_integers else 1.001 * max(units))
    return near or max(abs(left), abs(right)) < LEAST


def keep(notebook: nbformat.NotebookNode, small: nbformat.NotebookNode | None) -> None:
    """Put the texts of a run with small sizes into the metadata of a notebook's cells."""
    for cell, other in zip(notebook.cells, (small or notebook).cells, strict=True):
        cell.metadata.pop("execution", None)  # times of day, different on every run
        cell.metadata.pop("small", None)
        if small is not None and texts(other):
            cell.metadata["small"] = MACHINE.sub("…", texts(other))


def main() -> None:
    """Run notebooks in the order of their names, and print the seconds that each took."""
    names = [name for name in sys.argv[1:] if name != "--write"]
    paths = [HERE / f"{name}.ipynb" for name in names] or list(HERE.glob("*.ipynb"))
    for path in sorted(paths):
        start = time.perf_counter()
        notebook = run(path)
        print(f"{path.name}: {time.perf_counter() - start:.0f} s")
        if "--write" in sys.argv[1:]:
            small = run(path, SMALL[path.stem]) if path.stem in SMALL else None
            keep(notebook, small)
            nbformat.write(notebook, path)


if __name__ == "__main__":
    main()
