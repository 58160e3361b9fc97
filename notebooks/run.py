"""Run the notebooks as a check, all or those named; with --write, keep their outputs."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent


def run(path: Path) -> nbformat.NotebookNode:
    """Return the notebook with the outputs of a fresh run, or raise the error of a cell.

    Text that cells write to stderr goes to the stderr of this process and is not kept as output:
    it differs from machine to machine.
    """
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=600,  # seconds for one cell; all cells of one notebook take less together
        coalesce_streams=True,  # a cell's text arrives in pieces that depend on the clock
        resources={"metadata": {"path": str(HERE)}},
    )
    executed = client.execute()
    for cell in executed.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if not _pass_on_stderr(output)]
    return executed


def _pass_on_stderr(output: nbformat.NotebookNode) -> bool:
    """Print an output on stderr and return True, or return False for any other output.

    Libraries write to stderr when numba first compiles them.
    """
    if output.output_type != "stream" or output.name != "stderr":
        return False
    print(output.text, file=sys.stderr)
    return True


def main() -> None:
    """Run notebooks in the order of their names, and print the seconds that each took."""
    names = [name for name in sys.argv[1:] if name != "--write"]
    paths = [HERE / f"{name}.ipynb" for name in names] or list(HERE.glob("*.ipynb"))
    for path in sorted(paths):
        start = time.perf_counter()
        notebook = run(path)
        print(f"{path.name}: {time.perf_counter() - start:.0f} s")
        if "--write" in sys.argv[1:]:
            for cell in notebook.cells:
                cell.metadata.pop("execution", None)  # times of day, different on every run
            nbformat.write(notebook, path)


if __name__ == "__main__":
    main()
