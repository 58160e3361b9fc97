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
"""Number of signals up to which a view of a network tries only the least penalty, if all are
landmarks: the average of views has less noise than each view, which by itself would choose a larger
penalty."""

_PENALTIES_OF_MANY = 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1
"""Penalties that are tried besides the least one for more signals, and if not all signals are
landmarks. What landmarks do not explain acts as noise, most of all if there are nearly as many
landmarks as signals."""

_ERROR_TOLERANCE = 1.05
"""A view uses the first penalty whose leave-one-out error is at most this multiple of the smallest
one. The average of views has less noise than each view, and needs smaller penalties."""

_ADDED_TOLERANCE = 0.5
"""What is added to `_ERROR_TOLERANCE` just above `_FEW_SIGNALS`, if all signals are landmarks.
There larger penalties begin to be tried, and with a larger tolerance they do not jump. The addition
falls linearly to 0 at one and a half times `_FEW_SIGNALS`."""


def _tolerance(n: int, n_landmarks: int) -> float:
    """Return `Penalties.tolerance` for n signals, of which `n_landmarks` are landmarks."""
    relative_excess = 2.0 * (n / _FEW_SIGNALS - 1.0) if n_landmarks == n else 1.0
    return _ERROR_TOLERANCE + _ADDED_TOLERANCE * max(0.0, 1.0 - relative_excess)


class Penalties(NamedTuple):
    """Penalties that a view tries."""

    tried: Sequence[float]
    """The penalties; the first one is the least."""
    tolerance: float
    """The view uses the first penalty whose leave-one-out error is at most this multiple of the
    smallest one."""


def penalties_of(
    settings: Settings,
    kernel: ViewKernel,
    weights: np.ndarray,
    more: Sequence[float],
    n_landmarks: int,
) -> Penalties:
    """Return the penalties that a view with this kernel tries for cases of these weights.

    They are those of the settings. If the settings have none, the view tries the least penalty that
    the kernel allows, and larger ones: those of the kernel or, if it has none, those of `more`. If
    neither has any, the larger ones are `_PENALTIES_OF_MANY` for more than `_FEW_SIGNALS` signals,
    and if not all signals are landmarks; otherwise there are none.
    """
    if settings.penalty is not None:
        penalties = check_nonnegative_vector(settings.penalty, "penalty")
        if not penalties.all():
            raise ValueError(f"penalty is {shown(settings.penalty)}, expected positive numbers")
        return Penalties(penalties.tolist(), 1.0)
    least, n = kernel.least_penalty(weights, check_dtype(settings.dtype)), len(weights)
    larger, tolerance = kernel.penalties or more, 1.0
    if not larger and (n > _FEW_SIGNALS or n_landmarks < n):
        larger, tolerance = _PENALTIES_OF_MANY, _tolerance(n, n_landmarks)
    return Penalties([least, *(penalty for penalty in larger if penalty > least)], tolerance)


def kernel_options(settings: Settings) -> KernelOptions:
    """Return the options of kernels that the settings ask for."""
    n_jobs = settings.n_jobs
    threads = None if n_jobs is None else effective_n_jobs(check_integer(n_jobs, "n_jobs"))
    return {"engine": settings.engine, "dtype": check_dtype(settings.dtype), "threads": threads}
