"""Parameters of the estimators of several views, and what a fit takes from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np
from joblib import effective_n_jobs

from ...checks.messages import shown
from ...checks.values import (
    check_dtype,
    check_integer,
    check_nonnegative_vector,
    is_sequence,
)
from ..views.defaults import FAST_VIEWS, MANY_SIGNALS, VIEWS_OF_MANY_SIGNALS
from ..views.kernels import KernelOptions, ViewKernel
from ..views.view import View

LANDMARKS_OF_MANY = 400
"""Landmarks of more than `MANY_SIGNALS`: kernels take time in proportion. Few classes need no more.
Measured with 1,200 signals of plants (`benchmarks/constants.py`): accuracy .985 with 100, .990 with
200, .987 with 400; log loss .044, .038 and .048. Many classes do: accuracy on Crop, of 24, is .734
with 400 and .757 with 1,000, in 2.5 times the seconds (`benchmarks/many_signals.py`)."""


@dataclass(eq=False, repr=False)
class Settings:
    """The parameters that the classifier and the regressor share, here and in aeon.py."""

    views: str | Sequence[View] = "default"
    _: KW_ONLY
    penalty: float | Sequence[float] | None = None
    n_landmarks: int | None = None
    engine: str = "auto"
    dtype: str = "float32"
    n_jobs: int | None = None
    random_state: int | np.random.RandomState | None = None


def chosen_views(settings: Settings, default: Sequence[View], n: int) -> Sequence[View]:
    """Return the views of a fit to n signals; `default` are those that "default" stands for."""
    views = settings.views
    if isinstance(views, str) and views in ("fast", "default"):
        fast_or_all = FAST_VIEWS if views == "fast" else default
        return VIEWS_OF_MANY_SIGNALS if n > MANY_SIGNALS else fast_or_all
    if not is_sequence(views) or not len(views) or not all(isinstance(v, View) for v in views):
        raise ValueError(f"views is {shown(views)}, expected 'fast', 'default' or a list of View")
    return list(views)


def draw_landmarks(settings: Settings, n: int, rng: np.random.RandomState) -> np.ndarray | None:
    """Return the indices of the landmarks among n cases, or None if all cases are landmarks."""
    by_default = LANDMARKS_OF_MANY if n > MANY_SIGNALS else n
    m = by_default if settings.n_landmarks is None else settings.n_landmarks
    m = check_integer(m, "n_landmarks", at_least=2)
    return None if m >= n else np.sort(rng.permutation(n)[:m])


def penalties_of(
    settings: Settings, kernel: ViewKernel, weights: np.ndarray, more: Sequence[float]
) -> Sequence[float]:
    """Return the penalties that a view with this kernel tries for cases of these weights.

    If the settings have none, they are the least penalty and all greater ones of the kernel or, if
    it has none, of `more`.
    """
    if settings.penalty is None:
        least = kernel.least_penalty(weights, check_dtype(settings.dtype))
        return least, *(p for p in kernel.penalties or more if p > least)
    penalties = check_nonnegative_vector(settings.penalty, "penalty")
    if not penalties.all():
        raise ValueError(f"penalty is {shown(settings.penalty)}, expected positive numbers")
    return penalties.tolist()


def tries_unexplained(settings: Settings, kernel: ViewKernel, more: Sequence[float]) -> bool:
    """Return whether `penalties_of` returns the least penalty alone because nothing else is known.

    A view of landmarks then tries penalties by what the landmarks do not explain.
    """
    return settings.penalty is None and not (kernel.penalties or more)


def kernel_options(settings: Settings) -> KernelOptions:
    """Return how the settings say that kernels are computed."""
    n_jobs = settings.n_jobs
    threads = None if n_jobs is None else effective_n_jobs(check_integer(n_jobs, "n_jobs"))
    return {"engine": settings.engine, "dtype": check_dtype(settings.dtype), "threads": threads}
