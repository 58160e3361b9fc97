"""The site is built without warnings and without network, and holds what it promises."""

import ast
import inspect
import os
import re
import shutil
import subprocess
import sys

import pytest

import rescntk as rk
from tests.project.pages import MODULES, ROOT, pages, public_names

pytest.importorskip("sphinx")
from sphinx.util.inventory import InventoryFile

pytestmark = pytest.mark.slow

OFFLINE = """
import gc, socket, sys
import furo
from sphinx.cmd.build import main

gc.disable()  # a seventh of the processor time; the process ends soon, and needs 1 GB
furo._compute_navigation_tree = lambda context: ""  # a third of the time, anew for each page

def refuse(*arguments):
    raise OSError("the build of the site asks for the network")

socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
sys.exit(main(sys.argv[1:]))
"""


def build(root):
    """Return the folder of the site, built from a copy without what other builds have left."""
    generated = shutil.ignore_patterns("generated", "thumbnails", "results", "*.csv", "*.json")
    shutil.copytree(ROOT / "docs", root / "docs", ignore=generated)
    for name in ("notebooks", "benchmarks/results"):
        shutil.copytree(ROOT / name, root / name)
    for name in ("README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, root)
    options = ["-W", "--keep-going", "-n", "-q"]  # as in the Makefile
    command = [sys.executable, "-c", OFFLINE, *options, root / "docs", root / "site"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return root / "site"


def names_are_in_the_inventory(site, _):
    objects = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="").data
    there = {name for kind, names in objects.items() if kind.startswith("py:") for name in names}
    assert not {name for name, _ in public_names()} - there


def scripts_and_pictures_are_files_of_the_site(site, pages):
    loaded = re.compile(r"<(?:script|img|link|iframe)\b[^>]*?\b(?:src|href)=\"([^\"]*)\"")
    for page, text in pages.items():
        for target in loaded.findall(text):
            assert "//" not in target, f"{page}: {target}"
            path = target.partition("?")[0].partition("#")[0]
            assert not path or ((site / page).parent / path).exists(), f"{page}: {target}"


def styles_load_nothing_from_elsewhere(site, _):
    for style in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?https?:", style.read_text("utf-8"))


def formulas_have_their_fonts(site, pages):
    page = pages["api/generated/rescntk.Network.html"]
    assert "_static/mathjax/tex-chtml.js" in page and 'class="math' in page
    fonts = {path.name for path in (site / "_static/mathjax").rglob("*.woff")}
    assert {"MathJax_Main-Regular.woff", "MathJax_Math-Italic.woff"} <= fonts


def notebooks_are_in_the_gallery(site, pages):
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        assert f'href="{path.stem}.html"' in pages["gallery/index.html"]
        assert f"{path.stem}.png" in pages["gallery/index.html"]
        assert (site / f"gallery/{path.name}").exists()
        assert f'href="{path.name}" download' in pages[f"gallery/{path.stem}.html"]


def signatures_have_links_and_sources(_, pages):
    page = pages["api/generated/rescntk.theory.conditioning.compare.html"]
    assert re.search(r'<a [^>]*href="rescntk.theory.conditioning.Comparison.html#[^>]*><code', page)
    assert "Returns<" in page and "Guide and theory" in page and "viewcode-link" in page


def fields_of_records_and_methods_of_tables_are_there(_, pages):
    folder = "api/generated/rescntk.theory.conditioning"
    assert "largest absolute row sum" in pages[f"{folder}.Bounds.html"]
    assert "write_csv" in pages[f"{folder}.Comparison.html"]


def estimators_are_in_their_table(_, pages):
    learn = pytest.importorskip("rescntk.learn")
    for name in learn.__all__:
        is_warning = name.endswith("Warning")
        assert is_warning or f">{name}<" in pages["api/estimators.html"], name


CLAIMS = (
    names_are_in_the_inventory,
    scripts_and_pictures_are_files_of_the_site,
    styles_load_nothing_from_elsewhere,
    formulas_have_their_fonts,
    notebooks_are_in_the_gallery,
    signatures_have_links_and_sources,
    fields_of_records_and_methods_of_tables_are_there,
    estimators_are_in_their_table,
)


def test_the_site(tmp_path):
    """Each claim that fails is named. A build takes a minute: a test of each would repeat it."""
    site = build(tmp_path)
    pages = {p.relative_to(site).as_posix(): p.read_text("utf-8") for p in site.rglob("*.html")}
    failed = {}
    for claim in CLAIMS:
        try:
            claim(site, pages)
        except (AssertionError, KeyError, OSError) as reason:
            failed[claim.__name__] = reason
    assert not failed


def test_pages_have_the_words_that_the_search_must_find():
    """`make docs-look` also checks their ranks, in a browser."""
    (searches,) = re.findall(
        r"^SEARCHES = (\{.*?^\})", (ROOT / "tools/look.py").read_text(), re.M | re.S
    )
    for words, page in ast.literal_eval(searches).items():
        found = [
            text.lower() for name, text in pages().items() if f"docs/{name}".endswith(f"/{page}.md")
        ]
        assert any(all(w in text for w in words.lower().split()) for text in found), (words, page)


def test_public_modules_are_in_the_index():
    """The package, the modules that it offers, and those that one imports by their names."""
    offered = {name for name in rk.__all__ if inspect.ismodule(getattr(rk, name))} - {"theory"}
    offered |= {f"theory.{name}" for name in rk.theory.__all__}
    imported = {"datasets", "derivative", "finite", "jax", "learn", "learn.aeon", "plots", "stored"}
    assert set(MODULES) == {"rescntk", *(f"rescntk.{name}" for name in offered | imported)}
