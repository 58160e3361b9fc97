"""Checks of arguments: most return the argument in its checked form; all raise a ValueError.

A message names the argument, and says what it is, what was expected, and what to do about it. A
check that only one file needs stands in that file.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import (
    Array,
    Batch,
    SignalList,
    array_module,
    channels_and_length,
    pixel_shape,
    rounding_unit,
)
from .messages import shown

KINDS = ("gpk", "ntk")
"""The kinds of kernel: Gaussian process kernel (GPK) and neural tangent kernel (NTK)."""

HEADS = ("equivariant", "trace", "gap")
"""The heads that have names: pixel 1 of both signals, the mean over equal pixels, and the mean over
all pixel pairs. Other heads are numbers of pixels (engines/heads.py)."""

DTYPES = ("float64", "float32")
"""The working precisions of the engines."""

PARTS = ("input", "inner", "outer", "readout")
"""The parts of a network that may be trained, from the input to the output."""

# ---------------------------------------------------------------- numbers and names


def check_integer(value: Any, name: str, at_least: int | None = None) -> int:
    """Return `value`, a Python or NumPy integer of at least `at_least`, as an int."""
    number = None
    if not isinstance(value, bool):
        with suppress(TypeError):  # floats and arrays of floats are no indices
            number = operator.index(value)
    if number is None or (at_least is not None and number < at_least):
        least = "" if at_least is None else f" of at least {at_least}"
        raise ValueError(f"{name} is {shown(value)}, expected an integer{least}")
    return number


def check_positive_integer(value: object, name: str) -> int:
    """Return `value`, an integer of at least 1, as an int."""
    return check_integer(value, name, at_least=1)


def is_sequence(values: object) -> TypeGuard[Sequence[Any]]:
    """Return whether `values` can hold several values.

    Strings, bytes and arrays without axes cannot.
    """
    return np.iterable(values) and not isinstance(values, str | bytes | bytearray)


def check_depths(depths: Iterable[int], name: str = "depths") -> tuple[int, ...]:
    """Return one or more depths, integers of at least 1, as a tuple of ints."""
    if not is_sequence(depths):
        raise ValueError(f"{name} is {shown(depths)}, expected a sequence of integers")
    checked = tuple(check_positive_integer(depth, name) for depth in depths)
    if not checked:
        raise ValueError(f"{name} is empty, expected at least one integer")
    return checked


def check_nonnegative(value: Any, name: str) -> float:
    """Return `value`, a finite number of at least 0, as a float."""
    # float() accepts strings, bytes and arrays with one entry too.
    is_number = hasattr(value, "__float__") or hasattr(value, "__index__")
    kind = getattr(getattr(value, "dtype", None), "kind", "f")
    number = math.nan
    if is_number and not isinstance(value, str | bool) and kind in "iuf":
        with suppress(TypeError, ValueError, OverflowError):
            number = math.nan if getattr(value, "ndim", 0) else float(value)
    if not math.isfinite(number) or number < 0:
        raise ValueError(f"{name} is {shown(value)}, expected a finite number of at least 0")
    return number + 0.0  # -0.0 becomes 0.0, so that equal networks have the same text


def check_positive(value: object, name: str) -> float:
    """Return `value`, a finite number above 0, as a float."""
    if number := check_nonnegative(value, name):
        return number
    raise ValueError(f"{name} is {shown(value)}, expected a positive number")


def check_flag(value: object, name: str) -> bool:
    """Return `value`, a Python or NumPy boolean, as a bool."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise ValueError(f"{name} is {shown(value)}, expected True or False")


def check_choice(value: object, name: str, choices: Iterable[str]) -> str:
    """Return `value`, one of `choices`; the message lists all of them."""
    choices = list(choices)
    if not isinstance(value, str) or value not in choices:
        raise ValueError(
            f"{name} is {shown(value)}, expected one of {', '.join(map(repr, choices))}"
        )
    return value


def check_kinds(kinds: object) -> tuple[str, ...]:
    """Return one kind of kernel, or several different ones, as a tuple of names."""
    several = kinds if is_sequence(kinds) else (kinds,)
    names = tuple(check_choice(kind, "kinds", KINDS) for kind in several)
    if not names or len(set(names)) < len(names):
        raise ValueError(f"kinds is {shown(names)}, expected one or both of {KINDS}")
    return names


def check_dtype(dtype: object) -> str:
    """Return the name of a working precision, given as a name, a type or a NumPy dtype."""
    if isinstance(dtype, str | type | np.dtype):  # NumPy accepts any object that has a dtype
        with suppress(TypeError, ValueError, SyntaxError):
            return check_choice(np.dtype(dtype).name, "dtype", DTYPES)
    return check_choice(dtype, "dtype", DTYPES)


def check_kernel(kernel: object) -> None:
    """Raise a ValueError if `kernel` cannot be called. A `Network`, for example, cannot."""
    if not callable(kernel):
        raise ValueError(
            f"kernel is {shown(kernel)}, expected a rescntk.Kernel or another callable"
        )


def check_rng(rng: object) -> np.random.Generator:
    """Return a source of randomness, given as a Generator, a seed or None."""
    try:
        if not (rng is None or isinstance(rng, np.random.Generator)):
            rng = check_integer(rng, "rng", at_least=0)  # some arrays make NumPy crash
        return np.random.default_rng(rng)
    except (TypeError, ValueError):
        raise ValueError(
            f"rng is {shown(rng)}, expected a NumPy Generator, an integer of at least 0, or None"
        ) from None


# ---------------------------------------------------------------- arrays


def check_real(
    values: object, name: str, expected: str | tuple[int, ...], finite: bool = True
) -> Array:
    """Return `values`, which must be real numbers, as a float64 array.

    `expected` completes the words "expected real numbers …" in messages. NaN is refused, and also
    infinity if `finite`. Masked arrays are refused, because NumPy's functions would ignore their
    masks.
    """
    check_unmasked(values, name, expected)
    array, xp = check_rectangular(values, name, f"real numbers {expected}"), array_module(values)
    if array.dtype.kind not in "biuf":
        one = array.dtype == object and not array.ndim  # for example None, or a dict
        came = f"is {shown(values)}" if one else f"has dtype {array.dtype}"
        raise ValueError(f"{name} {came}, expected real numbers {expected}")
    with np.errstate(over="ignore"):  # long doubles may become infinite, which is refused below
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


def check_rectangular(values: object, name: str, expected: str) -> Array:
    """Return `values` as an array of NumPy or CuPy.

    Nested sequences of different lengths are refused.
    """
    try:
        return array_module(values).asarray(values)
    except ValueError:
        remedy = f": give {name}.to_list()" if hasattr(values, "to_list") else ""
        raise ValueError(
            f"{name} is not a rectangular array, expected {expected}{remedy}"
        ) from None
    except (TypeError, RuntimeError) as error:  # tensors on a device, or with gradients, raise it
        raise ValueError(f"{name} is no array of NumPy, expected {expected}: {error}") from None


def check_unmasked(values: object, name: str, expected: str | tuple[int, ...]) -> None:
    """Raise a ValueError if `values` is a masked array, or a list that contains masked arrays.

    `expected` is the same as in `check_real`.
    """
    nested = [values]
    for _ in range(3):  # the values themselves, their cases, and the channels of these
        if any(isinstance(item, np.ma.MaskedArray) for item in nested):
            raise ValueError(
                f"{name} is a masked array, expected real numbers {expected} without a mask: fill "
                f"in masked values first ({name}.filled(…)), or leave masked cases out"
            )
        nested = [item for items in nested if isinstance(items, (list, tuple)) for item in items]


def check_shape(
    values: object,
    name: str,
    expected: str | tuple[int, ...],
    fits: Callable[[tuple[int, ...]], bool] | None = None,
) -> Array:
    """Return `values` as a float64 array, which must be real, finite and not empty.

    Its shape must fit. `fits` returns whether a shape matches the text `expected`, for example
    "(n, n)". Without `fits`, `expected` is the shape itself.
    """
    array = check_real(values, name, expected)
    if array.size == 0 or not (fits(array.shape) if fits else array.shape == expected):
        raise ValueError(f"{name} has shape {array.shape}, expected {expected}")
    return array


def check_symmetric(A: object, name: str) -> np.ndarray:
    """Return `A`, (n, n), as a float64 array.

    It must be symmetric, up to differences of √eps times its largest entry, with eps of its dtype.
    """
    matrix = check_shape(A, name, "(n, n)", lambda s: len(s) == 2 and s[0] == s[1])
    if np.abs(matrix - matrix.T).max() > np.sqrt(rounding_unit(A)) * np.abs(matrix).max():
        raise ValueError(f"{name} of shape {matrix.shape} is not symmetric, expected symmetry")
    return matrix


def check_targets(y: object, n: int, name: str = "y") -> np.ndarray:
    """Return targets `y` of n signals, (n,) or (n, n_targets), as a float64 array."""
    expected = f"({n},) or ({n}, n_targets)"
    return check_shape(y, name, expected, lambda s: len(s) in (1, 2) and s[0] == n)


def check_nonnegative_vector(values: ArrayLike, name: str, finite: bool = True) -> np.ndarray:
    """Return one number, or a vector of numbers, as a vector. All must be at least 0."""
    expected = "of at least 0, one or a vector"
    array = check_real(values, name, expected, finite)
    entries = values if isinstance(values, list | tuple) else np.atleast_1d(values)[:1]
    flags = any(isinstance(entry, bool | np.bool_) for entry in entries)
    if flags or array.ndim > 1 or array.size == 0 or (array < 0).any():
        raise ValueError(f"{name} is {shown(values)}, expected real numbers {expected}")
    return np.atleast_1d(array)


def check_finite(result: np.ndarray) -> np.ndarray:
    """Return a result unchanged, or raise an OverflowError if it exceeds float64."""
    if np.isfinite(result).all():
        return result
    raise OverflowError("the results exceed float64, expected smaller targets or kernel values")


# ---------------------------------------------------------------- signals


def check_signals(X: object, name: str, images: bool = False) -> Array:
    """Return signals (n_cases, n_channels, n_timepoints) as a float64 array.

    They must be real and finite. If `images`, images (n_cases, n_channels, height, width) are
    accepted too.
    """
    expected = "(n_cases, n_channels, n_timepoints)"
    array = check_real(X, name, expected)
    if array.ndim != 3 and not (images and array.ndim == 4):
        rows = f"{name}.to_numpy()" if hasattr(X, "columns") else name
        remedy = f"; for signals of one channel {rows}[:, None]" if array.ndim == 2 else ""
        if array.ndim == 4:
            remedy = ": only signals, not images, are supported here"
        raise ValueError(f"{name} has shape {array.shape}, expected {expected}{remedy}")
    if 0 in array.shape:
        raise ValueError(f"{name} has shape {array.shape} with an empty axis, expected {expected}")
    return array


def check_batch(X: object, name: str, images: bool = True) -> Batch:
    """Return a batch of signals as a float64 array or as a `SignalList`.

    `X` is an array of real and finite numbers, (n_cases, n_channels, n_timepoints) for signals and
    (n_cases, n_channels, height, width) for images; or a list or tuple of signals (n_channels,
    n_timepoints_i). A list of signals of equal length becomes an array.
    """
    if isinstance(X, (list, tuple)) and (not X or any(hasattr(x, "ndim") for x in X)):
        X = _check_list(X, name)
    elif not isinstance(X, SignalList):
        return check_signals(X, name, images)
    return X if len(set(X.lengths)) > 1 else array_module(X).stack(list(X))


def _check_list(X: Sequence[object], name: str) -> SignalList:
    """Return a list of signals (n_channels, n_timepoints_i) as a `SignalList` of float64 arrays."""
    expected = "(n_channels, n_timepoints)"
    if not X:
        raise ValueError(f"{name} is empty, expected at least one signal {expected}")
    check_unmasked(X, name, expected)
    if all(getattr(x, "ndim", 0) == 3 for x in X):
        raise ValueError(
            f"{name} is a list of images, expected an array (n_cases, n_channels, height, "
            f"width): images of one call have one size"
        )
    signals = [check_real(x, f"{name}[{k}]", expected) for k, x in enumerate(X)]
    for k, signal in enumerate(signals):
        if signal.ndim != 2 or 0 in signal.shape:
            remedy = f"; a signal of one channel is {name}[{k}][None]" if signal.ndim == 1 else ""
            raise ValueError(f"{name}[{k}] has shape {signal.shape}, expected {expected}{remedy}")
        if len(signal) != (channels := len(signals[0])):
            turned = all(x.shape[1:] == signal.shape[1:] for x in signals)
            remedy = f"; of transposed signals, give [x.T for x in {name}]" if turned else ""
            raise ValueError(
                f"{name}[{k}] has {len(signal)} channels, expected {channels} as in {name}[0]"
                f"{remedy}"
            )
        if array_module(signal) is not array_module(signals[0]):
            raise ValueError(
                f"{name}[{k}] and {name}[0] are of different array libraries, expected all NumPy "
                f"or all CuPy"
            )
    return SignalList(signals)


def check_batches(
    X: object, Z: object, head: str | int, paired: bool = False, names: tuple[str, str] = ("X", "Z")
) -> tuple[Batch, Batch | None]:
    """Return checked batches X and Z, which match. Both are lists if they differ in length.

    If Z is None, or is the same object as X, None is returned for Z. Only the head "gap" accepts
    signals of different lengths. If `paired`, Z must not be None, and must have the same number of
    signals as X. `names` are the names of the batches in messages.
    """
    lists = any(isinstance(batch, (list, tuple, SignalList)) for batch in (X, Z))
    is_X = Z is X or (Z is None and not paired)
    left, right = check_batch(X, names[0]), None if is_X else check_batch(Z, names[1])
    for batch, name in zip((left, right), names, strict=True):
        if isinstance(batch, SignalList) and head != "gap":
            kernel = "pixel_pairs takes" if head == "pixels" else f"head is {head!r}, which takes"
            raise ValueError(
                f"{kernel} signals of one length, and {name} has {batch_shape(batch)}: expected "
                f"one length, or head 'gap', the mean over all pixel pairs"
            )
    if right is None:
        return left, None
    check_match(left, right, lists and head == "gap", names)
    if paired and len(left) != len(right):
        raise ValueError(
            f"Z has {len(right)} signals, and X has {len(left)}: expected pairs, the same number"
        )
    arrays = not any(isinstance(batch, SignalList) for batch in (left, right))
    if arrays and channels_and_length(left) == channels_and_length(right):
        return left, right
    return SignalList.of(left), SignalList.of(right)


def check_match(
    X: Batch, Z: Batch, lists: bool = False, names: tuple[str, str] = ("X", "Z")
) -> None:
    """Raise a ValueError if batches X and Z differ in their library, channels or length.

    They may differ in length if `lists`, which says that X or Z came as a list. `names` are the
    names of the batches in messages.
    """
    one, two = names
    if array_module(X) is not array_module(Z):
        raise ValueError(
            f"{one} and {two} are of different array libraries, expected both NumPy or both CuPy"
        )
    shapes = [pixel_shape(batch) for batch in (X, Z)]
    if 2 in map(len, shapes) and shapes[0] != shapes[1]:
        raise ValueError(
            f"{two} has {batch_shape(Z)}, and {one} has {batch_shape(X)}: expected images of the "
            f"same height and width, or only signals"
        )
    sizes = zip(("channels", "timepoints"), *map(channels_and_length, (X, Z)), strict=True)
    for what, expected, size in sizes:
        in_time = what == "timepoints"
        if size != expected and not (lists and in_time):
            remedy = f"; head 'gap' takes other lengths in lists, list({two})" if in_time else ""
            raise ValueError(
                f"{two} has {batch_shape(Z)}, expected {expected} {what} as in {one} of "
                f"{batch_shape(X)}{remedy}"
            )


def batch_shape(X: Batch) -> str:
    """Return the shape of a batch as messages show it; for a list, its channels and lengths."""
    if isinstance(X, SignalList):
        return f"signals of {X.n_channels} channels and {X.lengths.min()} to {X.longest} timepoints"
    return f"shape {X.shape}"
