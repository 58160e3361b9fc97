"""Parameters of classifier and regressor, also those of aeon and sktime, and their checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..validation import (
    HEADS,
    KINDS,
    check_choice,
    check_constant,
    check_depth,
    check_filter_size,
    check_flag,
    check_positive,
)
from .views import ONLY


@dataclass(kw_only=True, eq=False, repr=False)
class EstimatorParameters:
    """Parameters of the regressor; `ResidualKernelClassifier` documents them."""

    effort: str | float = "default"
    max_length: int | Iterable[int] | None = None
    block_statistics: bool | Iterable[bool] | None = None
    standardize: bool | Iterable[bool] | None = None
    first_differences: bool | str | Iterable[bool | str] | None = None
    constant: bool | Iterable[bool] | None = None
    time_scale: float | Iterable[float] | None = None
    filter_size: int | Iterable[int] | None = None
    input_filter_size: int | Iterable[int] | None = None
    dilation: int | Iterable[int] | None = None
    head: str | Iterable[str] | None = None
    kind: str | Iterable[str] = KINDS
    depth: int | Iterable[int] = 2
    alpha: float = 1.0
    penalty: float | Iterable[float] | None = None
    landmarks: int | str | None = None
    random_state: int | np.random.RandomState | None = 0
    engine: str = "auto"
    dtype: str = "float32"
    n_jobs: int | None = None
    verbose: int = 0

    def __post_init__(self) -> None:
        super().__init__()  # of the library's own base class


@dataclass(kw_only=True, eq=False, repr=False)
class ClassifierParameters(EstimatorParameters):
    """Parameters of the classifier."""

    class_weight: Mapping[Any, float] | str | None = None


def _check_first_differences(value: Any, name: str) -> bool | str:
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, str) and value == ONLY:
        return value
    raise ValueError(f"{name} is {value!r}, expected True, False or {ONLY!r}")


SETTINGS: dict[str, Callable[[Any, str], Any]] = {
    "max_length": check_depth,
    "block_statistics": check_flag,
    "standardize": check_flag,
    "first_differences": _check_first_differences,
    "constant": check_flag,
    "time_scale": check_constant,
    "filter_size": check_filter_size,
    "input_filter_size": check_filter_size,
    "dilation": check_depth,
    "head": partial(check_choice, choices=HEADS),
}
"""Checks of the settings in which passes differ; None leaves a setting to the plan."""

SEVERAL = SETTINGS | {
    "kind": partial(check_choice, choices=KINDS),
    "depth": check_depth,
    "penalty": check_positive,
}
"""Checks of the parameters that take a sequence of values beside a single value."""


def check_several(parameters: EstimatorParameters) -> dict[str, tuple[Any, ...] | None]:
    """Return the checked values of the parameters of `SEVERAL`, by name, without repetitions.

    None stays None where it is the default.
    """
    checked: dict[str, Any] = dict.fromkeys(SEVERAL)
    for name, check in SEVERAL.items():
        values = getattr(parameters, name)
        if values is None and getattr(type(parameters), name) is None:
            continue
        single = isinstance(values, str) or not isinstance(values, Iterable)
        given = (values,) if single else values
        checked[name] = tuple(dict.fromkeys(check(value, name) for value in given))
        if not checked[name]:
            raise ValueError(f"{name} is empty, expected at least one value")
    return checked


def check_effort(effort: Any, words: Iterable[str]) -> str | float:
    """Return an effort: one of the words, or a positive number of seconds as a float."""
    if isinstance(effort, str) and effort in words:
        return effort
    try:
        return check_positive(effort, "effort")
    except ValueError:
        names = ", ".join(map(repr, words))
        raise ValueError(
            f"effort is {effort!r}, expected one of {names} or a positive number of seconds"
        ) from None
