"""The parameters of the estimators, with the check of each value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
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
    is_sequence,
)
from .passes import COMMON
from .views import EACH, ONLY, POINT, WHOLE


def _flag_or(value: Any, name: str, words: tuple[str, ...]) -> bool | str:
    """Return `value`, which is True, False or one of some words."""
    if isinstance(value, str) and value in words:
        return value
    if isinstance(value, bool | np.bool_):
        return bool(value)
    others = " or ".join(map(repr, words))
    raise ValueError(f"{name} is {value!r}, expected True, False or {others}")


def _values(check: Callable[..., Any], default: Any = None, **options: Any) -> Any:
    """Return a field for one value or several, each checked with its name and the options."""
    return field(default=default, metadata={"check": partial(check, **options)})


@dataclass(kw_only=True, eq=False, repr=False)
class EstimatorParameters:
    """Parameters of the regressor, which `ResidualKernelClassifier` documents."""

    effort: str | float = "default"
    passes: Sequence[Mapping[str, Any]] | None = None
    max_length: int | Iterable[int] | None = _values(check_depth)
    block_statistics: bool | Iterable[bool] | None = _values(check_flag)
    spectra: bool | str | Iterable[bool | str] | None = _values(_flag_or, words=(WHOLE,))
    standardize: bool | str | Iterable[bool | str] | None = _values(_flag_or, words=(EACH, POINT))
    first_differences: bool | str | Iterable[bool | str] | None = _values(_flag_or, words=(ONLY,))
    constant: bool | Iterable[bool] | None = _values(check_flag)
    time_scale: float | Iterable[float] | None = _values(check_constant)
    filter_size: int | Iterable[int] | None = _values(check_filter_size)
    input_filter_size: int | Iterable[int] | None = _values(check_filter_size)
    dilation: int | Iterable[int] | None = _values(check_depth)
    head: str | Iterable[str] | None = _values(check_choice, choices=HEADS)
    kind: str | Iterable[str] = _values(check_choice, KINDS, choices=KINDS)
    depth: int | Iterable[int] = _values(check_depth, 2)
    alpha: float = 1.0
    penalty: float | Iterable[float] | None = _values(check_positive)
    landmarks: int | str | None = None
    random_state: int | np.random.RandomState | None = 0
    engine: str = "auto"
    dtype: str = "float32"
    n_jobs: int | None = None
    n_channels: int = 1
    channel_metric: bool | str = "auto"
    channel_names: Sequence[str] | None = None
    missing: str = "refuse"
    verbose: int = 0

    def __post_init__(self) -> None:
        super().__init__()  # of the library's own base class


@dataclass(kw_only=True, eq=False, repr=False)
class ClassifierParameters(EstimatorParameters):
    """Parameters of the classifier."""

    class_weight: Mapping[Any, float] | str | None = None


def check_several(parameters: EstimatorParameters) -> dict[str, tuple[Any, ...]]:
    """Return the checked values of the parameters that take several, without repetitions.

    A parameter that is None, which is its default, is left out.
    """
    checked = {}
    for each in fields(parameters):
        values, check = getattr(parameters, each.name), each.metadata.get("check")
        if check is None or (values is None and each.default is None):
            continue
        given = values if is_sequence(values) else (values,)
        checked[each.name] = tuple(dict.fromkeys(check(value, each.name) for value in given))
        if not checked[each.name]:
            raise ValueError(f"{each.name} is empty, expected at least one value")
    return checked


def checked_passes(passes: Any) -> list[dict[str, Any]]:
    """Return the settings of passes given by hand, checked; none for None."""
    if passes is None:
        return []
    if isinstance(passes, Mapping) or not is_sequence(passes) or not len(passes):
        raise ValueError(
            f"passes is {passes!r}, expected dicts of settings, such as "
            f"[{{'head': 'trace', 'max_length': 512}}]"
        )
    checks = {each.name: each.metadata["check"] for each in fields(EstimatorParameters)
              if each.name in COMMON}  # fmt: skip
    rows = []
    for number, row in enumerate(passes):
        name = f"passes[{number}]"
        if not isinstance(row, Mapping):
            raise ValueError(f"{name} is {row!r}, expected a dict of settings")
        unknown = [key for key in row if key not in COMMON]
        if unknown:
            raise ValueError(f"{name} has {unknown[0]!r}, expected some of {', '.join(COMMON)}")
        rows.append({key: checks[key](value, f"{name}[{key!r}]") for key, value in row.items()})
    return rows
