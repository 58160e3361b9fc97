"""Sphinx's settings: `make docs` builds the site from docs/ and notebooks/, without network."""

import sys
import tomllib
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

import downloads
from jinja2 import FileSystemLoader
from jinja2.sandbox import SandboxedEnvironment
from numpydoc import docscrape_sphinx
from sphinx.search.en import SearchEnglish

import rescntk

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))[
    "project"
]
REPOSITORY = PROJECT.get("urls", {}).get("Repository")
"""The repository's address, None as long as pyproject.toml has none."""

project = "rescntk"
author = "The rescntk developers"
copyright = f"2026 {author}"
version = release = rescntk.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    # Sources of functions: in the repository, or copied into the site.
    "sphinx.ext.linkcode" if REPOSITORY else "sphinx.ext.viewcode",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
    # of docs/_extensions
    "downloads",
    "local_mathjax",
    "names",
    "outside",
    "see_also",
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

# Code has a button to copy it; what code prints has none.
copybutton_selector = ":not(.highlight-none, .highlight-text) > div.highlight > pre"
copybutton_exclude = ".linenos, .gp, .go"

html_theme = "furo"
if REPOSITORY:
    html_theme_options = {"source_repository": REPOSITORY, "source_branch": "main"}
    html_theme_options["source_directory"] = "docs/"
html_title = f"rescntk {release}"
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_js_files = ["wide.js"]
html_copy_source = False


def linkcode_resolve(domain, info):
    """Return the address of a function's source, for sphinx.ext.linkcode."""
    path = downloads.source_of(info["module"], info["fullname"])
    return path and f"{REPOSITORY}/blob/main/{path}"


# The index would look for the stem of a word on each page that has the word.
SearchEnglish.stem = cache(SearchEnglish.stem)
