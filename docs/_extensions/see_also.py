"""The pages of the guide and the theory that the reference adds to a docstring.

Pages that name a function or class in their code are its "See also".
"""

import inspect
import re
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.ext.autosummary import autosummary_toc

FOLDERS = ("guide", "theory")
MOST = 4
"""Pages of a name, at most: those that name it most often, the guide before the theory."""

_texts: dict[str, str] = {}


def read(app: Sphinx) -> None:
    """Read the pages, for all processes of the build."""
    for folder in FOLDERS:
        for path in sorted((Path(app.srcdir) / folder).glob("*.md")):
            _texts[f"/{folder}/{path.stem}"] = path.read_text("utf-8")


def add_pages(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Add the pages that name an object, in reStructuredText."""
    if what in ("function", "class") and inspect.getdoc(obj) and (found := pages_of(name)):
        links = ", ".join(f":doc:`{page}`" for page in found)
        lines += ["", ".. admonition:: Guide and theory", "", f"   {links}", ""]


def keep_navigation_short(app: Sphinx, doctree: nodes.document) -> None:
    """Leave pages of single objects out of the tree at the left, which each page has in full.

    The tables of the modules lead to them. With 200 more entries the site takes twice the time.
    """
    if app.env.docname.startswith("api/generated/"):
        for tree in list(doctree.findall(autosummary_toc)):
            tree.parent.remove(tree)


@cache
def pages_of(name: str) -> list[str]:
    """Return the pages that name a public object by its module, or a class by its name."""
    module, _, last = name.rpartition(".")
    near = module.rpartition(".")[2].replace("rescntk", "rk")
    words = [rf"\b{near}\.{last}\b", rf"{re.escape(name)}\b"]
    if last[0].isupper():
        words.append(rf"\b{last}\b")
    pattern = re.compile("|".join(words))
    counts = {page: len(pattern.findall(text)) for page, text in _texts.items()}
    found = [page for page, count in counts.items() if count]
    order = sorted(found, key=lambda page: (not page.startswith("/guide/"), -counts[page]))
    return order[:MOST]


def setup(app: Sphinx) -> dict[str, Any]:
    """Let Sphinx call the functions above."""
    app.connect("builder-inited", read)
    app.connect("doctree-read", keep_navigation_short, priority=400)  # before Sphinx collects
    app.connect("autodoc-process-docstring", add_pages, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
