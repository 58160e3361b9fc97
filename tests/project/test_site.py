"""The site is built without warnings and without network, and holds what it promises."""

import inspect
import os
import re
import shutil
import subprocess
import sys
from importlib import import_module

import pytest

import rescntk as rk
from tests.project.pages import MODULES, ROOT, public_names

pytest.importorskip("sphinx")
from sphinx.util.inventory import InventoryFile

pytestmark = pytest.mark.slow

OFFLINE = """
import gc, socket, sys
from sphinx.cmd.build import main

gc.disable()  # a seventh of the processor time; the process ends soon, and needs 1 GB

def refuse(*arguments):
    raise OSError("the build of the site asks for the network")

socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
sys.exit(main(sys.argv[1:]))
"""


def build(root):
    """Return the folder of the site, built from a copy without what other builds have left."""
    generated = shutil.ignore_patterns("generated", "thumbnails", "results", "*.csv", "*.json")
    shutil.copytree(ROOT / "docs", root / "docs", ignore=generated)
    shutil.copytree(ROOT / "notebooks", root / "notebooks")
    for name in ("README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, root)
    shutil.copytree(ROOT / "benchmarks/results", root / "benchmarks/results")
    options = ["-W", "--keep-going", "-n", "-q"]  # as in the Makefile
    command = [sys.executable, "-c", OFFLINE, *options, root / "docs", root / "site"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return root / "site"


def test_the_site(tmp_path):
    """The site passes all checks. They are one test, so that the site is built once."""
    site = build(tmp_path)
    every_public_name_is_in_the_reference(site)
    pages_load_nothing_from_elsewhere(site)
    pages_have_formulas_pictures_links_and_the_table_of_estimators(site)


def every_public_name_is_in_the_reference(site):
    objects = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="").data
    there = {name for kind, names in objects.items() if kind.startswith("py:") for name in names}
    for name, _ in public_names():
        assert name in there


def test_public_modules_are_in_the_index():
    """The package, the modules that it offers, and those that one imports by their names."""
    offered = {name for name in rk.__all__ if inspect.ismodule(getattr(rk, name))} - {"theory"}
    offered |= {f"theory.{name}" for name in rk.theory.__all__}
    imported = {"datasets", "derivative", "finite", "jax", "learn", "learn.aeon"}
    imported |= {"plots", "stored"}
    assert set(MODULES) == {"rescntk", *(f"rescntk.{name}" for name in offered | imported)}


def pages_load_nothing_from_elsewhere(site):
    """Scripts, styles, fonts and pictures are files of the site."""
    loaded = re.compile(r"<(?:script|img|link|iframe)\b[^>]*?\b(?:src|href)=\"([^\"]*)\"")
    for page in site.rglob("*.html"):
        for target in loaded.findall(page.read_text(encoding="utf-8")):
            assert "//" not in target, f"{page.name}: {target}"
            path = target.partition("?")[0].partition("#")[0]
            assert not path or (page.parent / path).exists(), f"{page.name}: {target}"
    for style in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?https?:", style.read_text(encoding="utf-8"))


def pages_have_formulas_pictures_links_and_the_table_of_estimators(site):
    page = (site / "api/generated/rescntk.Network.html").read_text(encoding="utf-8")
    assert "_static/mathjax/tex-chtml.js" in page and 'class="math' in page
    fonts = {path.name for path in (site / "_static/mathjax").rglob("*.woff")}
    assert {"MathJax_Main-Regular.woff", "MathJax_Math-Italic.woff"} <= fonts
    page = (site / "gallery/index.html").read_text(encoding="utf-8")
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        assert f'href="{path.stem}.html"' in page and f"{path.stem}.png" in page
    compare = site / "api/generated/rescntk.theory.conditioning.compare.html"
    page = compare.read_text(encoding="utf-8")
    assert re.search(r'<a [^>]*href="rescntk.theory.conditioning.Comparison.html#[^>]*><code', page)
    assert "Returns<" in page and "Guide and theory" in page and "viewcode-link" in page
    assert (site / "gallery/locality.ipynb").exists()
    assert 'href="locality.ipynb" download' in (site / "gallery/locality.html").read_text("utf-8")
    page = (site / "api/estimators.html").read_text(encoding="utf-8")
    for name in import_module("rescntk.learn").__all__:
        assert f">{name}<" in page, name
