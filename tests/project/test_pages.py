"""The code on the pages runs, and their links lead somewhere."""

import json
import re
from importlib.util import find_spec
from urllib.parse import urlsplit

import pytest

from conftest import OPTIONAL
from tests.project.pages import ROOT, Block, blocks, links, name, pages

PAGES = {name(path): path.read_text(encoding="utf-8") for path in pages()}


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page, text in PAGES.items() if blocks(text)])
def test_code_runs(page, tmp_path, monkeypatch, capsys):
    """All blocks of a page, one after the other, with the same names, in an empty folder.

    A block prints the text that the page has below it.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    names = {"__name__": "__main__"}
    for block in blocks(PAGES[page]):
        if block.reason is None:
            # A traceback has the line numbers of the page.
            code = compile("\n" * (block.line - 1) + block.code, ROOT / page, "exec")
            try:
                exec(code, names)
            except ImportError as error:
                if all(find_spec(package) for package in OPTIONAL):
                    raise
                pytest.skip(f"line {block.line}: {error}")
            printed = capsys.readouterr().out
            assert block.output in (None, printed), f"line {block.line}"


def test_blocks_are_found():
    text = "a\n```python\nx = 1\n```\n* b\n  ```python\n  # not run: a day\n  ```\n```sh\nls\n```\n"
    assert blocks(text) == [Block(3, "x = 1\n"), Block(7, "# not run: a day\n")]
    assert blocks("```python\nf(1)\n```\n\n```text\n1\n```\n") == [Block(2, "f(1)\n", "1\n")]


def test_pages_have_code():
    assert sum(len(blocks(text)) for text in PAGES.values()) > 3


def test_blocks_that_do_not_run_say_why():
    assert Block(1, "# not run: needs a cluster\nx\n").reason == "needs a cluster"
    assert Block(1, "x  # not run\n").reason is None
    for page, text in PAGES.items():
        for block in blocks(text):
            said = re.search("not run", block.code.split("\n")[0])
            assert not said or block.reason, f"{page}:{block.line}"


def words(path):
    """Return the text of a notebook between its code."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def targets():
    """Return each page and target of a link on it."""
    notebooks = {name(path): words(path) for path in sorted((ROOT / "notebooks").glob("*.ipynb"))}
    texts = PAGES | notebooks
    return [(page, target) for page, text in texts.items() for target in links(text)]


def test_links_to_files_lead_to_files():
    """Sphinx looks for the headings that links of the site name, and for pages of the site."""
    missing = []
    inside = [(page, target) for page, target in targets() if "://" not in target]
    for page, target in inside:
        path = target.partition("#")[0]
        if path and not ((ROOT / page).parent / path).exists():
            missing.append(f"{page}: {target}")
    assert inside and not missing, missing


def test_links_out_are_addresses():
    """Their form alone: no test needs a network."""
    for page, target in targets():
        if "://" in target:
            address = urlsplit(target)
            assert address.scheme == "https", f"{page}: {target}"
            assert re.fullmatch(r"[a-z0-9-]+(\.[a-z0-9-]+)+", address.netloc), f"{page}: {target}"
