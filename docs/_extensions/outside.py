"""Pages whose files lie outside docs/: copied before Sphinx reads, with links that hold there.

A link between Markdown files leads from file to file of the repository. It holds where files are
read without a site. The site has notebooks in its gallery and benchmarks' results
beside the project's pages; links to them, and their links to others, are changed as Sphinx reads.
"""

import os
import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

FOLDERS = {
    "notebooks": ("gallery", (".ipynb",)),
    "benchmarks/results": ("project/results", (".md", ".png")),
}
"""Folders of the repository; where in docs/ git ignores the copies; suffixes of what is copied."""

LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)")
"""The target of a Markdown link to a file, without its anchor."""


def copy(app: Sphinx) -> None:
    """Copy the files that differ from their copies, and remove copies of files that are gone."""
    root = Path(app.srcdir).parent
    for folder, (place, suffixes) in FOLDERS.items():
        target = Path(app.srcdir) / place
        target.mkdir(exist_ok=True)
        originals = {path.name for path in (root / folder).iterdir() if path.suffix in suffixes}
        for path in target.iterdir():
            if path.suffix in suffixes and path.name not in originals | {"index.md"}:
                path.unlink()
        for name in originals:
            text, copied = (root / folder / name).read_bytes(), target / name
            if not copied.exists() or copied.read_bytes() != text:
                copied.write_bytes(text)


def change_links(app: Sphinx, page: str, text: list[str]) -> None:
    """Let the links of a page lead to the copies."""
    root = Path(app.srcdir).parent
    here = Path(app.env.doc2path(page)).parent
    original = root / _original(here.relative_to(app.srcdir).as_posix())

    def changed(link: re.Match[str]) -> str:
        path = Path(os.path.normpath(original / link[1]))
        if not path.exists():  # no link, such as code that calls an element of a list
            return link[0]
        target = path.relative_to(root).as_posix()
        for folder, (place, suffixes) in FOLDERS.items():
            name = target.removeprefix(f"{folder}/")
            if name != target and name.endswith(suffixes):
                target = f"docs/{place}/{name}"
        return Path(os.path.relpath(root / target, here)).as_posix()

    text[0] = LINK.sub(changed, text[0])


def _original(folder: str) -> str:
    """Return the repository's folder whose files a folder of docs/ shows."""
    for original, (place, _) in FOLDERS.items():
        if folder == place:
            return original
    return f"docs/{folder}"


def setup(app: Sphinx) -> dict[str, Any]:
    """Copy before Sphinx looks for pages, and change links when it reads them."""
    app.connect("builder-inited", copy)
    app.connect("source-read", change_links)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
