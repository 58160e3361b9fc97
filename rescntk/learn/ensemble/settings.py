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
)
from ..views.kernels import KernelOptions, ViewKernel
from ..views.view import View


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
