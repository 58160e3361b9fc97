"""Parameters of the estimators of several views, and what a fit takes from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

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


_FEW_SIGNALS = 1000
"""Up to so many signals, if all are landmarks, a view of a network has the least penalty alone: the
average of views has less noise than each view, which by itself would choose a greater one."""

_PENALTIES_OF_MANY = 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1
"""Penalties of more signals, or of landmarks. What landmarks do not explain acts as noise, most of
all where they are nearly as many as signals."""

_SIMILAR = 1.05
"""A view has the least penalty whose error is at most this multiple of the smallest error. The
average of views has less noise than each view, and needs smaller penalties. Measured on 4,000
simulated signals of 24 classes: the log loss was .038 with this rule, .041 with the penalty of the
smallest error, and .050 with the least of all penalties. Penalties were shares of the variance
that landmarks do not explain, in place of `_PENALTIES_OF_MANY`."""

_CAUTION = 0.5
"""What is added to `_SIMILAR` for one signal more than `_FEW_SIGNALS`, if all are landmarks. For
more signals less is added, and nothing from one and a half times `_FEW_SIGNALS` on. So one signal
more than `_FEW_SIGNALS`, up to which views have the least penalty, does not change all penalties.
"""


def _tolerance(n: int, n_landmarks: int) -> float:
    """Return the tolerance of more than `_FEW_SIGNALS`, or of signals with fewer landmarks."""
    share = 2.0 * (n / _FEW_SIGNALS - 1.0) if n_landmarks == n else 1.0
    return _SIMILAR + _CAUTION * max(0.0, 1.0 - share)


class Penalties(NamedTuple):
    """Penalties that a view tries."""

    tried: Sequence[float]
    """The least one is the first."""
    tolerance: float
    """The first one counts whose error of cases left out is at most this multiple of the least."""


def penalties_of(
    settings: Settings,
    kernel: ViewKernel,
    weights: np.ndarray,
    more: Sequence[float],
    n_landmarks: int,
) -> Penalties:
    """Return the penalties that a view with this kernel tries for cases of these weights.

    They are those of the settings. If the settings have none, the view tries the least penalty that
    the kernel allows, and greater ones: those of the kernel or, if it has none, those of `more`. If
    neither has any, these are `_PENALTIES_OF_MANY` for more than `_FEW_SIGNALS` and where not all
    signals are landmarks; otherwise there are none.
    """
    if settings.penalty is not None:
        penalties = check_nonnegative_vector(settings.penalty, "penalty")
        if not penalties.all():
            raise ValueError(f"penalty is {shown(settings.penalty)}, expected positive numbers")
        return Penalties(penalties.tolist(), 1.0)
    least, n = kernel.least_penalty(weights, check_dtype(settings.dtype)), len(weights)
    greater, tolerance = kernel.penalties or more, 1.0
    if not greater and (n > _FEW_SIGNALS or n_landmarks < n):
        greater, tolerance = _PENALTIES_OF_MANY, _tolerance(n, n_landmarks)
    return Penalties([least, *(penalty for penalty in greater if penalty > least)], tolerance)


def kernel_options(settings: Settings) -> KernelOptions:
    """Return how the settings say that kernels are computed."""
    n_jobs = settings.n_jobs
    threads = None if n_jobs is None else effective_n_jobs(check_integer(n_jobs, "n_jobs"))
    return {"engine": settings.engine, "dtype": check_dtype(settings.dtype), "threads": threads}
