"""Parts of a report: sections, and how they write numbers, names and pictures."""

from __future__ import annotations

import base64
import io
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binomtest

from ..plots.style import shown_name
from .calibration import NOVEL

LISTED = 50
"""Rows of a table of cases, groups or channels. Raising it makes the page longer."""


class Section(NamedTuple):
    """A part of the page: a heading, a text, and a table or a picture."""

    title: str
    text: str
    head: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    picture: str = ""
    """A PNG file in base64."""
    wide: bool = False
    """Whether a narrow screen scrolls the picture, and does not shrink it."""


def picture_of(figure: Any) -> str:
    file = io.BytesIO()
    figure.savefig(file, format="png", bbox_inches="tight")
    return base64.b64encode(file.getvalue()).decode()


def short(name: Any) -> str:
    return shown_name(name).replace(r"\$", "$")


def numbers(value: Any) -> str:
    """Return a name, short, or one or several numbers."""
    values = np.atleast_1d(value)
    return ", ".join(f"{each:.4g}" if values.dtype.kind == "f" else short(each) for each in values)


def interval(count: int, n: int) -> str:
    """Return a share with its 95 % interval (Wilson 1927)."""
    if not n:
        return "–"
    low, high = binomtest(count, n).proportion_ci(method="wilson")
    return f"{count / n:.3f} ({low:.3f} to {high:.3f})"


def share_of(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.3f}"


def expected_score(model: Any) -> str:
    return f"{model.best_score_:.3f} ± {model.best_score_error_:.3f}"


def novelty_row(novelty: np.ndarray) -> tuple[str, str, str]:
    unlike = np.mean(novelty > NOVEL)
    note = f"1 is usual; {unlike:.0%} above {NOVEL:g}"
    return "median novelty", f"{np.median(novelty):.2f}", note
