"""MathJax and its fonts among the pages, copied from the package sphinx-mathjax-offline.

The package's own extension copies every variant of MathJax. This extension copies the variant in
use.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.util.fileutil import copy_asset

PARTS = ("tex-chtml.js", "input/tex/extensions", "output/chtml/fonts/woff-v2")


def copy(app: Sphinx, error: Exception | None) -> None:
    """Copy MathJax into the site's folder of static files."""
    if error is not None or app.builder.format != "html":
        return
    package = find_spec("sphinx-mathjax-offline")
    if package is None or package.origin is None:
        raise ImportError("the site needs sphinx-mathjax-offline: pip install 'rescntk[docs]'")
    source = Path(package.origin).parent / "static" / "mathjax"
    target = Path(app.outdir) / "_static" / "mathjax"
    for part in PARTS:
        place = target / part
        copy_asset(source / part, place if (source / part).is_dir() else place.parent)


def setup(app: Sphinx) -> dict[str, Any]:
    """Let pages ask for the copy, and make the copy when the pages are written."""
    app.config.mathjax_path = "mathjax/tex-chtml.js"
    app.connect("build-finished", copy)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
