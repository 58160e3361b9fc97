"""The Markdown pages of the project: files, links and blocks of code."""

import re
import textwrap
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Block(NamedTuple):
    """A block of Python on a page."""

    line: int
    """The number of the block's first line."""
    code: str
    output: str | None = None
    """What the page says that the block prints: a block of text below it."""

    @property
    def reason(self):
        """Why the block must not run: its first line is a comment that says so; or None."""
        found = re.match(r"# not run: (\S.*)\n", self.code)
        return found and found[1]


def pages():
    """Return README.md and the pages of docs/, without those that a build of the site makes."""
    made = ("docs/api/generated/", "docs/project/results/")
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [path for path in found if not path.relative_to(ROOT).as_posix().startswith(made)]


def name(path):
    """Return a page's name in the repository."""
    return path.relative_to(ROOT).as_posix()


def blocks(text):
    """Return the blocks that a page has between ```python and ```, with ```text below them."""
    python, output = r"^( *)```python\n(.*?)^\1```$", r"(?:\n\n```text\n(.*?)^```$)?"
    return [
        Block(text[: found.start(2)].count("\n") + 1, textwrap.dedent(found[2]), found[3])
        for found in re.finditer(python + output, text, flags=re.S | re.M)
    ]


def links(text):
    """Return the targets of a page's links and pictures."""
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.S)
    return re.findall(r"\]\(([^)\s]+)\)", prose) + re.findall(r"<(https?:[^>]*)>", prose)
