"""The Markdown pages of the project: files, links and blocks of code."""

import re
import textwrap
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Block(NamedTuple):
    """A block of Python on a page, and the number of its first line."""

    line: int
    code: str

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
    """Return the blocks that a page has between ```python and ```."""
    return [
        Block(text[: found.start(2)].count("\n") + 1, textwrap.dedent(found[2]))
        for found in re.finditer(r"^( *)```python\n(.*?)^\1```$", text, flags=re.S | re.M)
    ]


def links(text):
    """Return the targets of a page's links and pictures."""
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.S)
    return re.findall(r"\]\(([^)\s]+)\)", prose) + re.findall(r"<(https?:[^>]*)>", prose)
