"""The Markdown pages of the project with their links and blocks of code, and the public names."""

import re
import textwrap
from importlib import import_module
from inspect import ismodule
from pathlib import Path

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


def public_names():
    """Yield the full names of the reference's names, with what they name."""
    for module in map(import_module, MODULES):
        for name in getattr(module, "__all__", vars(module)):
            value = getattr(module, name)
            is_own = getattr(value, "__module__", None) == module.__name__
            if name[0] != "_" and not ismodule(value) and ("__all__" in vars(module) or is_own):
                yield f"{module.__name__}.{name}", value
