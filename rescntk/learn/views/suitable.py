"""Which of several views suit some signals, and which of these see different things."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..reading.signals import Signals
from .pipeline import ViewPipeline
from .view import UnsuitableSignals, View


@dataclass(frozen=True, eq=False)
class SuitableViews:
    """Several views, and the pipelines of those that suit some signals."""

    views: Sequence[View]
    """All views, in the order in which they were given."""
    pipelines: list[ViewPipeline]
    """The pipelines of views that suit the signals; views that see the same have one pipeline."""
    view_indices: list[int]
    """The index in `views` of the view of each pipeline."""
    notes: np.ndarray
    """Why a view has no pipeline of its own, for each of `views`; an empty text if it has one."""


def suitable_views(views: Sequence[View], X: Signals) -> SuitableViews:
    """Return which views suit signals X, or raise a ValueError if none does."""
    notes, indices = np.full(len(views), "", dtype=object), dict[ViewPipeline, int]()
    for k, view in enumerate(views):
        try:
            pipeline = view.pipeline(X)
        except UnsuitableSignals as refusal:
            notes[k] = refusal.reason
            continue
        if pipeline in indices:
            notes[k] = f"sees the same as view {indices[pipeline]}"
        else:
            indices[pipeline] = k
    if not indices:
        raise ValueError(f"views has no view that suits these signals: {notes[0]}")
    return SuitableViews(views, [*indices], [*indices.values()], notes)
