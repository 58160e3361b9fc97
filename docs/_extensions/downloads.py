"""Notebooks to download, or to open in Colab; words for figures; sources of functions."""

import inspect
import shutil
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

LINKS = '<p class="downloads">{}</p>'
LINK = '<a class="reference external" href="{}"{}>{}</a>'
MADE = ("api/generated/", "gallery/", "project/results/")
"""Pages whose sources are made, or lie elsewhere."""

COLAB = "https://colab.research.google.com/github/"


def add_links(app: Sphinx, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """Put links above a notebook of the gallery."""
    folder, _, name = page.partition("/")
    if page.startswith(MADE):
        context["theme_source_repository"] = ""  # no link to the source of a page without one
    if folder != "gallery" or not (_notebooks(app) / f"{name}.ipynb").exists():
        return
    found = [LINK.format(f"{name}.ipynb", " download", "Download this notebook")]
    repository = app.config.REPOSITORY or ""
    if repository.startswith("https://github.com/"):
        path = repository.removeprefix("https://github.com/")
        url = f"{COLAB}{path}/blob/main/notebooks/{name}.ipynb"
        found.append(LINK.format(url, "", "Open in Colab"))
    context["body"] = LINKS.format(" · ".join(found)) + context["body"]


def describe_figures(app: Sphinx, doctree: nodes.document) -> None:
    """Give the figures of notebooks their section's title, for readers who do not see them."""
    if app.env.docname.startswith("gallery/") and app.env.docname != "gallery/index":
        for image in doctree.findall(nodes.image):
            section = image.parent
            while not isinstance(section, nodes.section):
                section = section.parent
            image.setdefault("alt", f"Figure: {section[0].astext()}")


def copy(app: Sphinx, error: Exception | None) -> None:
    """Copy the notebooks beside their pages."""
    if error is None and app.builder.format == "html":
        for path in _notebooks(app).glob("*.ipynb"):
            shutil.copy(path, Path(app.outdir) / "gallery")


def _notebooks(app: Sphinx) -> Path:
    return Path(app.srcdir).parent / "notebooks"


def source_of(module: str, name: str) -> str | None:
    """Return file and lines of a public name in the repository, ``PATH#L10-L20``, or None."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    try:
        found = inspect.unwrap(found)
        path = Path(inspect.getsourcefile(found) or "")
        lines, first = inspect.getsourcelines(found)
    except (TypeError, OSError):
        return None
    root = Path(sys.modules["rescntk"].__file__ or "").parents[1]
    if not path.is_relative_to(root):
        return None
    return f"{path.relative_to(root).as_posix()}#L{first}-L{first + len(lines) - 1}"


def setup(app: Sphinx) -> dict[str, Any]:
    """Add links when a page is written, and files at the end."""
    app.add_config_value("REPOSITORY", None, "env")
    app.connect("doctree-read", describe_figures)
    app.connect("html-page-context", add_links)
    app.connect("build-finished", copy)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
