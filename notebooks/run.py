"""Run the notebooks: as a check, or with --write to keep their outputs."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent


def run(path: Path) -> nbformat.NotebookNode:
    """Return the notebook with the outputs of a fresh run; an error in a cell is raised.

    What its cells write on stderr goes to ours, and is no output: it differs by machine.
    """
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=600,
        coalesce_streams=True,  # what a cell prints comes in pieces that depend on the clock
        resources={"metadata": {"path": str(HERE)}},
    )
    executed = client.execute()
    for cell in executed.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if not _from_elsewhere(output)]
    return executed


def _from_elsewhere(output: nbformat.NotebookNode) -> bool:
    """Pass on what is on stderr: libraries' remarks when numba first compiles them, not results."""
    if output.output_type != "stream" or output.name != "stderr":
        return False
    print(output.text, file=sys.stderr)
    return True


def main() -> None:
    for path in sorted(HERE.glob("*.ipynb")):
        start = time.perf_counter()
        notebook = run(path)
        print(f"{path.name}: {time.perf_counter() - start:.0f} s")
        if "--write" in sys.argv[1:]:
            for cell in notebook.cells:
                cell.metadata.pop("execution", None)  # times of day, different on every run
            nbformat.write(notebook, path)


if __name__ == "__main__":
    main()
