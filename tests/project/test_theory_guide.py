"""The theory guide names what there is."""

import contextlib
import re
from importlib import import_module

from rescntk import literature
from tests.project.pages import ROOT

PAGES = {page.stem: page.read_text(encoding="utf-8") for page in ROOT.glob("docs/theory/*.md")}


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
