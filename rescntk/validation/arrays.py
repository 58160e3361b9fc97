"""Checks of arrays of real numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..arrays import array_module, rounding_unit
from .names import check_flag


def check_real(values: Any, name: str, expected: str, finite: bool = True) -> Any:
    """Return `values`, real numbers, as a float64 array.

    Parameters
    ----------
    values : array_like
    name : str
        The argument's name in messages.
    expected : str
        The rest of "expected real numbers …" in messages: "(n, n)" or "of at least 0", say.
    finite : bool, default True
        Whether infinity is refused besides NaN.

    Raises
    ------
    ValueError
        For masked arrays, whose mask NumPy's functions would ignore; for other dtypes than real
        numbers; for ragged lists; and for NaN or infinity.
    """
    check_unmasked(values, name, expected)
    xp = array_module(values)
    try:
        array = xp.asarray(values)
    except ValueError:
        raise ValueError(
            f"{name} is not a rectangular array, expected real numbers {expected}"
        ) from None
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} has dtype {array.dtype}, expected real numbers {expected}")
    array = array.astype(np.float64, copy=False)
    good = xp.isfinite(array) if finite else ~xp.isnan(array)
    if not bool(good.all()):
        first = np.unravel_index(int(xp.argmin(good.reshape(-1))), array.shape)
        what = "NaN or infinity" if finite else "NaN"
        where = f" (first at {[int(k) for k in first]})" if array.ndim else ""
        raise ValueError(
            f"{name} of shape {array.shape} contains {what}{where}, "
            f"expected real numbers {expected}"
        )
    return array


def check_unmasked(values: Any, name: str, expected: str, tools: str = "") -> None:
    """Raise a ValueError if `values` is a masked array, or a list with masked arrays in it.

    `expected` is as for `check_real`; `tools` names more ways to fill in masked values.
    """
    if _is_masked(values, 2):
        ways = ", ".join(filter(None, (f"{name}.filled(…)", tools)))
        raise ValueError(
            f"{name} is a masked array, expected real numbers {expected} without a mask: fill in "
            f"masked values first ({ways}), or leave masked cases out"
        )


def _is_masked(values: Any, depth: int) -> bool:
    """Return whether a masked array is among `values` and the items of `depth` nested lists."""
    if isinstance(values, np.ma.MaskedArray):
        return True
    nested = isinstance(values, (list, tuple)) and depth > 0
    return nested and any(_is_masked(item, depth - 1) for item in values)


def check_shape(
    values: Any, name: str, expected: str, fits: Callable[[tuple[int, ...]], bool]
) -> Any:
    """Return `values`, real and finite, as a float64 array that is not empty and whose shape fits.

    Parameters
    ----------
    values : array_like
    name : str
        The argument's name in messages.
    expected : str
        The shape in messages: "(n, n)", say.
    fits : callable
        Whether a shape is the expected shape.
    """
    array = check_real(values, name, expected)
    if array.size == 0 or not fits(array.shape):
        raise ValueError(f"{name} has shape {array.shape}, expected {expected}")
    return array


def check_vector(values: Any, name: str) -> np.ndarray:
    """Return `values` as a vector of real numbers."""
    return check_shape(values, name, "(n,)", lambda shape: len(shape) == 1)


def check_dot_products(t: np.ndarray, complement: bool) -> np.ndarray:
    """Return the complements 1 − t, in [0, 2], of dot products `t`.

    If `complement` is true, `t` holds the complements already.
    """
    complement = check_flag(complement, "complement")
    low, high = (0.0, 2.0) if complement else (-1.0, 1.0)
    slack = 8 * np.finfo(np.float64).eps  # a dot product of unit vectors is rounded
    if not bool(((t >= low - slack) & (t <= high + slack)).all()):
        raise ValueError(
            f"t has values from {t.min()} to {t.max()}, "
            f"expected {'complements of ' if complement else ''}dot products in [{low}, {high}]"
        )
    t = np.clip(t, low, high)
    return t if complement else 1.0 - t


def check_correlations(t: Any) -> np.ndarray:
    """Return `t` as a float64 array of correlations in [-1, 1]."""
    values = check_real(t, "t", "in [-1, 1]")
    if values.size == 0 or not (np.abs(values) <= 1.0).all():
        raise ValueError(f"t is {t!r}, expected correlations in [-1, 1]")
    return values


def check_layers(depth: Any) -> np.ndarray:
    """Return a depth, or an array of depths, as float64 integers of at least 1."""
    layers = check_real(depth, "depth", "that are integers of at least 1")
    if layers.size == 0 or not ((layers >= 1) & (layers == np.floor(layers))).all():
        raise ValueError(f"depth is {depth!r}, expected integers of at least 1")
    return layers


def check_rows_of_pixels(t: Any) -> np.ndarray:
    """Return `t` as a float64 array with a last axis of pixels, (..., n_timepoints)."""
    return check_shape(t, "t", "(..., n_timepoints)", lambda shape: len(shape) > 0)


def check_samples(values: Any) -> np.ndarray:
    """Return samples of functions on the circle, two or more each, as an array (..., n_samples)."""
    return check_shape(
        values, "values", "(..., n_samples)", lambda shape: len(shape) > 0 and shape[-1] > 1
    )


def check_points(angles: Any, targets: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the angles of points on the circle and the values there, two vectors of one length."""
    angles, targets = check_vector(angles, "angles"), check_vector(targets, "targets")
    if angles.shape != targets.shape:
        raise ValueError(f"targets has shape {targets.shape}, expected {angles.shape}")
    return angles, targets


def check_symmetric(A: Any, name: str) -> np.ndarray:
    """Return `A`, a symmetric matrix, as a float64 array.

    Parameters
    ----------
    A : array_like, (n, n)
        Real, finite, and symmetric up to √eps times its largest entry, with the eps of its
        dtype.
    name : str
        The argument's name in messages.
    """
    given, A = A, check_shape(A, name, "(n, n)", lambda s: len(s) == 2 and s[0] == s[1])
    if np.abs(A - A.T).max() > np.sqrt(rounding_unit(given)) * np.abs(A).max():
        raise ValueError(f"{name} of shape {A.shape} is not symmetric")
    return A


def check_targets(y: Any, n: int) -> np.ndarray:
    """Return targets `y` of n signals, (n,) or (n, n_targets), as a float64 array."""
    expected = f"({n},) or ({n}, n_targets)"
    return check_shape(y, "y", expected, lambda s: len(s) in (1, 2) and s[0] == n)
