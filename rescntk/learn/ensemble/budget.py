"""How much a fit computes: a budget limits views and landmarks, and much work has a warning.

Work is counted in pixel pairs times layers; for two signals it is `ViewPipeline.work`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence

import numpy as np

from ...checks.messages import shown, warn
from ...checks.values import check_integer, is_sequence
from ...memory import check_free_memory
from ..reading.signals import Signals
from ..views.defaults import COVARIANCES, with_savings
from ..views.pipeline import ViewPipeline
from ..views.suitable import SuitableViews, suitable_views
from ..views.view import View, channel_factor
from .settings import Settings

_BUDGETS = {"fast": 2e10, "default": 5e10}
"""Most work of a fit of these views, or of "default" for a list of views, unless `LEAST_LANDMARKS`
need more. Each is about one and a half times the work of 1,000 signals of up to ten channels, so
such fits keep all views, and all signals are landmarks. With one channel of 64 points or more, 5e10
takes some 100 seconds of one core of Zen 4."""

LEAST_LANDMARKS = 1000
"""Least number of landmarks by default, if there are as many signals. The time of kernels is
proportional to the number of landmarks."""

MOST_LANDMARKS = 3000
"""Maximum number of landmarks by default: each view then has a matrix of 72 MB."""

_WORK_OF_SOLVING = 1 / 8
"""Work of eigenvectors and of products of matrices, for each pair of signals, per landmark."""

_WORK_THAT_WARNS = 1e12
"""Work of a fit above which it warns: a quarter of an hour on two cores."""


def chosen_views(
    settings: Settings, default: Mapping[str, Sequence[View]], X: Signals
) -> SuitableViews:
    """Return the views of a fit to signals X.

    `default` has the views that are named by a word. For many signals, views are left out or
    shortened until the kernels of all pairs are within the budget, if that is possible.
    """
    views = settings.views
    if isinstance(views, str) and views in default:
        covariance_views = () if len(X[0]) == 1 else (COVARIANCES,)
        for fewer in with_savings((*default[views], *covariance_views)):
            suitable = suitable_views(fewer, X)
            if _work(suitable.pipelines, X, len(X)) <= _BUDGETS[views]:
                return suitable
        return suitable  # the fewest and shortest ones
    if not is_sequence(views) or not len(views) or not all(isinstance(v, View) for v in views):
        words = ", ".join(map(repr, default))
        raise ValueError(f"views is {shown(views)}, expected {words} or a list of View")
    return suitable_views(list(views), X)


def draw_landmarks(
    settings: Settings, pipelines: Sequence[ViewPipeline], X: Signals, rng: np.random.RandomState
) -> np.ndarray | None:
    """Return the indices of the landmarks among signals X, or None if all are landmarks.

    By default they are as many as the budget allows, from `LEAST_LANDMARKS` to `MOST_LANDMARKS`.
    """
    n = len(X)
    if settings.n_landmarks is None:
        least, most = min(n, LEAST_LANDMARKS), min(n, MOST_LANDMARKS)
        budget = _BUDGETS[settings.views if isinstance(settings.views, str) else "default"]
        more = range(least + 1, most + 1)
        m = least + bisect_right(more, budget, key=lambda m: _work(pipelines, X, m))
    else:
        m = min(n, check_integer(settings.n_landmarks, "n_landmarks", at_least=2))
    return None if m == n else np.sort(rng.permutation(n)[:m])


def check_fit(pipelines: Sequence[ViewPipeline], X: Signals, n_landmarks: int) -> None:
    """Refuse a fit that has no room in memory, and warn of one that takes long."""
    check_free_memory(
        8 * n_landmarks * (len(pipelines) * n_landmarks + 2 * len(X)),
        f"a fit of {len(X)} signals with {n_landmarks} landmarks and {len(pipelines)} views",
        "set n_landmarks to fewer, or views to fewer",
    )
    if (work := _work(pipelines, X, n_landmarks)) > _WORK_THAT_WARNS:
        warn(
            f"this fit computes {work:.0e} pixel pairs times layers: fewer landmarks or shorter "
            f"views take less time"
        )


def _work(pipelines: Sequence[ViewPipeline], X: Signals, n_landmarks: int) -> float:
    """Return the work of a fit to signals X with some of them as landmarks.

    The kernel of a pair of landmarks is computed once.
    """
    n_pairs = n_landmarks * (len(X) - n_landmarks / 2)
    works = [p.work * channel_factor(X) + _WORK_OF_SOLVING * n_landmarks for p in pipelines]
    return n_pairs * sum(works)
