"""The package's description: the README, with links that lead out of the package.

All else stands in pyproject.toml. The repository's address stands there once, under
`project.urls`; until it does, links to files of the repository are plain words.
"""

import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)\s]+)\)")


def description(text: str, repository: str | None) -> str:
    """Return the README with absolute links to files, or without such links and pictures."""

    def changed(link: re.Match[str]) -> str:
        picture, words, path = link.groups()
        if repository is None:
            return "" if picture else words
        return f"{picture}[{words}]({repository}/{'raw' if picture else 'blob'}/main/{path})"

    return re.sub(r"<!--.*?-->\n", "", LINK.sub(changed, text), flags=re.S)


if __name__ == "__main__":
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    repository = project.get("urls", {}).get("Repository")
    setup(
        long_description=description((ROOT / "README.md").read_text("utf-8"), repository),
        long_description_content_type="text/markdown",
    )
