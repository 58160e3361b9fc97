"""Checks of arguments: one function each, which returns the argument or raises a ValueError.

A message names the argument, what came and what was expected.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

from .arrays import Array, ArrayT, array_module, rounding_unit
from .matrices import resolution
from .vocabulary import DTYPES, KINDS, PARTS

_MOST_PIXELS = 2**27
"""Most pixels of a receptive field, 1 GiB of float64 numbers: longer fields are refused."""


def check_integer(value: Any, name: str) -> int:
    """Return `value` as an int (NumPy's too), or say what is wrong with it."""
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise ValueError(f"{name} is {value!r}, expected an integer") from None


def check_depth(value: Any, name: str = "depth") -> int:
    """Return `value` as an int of at least 1, or say what is wrong with it."""
    number = check_integer(value, name)
    if number < 1:
        raise ValueError(f"{name} is {value!r}, expected an integer of at least 1")
    return number


def check_filter_size(value: Any, name: str) -> int:
    """Return `value` as a positive odd int, or say what is wrong with it."""
    number = check_integer(value, name)
    if number < 1 or number % 2 == 0:
        raise ValueError(f"{name} is {value!r}, expected a positive odd integer")
    return number


def check_constant(value: Any, name: str) -> float:
    """Return `value` as a finite non-negative float, or say what is wrong with it."""
    try:
        real = not isinstance(value, str) and getattr(value, "imag", 0) == 0
        number = float(value) if real else math.nan
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or number < 0:
        raise ValueError(f"{name} is {value!r}, expected a finite number of at least 0")
    return number


def check_positive(value: Any, name: str) -> float:
    number = check_constant(value, name)
    if number == 0.0:
        raise ValueError(f"{name} is {value!r}, expected a positive number")
    return number


def check_flag(value: Any, name: str) -> bool:
    """Return `value` as a bool; only true and false (NumPy's too) will do."""
    if value is True or value is False or type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    raise ValueError(f"{name} is {value!r}, expected True or False")


def check_choice(value: Any, name: str, choices: Iterable[str]) -> str:
    """Return `value` if it is one of `choices`, or list them."""
    choices = list(choices)
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} is {value!r}, expected one of {', '.join(map(repr, choices))}")
    return value


def check_depths(depths: Iterable[int]) -> tuple[int, ...]:
    try:
        given = tuple(depths)
    except TypeError:
        raise ValueError(f"depths is {depths!r}, expected a sequence of integers") from None
    if not given:
        raise ValueError("depths is empty, expected at least one depth")
    return tuple(check_depth(depth, "depths") for depth in given)


def check_kinds(kinds: Iterable[str]) -> tuple[str, ...]:
    kinds = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    for kind in kinds:
        check_choice(kind, "kinds", KINDS)
    if not kinds or len(set(kinds)) < len(kinds):
        raise ValueError(f"kinds is {kinds!r}, expected one or both of {KINDS}")
    return kinds


def check_dtype(dtype: Any) -> str:
    """Return the name of "float64" or "float32", however NumPy's users say it."""
    try:
        return check_choice(np.dtype(dtype).name, "dtype", DTYPES)
    except (TypeError, ValueError):
        return check_choice(dtype, "dtype", DTYPES)


def check_trained(trained: Iterable[str]) -> tuple[str, ...]:
    if isinstance(trained, str):
        trained = (trained,)
    try:
        given = list(trained)
    except TypeError:
        raise ValueError(f"trained is {trained!r}, expected some of {PARTS}") from None
    for part in given:
        check_choice(part, "trained", PARTS)
    return tuple(part for part in PARTS if part in given)


def check_network(network: Any) -> None:
    from .network import Network  # network.py checks its own arguments with this module

    if not isinstance(network, Network):
        raise ValueError(f"network is {network!r}, expected a rescntk.Network")


def check_kernel(kernel: Any) -> None:
    """Say so if this is not a kernel, but a network, say."""
    if not callable(kernel):
        raise ValueError(f"kernel is {kernel!r}, expected a rescntk.Kernel or another callable")


def check_real(values: Any, name: str, expected: str, finite: bool = True) -> Any:
    """Return `values` as a float64 array of real numbers, or say what is wrong with it.

    Parameters
    ----------
    values : array_like
    name : str
        What to call the argument.
    expected : str
        What real numbers, say "(n, n)" or "of at least 0".
    finite : bool, default True
        Whether infinity is refused, too; NaN always is.

    Raises
    ------
    ValueError
        Naming the argument, what came and what was expected.
    """
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


def check_nonnegative(values: Any, name: str, shape: str, finite: bool = True) -> np.ndarray:
    """Return a number or a vector of numbers of at least 0."""
    expected = f"of at least 0, one or {shape}"
    array = check_real(values, name, expected, finite)
    if array.ndim > 1 or array.size == 0 or (array < 0).any():
        raise ValueError(f"{name} is {values!r}, expected numbers {expected}")
    return array


def check_signals(X: ArrayT, name: str) -> ArrayT:
    """Return `X` as a floating-point array of signals, or say what is wrong with it.

    Parameters
    ----------
    X : array
        Signals (n_cases, n_channels, n_timepoints), real and finite.
    name : str
        What to call the argument.

    Raises
    ------
    ValueError
        Naming the argument, what came and what was expected.
    """
    expected = "(n_cases, n_channels, n_timepoints)"
    array = check_real(X, name, expected)
    if array.ndim != 3:
        remedy = f"; for signals of one channel {name}[:, None]" if array.ndim == 2 else ""
        raise ValueError(f"{name} has shape {array.shape}, expected {expected}{remedy}")
    if 0 in array.shape:
        raise ValueError(f"{name} has shape {array.shape} with an empty axis, expected {expected}")
    return array


def check_match(X: Array, Z: Array) -> None:
    """Say so if X and Z are not signals of the same kind."""
    if array_module(X) is not array_module(Z):
        raise ValueError(
            "X and Z are of different array libraries, expected both NumPy or both CuPy"
        )
    for axis, what in ((1, "channels"), (2, "timepoints")):
        if X.shape[axis] != Z.shape[axis]:
            raise ValueError(
                f"Z has shape {Z.shape}, expected {X.shape[axis]} {what} as in X of shape {X.shape}"
            )


def check_symmetric(A: Any, name: str) -> np.ndarray:
    """Return `A` as a float64 symmetric matrix, or say what is wrong with it.

    Parameters
    ----------
    A : array_like, (n, n)
        Real, finite, and symmetric up to √eps of its largest entry, eps that of its dtype.
    name : str
        What to call the argument.

    Raises
    ------
    ValueError
        Naming the argument, what came and what was expected.
    """
    given, A = A, check_real(A, name, "(n, n)")
    if A.ndim != 2 or A.shape[0] != A.shape[1] or A.size == 0:
        raise ValueError(f"{name} has shape {A.shape}, expected (n, n)")
    if np.abs(A - A.T).max() > np.sqrt(rounding_unit(given)) * np.abs(A).max():
        raise ValueError(f"{name} of shape {A.shape} is not symmetric")
    return A


def check_targets(y: Any, n: int) -> np.ndarray:
    expected = f"({n},) or ({n}, n_targets)"
    y = check_real(y, "y", expected)
    if y.ndim not in (1, 2) or len(y) != n or y.size == 0:
        raise ValueError(f"y has shape {y.shape}, expected {expected}")
    return y


def check_length(n_timepoints: Any) -> int:
    """Return `n_timepoints` as an int for which there is memory, or say what is wrong with it."""
    d = check_depth(n_timepoints, "n_timepoints")
    if d > _MOST_PIXELS:
        raise ValueError(
            f"n_timepoints is {d}, which would take {8 * d / 2**30:.3g} GiB: "
            f"expected at most {_MOST_PIXELS}"
        )
    return d


def check_channels(n_channels: Any) -> int:
    """Return `n_channels` as an int of at least 2, or say what is wrong with it."""
    number = check_integer(n_channels, "n_channels")
    if number < 2:
        raise ValueError(
            f"n_channels is {n_channels!r}, expected at least 2: on the multi-sphere a pixel of "
            f"one channel is a sign, and has no frequencies beyond 1"
        )
    return number


def check_frequency(frequency: Any, name: str) -> int:
    """Return `frequency` as an int of at least 0, or say what is wrong with it."""
    number = check_integer(frequency, name)
    if number < 0:
        raise ValueError(f"{name} is {frequency!r}, expected an integer of at least 0")
    return number


def check_dot_products(t: np.ndarray, complement: bool) -> np.ndarray:
    """Return 1 − t (t itself if `complement`), in [0, 2], or say what is wrong with it."""
    complement = check_flag(complement, "complement")
    low, high = (0.0, 2.0) if complement else (-1.0, 1.0)
    slack = 8 * np.finfo(np.float64).eps
    if not bool(((t >= low - slack) & (t <= high + slack)).all()):
        raise ValueError(
            f"t has values from {t.min()} to {t.max()}, "
            f"expected {'complements of ' if complement else ''}dot products in [{low}, {high}]"
        )
    t = np.clip(t, low, high)
    return t if complement else 1.0 - t


def check_library_kernel(kernel: Any) -> None:
    """Raise ValueError unless `kernel` is a rescntk.Kernel, whose network is known."""
    from .kernels import Kernel  # kernels.py checks its own arguments with this module

    if not isinstance(kernel, Kernel):
        raise ValueError(f"kernel is {kernel!r}, expected a rescntk.Kernel")


def check_cross_kernel(cross: Any, n: int) -> np.ndarray:
    """Return `cross`, kernel(Z, X), as a float64 array (m, n), or raise ValueError."""
    cross = check_real(cross, "cross", f"(m, {n})")
    if cross.ndim != 2 or cross.shape[1] != n or cross.size == 0:
        raise ValueError(f"cross has shape {cross.shape}, expected (m, {n})")
    return cross


def check_prior_variance(prior: Any, m: int) -> np.ndarray:
    """Return `prior`, kernel.diag(Z), as a float64 array (m,), or raise ValueError."""
    prior = check_real(prior, "prior", f"({m},)")
    if prior.shape != (m,):
        raise ValueError(f"prior has shape {prior.shape}, expected ({m},)")
    return prior


def check_posterior_variance(variance: np.ndarray, prior: np.ndarray, eps: float) -> None:
    """Raise ValueError if a variance lies below −√eps times its prior: no rounding error does."""
    relative = np.where(variance < 0, -np.inf, 0.0)  # where the prior is 0
    with np.errstate(over="ignore"):
        np.divide(variance, prior, out=relative, where=prior > 0)
    worst = int(np.argmin(relative))
    if relative[worst] < -np.sqrt(eps):
        raise ValueError(
            f"cross and prior do not belong to K: the posterior variance at point {worst} would "
            f"be {variance[worst]:.3g}, expected matrices of one kernel"
        )


def check_semidefinite(eigenvalues: np.ndarray, eps: float) -> None:
    """Raise ValueError if the smallest eigenvalue of K, (n,) rising, is clearly below 0.

    The bound is −10·n·eps·λ_max. An eigendecomposition errs by about n·eps·λ_max; the factor 10
    leaves room for the rounding errors of the kernel matrix itself.
    """
    n = len(eigenvalues)
    if eigenvalues[0] < -10 * resolution(eigenvalues, eps):
        raise ValueError(
            f"K of shape {(n, n)} has the eigenvalue {eigenvalues[0]:.3g}, "
            f"expected a positive semidefinite matrix"
        )


def check_resolved(eigenvalues: np.ndarray, eps: float, remedy: str = "") -> None:
    """Raise ValueError if the smallest eigenvalue of K, (n,) rising, is at most n·eps·λ_max."""
    if eigenvalues[0] <= resolution(eigenvalues, eps):
        raise singular_matrix(eigenvalues, eps, remedy)


def singular_matrix(eigenvalues: np.ndarray, eps: float, remedy: str) -> ValueError:
    """Return the error of a numerically singular K, with its smallest eigenvalue and remedies."""
    n = len(eigenvalues)
    remedies = ["points that differ", remedy]
    if eps > np.finfo(np.float64).eps:
        remedies.append("a matrix in float64")
    return ValueError(
        f"K of shape {(n, n)} is numerically singular: its smallest eigenvalue (ridge included) "
        f"is {eigenvalues[0]:.3g}, expected above n·eps·λ_max = {resolution(eigenvalues, eps):.3g} "
        f"for eps = {eps:.3g} of its dtype ({' or '.join(filter(None, remedies))})"
    )
