"""The theory guide: its code runs and prints what it says, and its names exist."""

import contextlib
import io
import re
from importlib import import_module
from pathlib import Path

import pytest

from rescntk import literature

ROOT = Path(__file__).parents[2]
PAGES = {page.stem: page.read_text(encoding="utf-8") for page in ROOT.glob("docs/theory/*.md")}
BLOCK = re.compile(r"```python\n(.*?)```(?:\s*```text\n(.*?)```)?", re.DOTALL)
"""A Python block, and the block of its output where it prints something."""


@pytest.mark.parametrize("page", [name for name, text in PAGES.items() if "```python" in text])
def test_blocks_print_what_the_page_says(page):
    names = {}
    for code, expected in BLOCK.findall(PAGES[page]):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, names)
        assert printed.getvalue() == expected, code


def test_linked_names_exist():
    links = {name for text in PAGES.values() for name in re.findall(r"\{py:\w+\}`~?(.*?)`", text)}
    assert len(links) > 60
    for link in links:
        find(link)


def test_the_glossary_names_what_the_code_has():
    sources = [path for path in ROOT.glob("rescntk/**/*") if path.suffix in (".py", ".cu", ".h")]
    words = {word for path in sources for word in re.findall(r"\w+", path.read_text("utf-8"))}
    rows = re.findall(r"^\|[^|]*\|([^|]*)\|[^|]*\|$", PAGES["glossary"], re.MULTILINE)
    names = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    assert len(names) > 120
    for name in names:
        assert words.issuperset(re.findall(r"\w+", name)), name


def test_every_system_of_the_papers_is_on_the_map():
    for name, function in vars(literature).items():
        if getattr(function, "__module__", "") == literature.__name__ and name[0] != "_":
            assert f"`literature.{name}(" in PAGES["paper_map"]


def find(name):
    """Return the module, class or function of a dotted name."""
    parts = name.split(".")
    for depth in range(len(parts), 0, -1):
        with contextlib.suppress(ModuleNotFoundError):
            found = import_module(".".join(parts[:depth]))
            break
    for part in parts[depth:]:
        found = getattr(found, part)
    return found
