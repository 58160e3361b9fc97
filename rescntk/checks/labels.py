"""Checks of labels and groups: each returns them in their checked form, or raises a ValueError."""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np

from .messages import shown
from .values import check_rectangular, check_unmasked, is_sequence


def check_known(values: object, name: str) -> None:
    """Raise a ValueError if a value is missing: if it is None, NaN, NaT or the NA of pandas."""
    if hasattr(values, "columns") and hasattr(values, "to_numpy"):
        values = values.to_numpy()
    for k, value in enumerate(values if is_sequence(values) else ()):
        same = value is not None and value == value
        try:
            known = bool(same) if np.ndim(same) == 0 else bool(np.all(same))
        except TypeError:  # NA is neither true nor false
            known = False
        if not known:
            raise ValueError(
                f"{name}[{k}] is missing ({value}), expected a value for each case: leave out the "
                f"cases without one"
            )


def check_labels(values: Any, name: str) -> np.ndarray:
    """Return labels as an array of their kind: integers, booleans, floats, texts or objects.

    Labels of pandas, polars and Arrow are first turned into Python objects, because NumPy may turn
    their integers into floats. A list is refused if NumPy would change one of its labels, as it
    changes 2^53 + 1 beside 0.5, or 1 beside a text.
    """
    check_unmasked(values, name, "or labels, one a case,")
    if hasattr(values, "columns") and len(values.columns) == 1:
        return check_labels(values[values.columns[0]], name)[:, None]
    listed, dtype = values, getattr(values, "dtype", None)
    if not isinstance(dtype, np.dtype) or dtype.kind == "T":  # NumPy's own type of texts
        for method in ("to_pylist", "to_list", "tolist"):
            if hasattr(values, method):
                listed = getattr(values, method)()
                break
    check_known(listed, name)
    array = np.asarray(check_rectangular(listed, name, "labels, one a case"))
    if array.ndim == 1 and isinstance(listed, list | tuple) and array.dtype.kind in "fcSU":
        integers = all(isinstance(label, int | np.integer) for label in listed)
        for k, (label, converted) in enumerate(zip(listed, array.tolist(), strict=True)):
            if integers or label != converted:
                raise ValueError(
                    f"{name}[{k}] is {shown(label)}, and is {shown(converted)} beside the other "
                    f"labels: expected labels of one kind, such as texts"
                )
    return array


def distinct(labels: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the different labels in ascending order, and the index of each label among them.

    Labels of one kind have NumPy's order, and members of an Enum that of their names.
    """
    keys = labels
    if labels.dtype == object and all(isinstance(label, Enum) for label in labels):
        keys = np.array([f"{type(label).__name__}.{label.name}" for label in labels])
    try:
        _, first, indices = np.unique(keys, return_index=True, return_inverse=True)
    except TypeError:
        kinds = ", ".join(sorted({type(label).__name__ for label in labels}))
        raise ValueError(f"{name} has labels of kinds {kinds}, expected one kind") from None
    return labels[first], indices


def check_groups(groups: object, n: int, used: slice | np.ndarray = slice(None)) -> np.ndarray:
    """Return the number of each case's group, 0, 1, …, for the cases that are `used`.

    `groups` has a label for each of n cases, and the used cases must have at least two labels.
    """
    labels = check_labels(groups, "groups")
    if labels.shape != (n,):
        raise ValueError(f"groups has shape {labels.shape}, expected ({n},): a label for each case")
    numbers = distinct(labels[used], "groups")[1]
    if not numbers.any():
        raise ValueError("groups has one label, expected two: each group is left out in turn")
    return numbers
