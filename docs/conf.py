"""Sphinx's settings: `make docs` builds the site from docs/ and notebooks/, without network."""

import sys
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

from jinja2 import FileSystemLoader
from jinja2.sandbox import SandboxedEnvironment
from numpydoc import docscrape_sphinx
from sphinx.search.en import SearchEnglish

import rescntk

project = "rescntk"
author = "The rescntk developers"
copyright = f"2026 {author}"
version = release = rescntk.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_design",
    # of docs/_extensions
    "estimators",
    "local_mathjax",
    "names",
    "outside",
    "thumbnails",
]
exclude_patterns = ["_extensions", "_templates"]

# Pages and notebooks. Notebooks are shown with the outputs that they are committed with.
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "off"
nb_render_markdown_format = "myst"  # tables among the outputs

# The API reference. Docstrings have the types, so signatures are shown without them.
templates_path = ["_templates"]
default_role = "literal"
smartquotes = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autosummary_generate = ["api/index.md"]
autosummary_ignore_module_all = False
numpydoc_show_class_members = False

# numpydoc would compile its template anew for each docstring.
TEMPLATES = Path(docscrape_sphinx.__file__).parent / "templates"
ENVIRONMENT = SandboxedEnvironment(loader=FileSystemLoader(TEMPLATES))
docscrape_sphinx.SandboxedEnvironment = lambda loader: ENVIRONMENT

html_theme = "furo"
html_title = f"rescntk {release}"
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_js_files = ["wide.js"]
html_copy_source = False

# The index would look for the stem of a word on each page that has the word.
SearchEnglish.stem = cache(SearchEnglish.stem)
