"""The Markdown pages of the project with their links and blocks of code, and the public names."""

import re
import textwrap
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from inspect import getsource, ismodule
from pathlib import Path
from pkgutil import walk_packages

import pytest

import rescntk
from conftest import NEEDED

ROOT = Path(__file__).parents[2]

MODULES = re.findall(r"^   (rescntk[\w.]*)$", (ROOT / "docs/api/index.md").read_text(), re.M)
"""The modules of the reference."""


def pages():
    """Return the texts of README.md and docs/ by name, without pages that a build makes."""
    made = ("docs/api/generated/", "docs/project/results/")
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    texts = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in paths}
    return {name: text for name, text in texts.items() if not name.startswith(made)}


def blocks(text):
    """Return first line, code and printed text of the blocks ```python, with ```text below them."""
    python, output = r"^( *)```python\n(.*?)^\1```$", r"(?:\n\n```text\n(.*?)^```$)?"
    return [
        (text[: found.start(2)].count("\n") + 1, textwrap.dedent(found[2]), found[3])
        for found in re.finditer(python + output, text, flags=re.S | re.M)
    ]


def links(text):
    """Return the targets of a page's links and pictures."""
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.S)
    return re.findall(r"\]\(([^)\s]+)\)", prose) + re.findall(r"<(https?:[^>]*)>", prose)


def skip_without_modules():
    """Skip all tests of a file, which look up names, where a module of the package lacks others."""
    for needed in sorted({name for names in NEEDED.values() for name in names}):
        if find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed", allow_module_level=True)


def public_names():
    """Yield the full names of the reference's names, with what they name."""
    for module in map(import_module, MODULES):
        for name in getattr(module, "__all__", vars(module)):
            value = getattr(module, name)
            is_own = getattr(value, "__module__", None) == module.__name__
            if name[0] != "_" and not ismodule(value) and ("__all__" in vars(module) or is_own):
                yield f"{module.__name__}.{name}", value


def spans(text):
    """Return the spans of code of a page, in its prose."""
    prose = re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.S | re.M)
    return re.findall(r"(?<!`)`~?([^`\n]+)`(?!`)", prose)


def commands(text):
    """Return the lines of the blocks ```bash and ```sh of a page, without comments."""
    found = re.findall(r"^```(?:bash|sh)\n(.*?)^```$", text, flags=re.S | re.M)
    lines = (line.partition("#")[0].strip() for block in found for line in block.splitlines())
    return [line for line in lines if line]


@cache
def known_names():
    """Return the package's names, public or not, with the ends of each: a.b.c, b.c and c."""
    found = {f"rescntk.{name}" for name in dir(rescntk)}
    for module in walk_packages(rescntk.__path__, "rescntk."):
        if "-" in module.name:  # a library of loops
            continue
        values = vars(import_module(module.name))
        found |= {module.name, *(f"{module.name}.{name}" for name in values)}
        for name, value in values.items():
            if isinstance(value, type) and value.__module__.startswith("rescntk"):
                source = getsource(import_module(value.__module__))
                members = {*dir(value), *getattr(value, "__annotations__", ())}
                members |= set(re.findall(r"self\.(\w+)", source))
                found |= {f"{module.name}.{name}.{member}" for member in members}
    parts = [name.split(".") for name in found]
    return {".".join(name[k:]) for name in parts for k in range(len(name))}


def texts(pattern):
    """Return the texts of files of the repository."""
    return [path.read_text("utf-8") for path in sorted(ROOT.glob(pattern))]
