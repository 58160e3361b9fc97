"""Numbers that come into regression from kernels, and numbers that leave it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np

from ..kernels import Kernel
from ..kernels.gradients import signal_gradients
from ..validation import (
    check_constant,
    check_kernel,
    check_rectangular,
    check_shape,
    check_unmasked,
)


def kernel_matrix(kernel: Callable[..., Any], X: Any, *Z: Any, **options: Any) -> Any:
    """Return ``kernel(X)`` or ``kernel(X, Z)``, (n, m), real and finite, as a float64 array."""
    shape = len(X), len(Z[0] if Z else X)
    return check_shape(kernel(X, *Z, **options), "kernel(X, Z)" if Z else "kernel(X)", shape)


def kernel_gradients(
    kernel: Any, X: Any, Z: Any, weights: Any, options: dict[str, Any], **fixed: bool
) -> Any:
    """Return the derivatives, by signals X, of ``kernel(X, Z)`` or ``kernel(X)`` times weights.

    They have the shape of X, or are a list. Weights, and ``fixed_Z``, are as for ``Kernel.vjp``.
    """
    try:
        if isinstance(kernel, Kernel):
            return signal_gradients(kernel, X, Z, weights, **fixed, **options)[0]
        return kernel.vjp(X, Z, weights=weights, **fixed, **options).X
    except OverflowError as error:
        size = max(np.abs(x).max() for x in X)
        raise OverflowError(
            f"{error}: X has signals of size {size:.2g}, expected a size near 1"
        ) from None


def check_gradients(kernel: Any, X: Any, options: dict[str, Any]) -> None:
    """Raise a ValueError unless `kernel` has gradients, of one signal of X with these options."""
    check_kernel(kernel)
    if not callable(getattr(kernel, "vjp", None)):
        raise ValueError(f"kernel is {kernel!r}, expected a Kernel, which has gradients (vjp)")
    kernel_gradients(kernel, X[:1], X[:1], np.ones((1, 1)), options, fixed_Z=True)


def check_share(value: Any, name: str) -> float:
    """Return `value`, a number from 0 to below 1, as a float."""
    if (share := check_constant(value, name)) < 1.0:
        return share
    raise ValueError(f"{name} is {value!r}, expected from 0 to below 1")


Function = TypeVar("Function", bound=Callable[..., Any])


def in_range(function: Function) -> Function:
    """Raise an OverflowError if a function's results exceed float64; a decorator.

    The results are an array, or a tuple with arrays. NumPy's own warnings are held back.
    """

    @wraps(function)
    def checked(*arguments: Any, **named: Any) -> Any:
        with np.errstate(over="ignore", invalid="ignore"):
            result = function(*arguments, **named)
        for part in result if isinstance(result, tuple) else (result,):
            if isinstance(part, np.ndarray | float) and not np.isfinite(part).all():
                raise OverflowError(
                    "the results exceed float64, expected smaller targets, kernel values or "
                    "weights, or a larger ridge"
                )
        return result

    return cast(Function, checked)


def powers_of_targets(Y: np.ndarray) -> np.ndarray:
    """Return p, () or (n_targets,), for which 2^−p Y has entries of 1 at most.

    Sums of huge targets leave the range of float64. Products with powers of two are exact.
    """
    return np.asarray(np.frexp(np.abs(Y).max(axis=0))[1])


def group_numbers(groups: Any, n: int) -> np.ndarray:
    """Return the number of each point's group, (n,), from n labels of any kind."""
    check_unmasked(groups, "groups", f"labels ({n},)")
    labels = check_rectangular(groups, "groups", f"labels ({n},)")
    if labels.shape != (n,):
        raise ValueError(f"groups has shape {labels.shape}, expected ({n},): a label for each case")
    if (labels != labels).any():
        raise ValueError("groups contains NaN, expected a label for each case")
    return distinct(labels, "groups")[1].reshape(-1)


def distinct(labels: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the different labels in order, and the place of each label among them."""
    try:
        return np.unique(labels, return_inverse=True)
    except TypeError:
        kinds = ", ".join(sorted({type(label).__name__ for label in labels.flat}))
        raise ValueError(f"{name} has labels of kinds {kinds}, expected one kind") from None


def find_groups(groups: Any, n: int, several: bool = False) -> list[np.ndarray]:
    """Return the indices of each group's points, from n labels; with `several`, at least two."""
    numbers = group_numbers(groups, n)
    if several and numbers.max() == 0:
        raise ValueError(
            "groups has one label, expected at least two: the others give the constant"
        )
    return np.split(numbers.argsort(kind="stable"), np.bincount(numbers).cumsum()[:-1])
