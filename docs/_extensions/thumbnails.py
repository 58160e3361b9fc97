"""A small picture of each notebook for the gallery, made of a figure that the notebook keeps."""

import base64
import io
from pathlib import Path
from typing import Any

import nbformat
from PIL import Image
from sphinx.application import Sphinx

FIGURES = {
    "beyond_the_kernel_regime": 1,
    "deep_degeneracy": 2,
    "eigenvalue_decay": 1,
    "images": 2,
    "smoothness": 4,
    "time_series_classification": 2,
    "what_is_learned_first": 2,
    "which_part_decides": 2,
}
"""The number, from 0, of the figure that stands for a notebook; 0 for all other notebooks."""

SHARE = {
    "finite_networks": 0.5,
    "images": 0.5,
    "infinite_depth": 0.73,
    "large_gram": 0.86,
    "locality": 0.5,
}
"""Share of the figure's width, from the left, that a picture shows: whole panels. 1 for others."""

SIZE = (600, 450)
"""Pixels of a picture: twice the width and height of a card, for screens of two pixels a point."""


def figures(notebook: nbformat.NotebookNode) -> list[bytes]:
    """Return the PNGs among the outputs of a notebook, in their order."""
    return [
        base64.b64decode(output.data["image/png"])
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if "image/png" in output.get("data", {})
    ]


def draw(png: bytes, path: Path, share: float) -> None:
    """Write the upper left part of a figure, reduced to the size of a card."""
    image = Image.open(io.BytesIO(png)).convert("RGB")
    width, height = SIZE
    # A card shows the first panels of a row. All panels together would be too small to read.
    shown = min(round(share * image.width), image.height * width // height)
    image = image.crop((0, 0, shown, image.height))
    image = image.resize((width, round(image.height * width / image.width)), Image.LANCZOS)
    card = Image.new("RGB", SIZE, "white")
    card.paste(image, (0, max(0, (height - image.height) // 2)))
    card.save(path)


def make(app: Sphinx) -> None:
    """Make the pictures that are older than their notebooks, in a folder that git ignores."""
    folder = Path(app.srcdir) / "gallery" / "thumbnails"
    folder.mkdir(exist_ok=True)
    for path in (Path(app.srcdir).parent / "notebooks").glob("*.ipynb"):
        target = folder / f"{path.stem}.png"
        if not target.exists() or target.stat().st_mtime < path.stat().st_mtime:
            found = figures(nbformat.read(path, as_version=4))
            draw(found[FIGURES.get(path.stem, 0)], target, SHARE.get(path.stem, 1.0))


def setup(app: Sphinx) -> dict[str, Any]:
    """Make the pictures before Sphinx looks for them."""
    app.connect("builder-inited", make)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
