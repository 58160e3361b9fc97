"""Checks of arguments: each returns the argument in the form wanted, or raises a ValueError.

A message names the argument, says what came and what was expected.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from .arrays import Array, ArrayT, array_module, rounding_unit
from .matrices import resolution
from .vocabulary import DTYPES, KINDS, PARTS

_MOST_PIXELS = 2**27
"""Most pixels of a receptive field; a larger number allows arrays of more than 1 GiB.

Chosen by reasoning: one float64 array of 2**27 numbers takes 1 GiB.
"""

# ---------------------------------------------------------------- numbers


def check_integer(value: Any, name: str, at_least: int | None = None) -> int:
    """Return `value`, a Python or NumPy integer of at least `at_least`, as an int."""
    expected = "an integer" if at_least is None else f"an integer of at least {at_least}"
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or (at_least is not None and number < at_least):
        raise ValueError(f"{name} is {value!r}, expected {expected}")
    return number


def check_depth(value: Any, name: str = "depth") -> int:
    """Return `value`, an integer of at least 1, as an int."""
    return check_integer(value, name, at_least=1)


def check_depths(depths: Iterable[int]) -> tuple[int, ...]:
    """Return one or more depths, integers of at least 1, as a tuple of ints."""
    try:
        given = tuple(depths)
    except TypeError:
        raise ValueError(f"depths is {depths!r}, expected a sequence of integers") from None
    if not given:
        raise ValueError("depths is empty, expected at least one depth")
    return tuple(check_depth(depth, "depths") for depth in given)


def check_filter_size(value: Any, name: str) -> int:
    """Return `value`, a positive odd integer, as an int."""
    number = check_integer(value, name)
    if number < 1 or number % 2 == 0:
        raise ValueError(f"{name} is {value!r}, expected a positive odd integer")
    return number


def check_length(n_timepoints: Any) -> int:
    """Return the length of a receptive field, an integer from 1 to 2**27, as an int."""
    d = check_depth(n_timepoints, "n_timepoints")
    if d > _MOST_PIXELS:
        raise ValueError(
            f"n_timepoints is {d}, which would take {8 * d / 2**30:.3g} GiB: "
            f"expected at most {_MOST_PIXELS}"
        )
    return d


def check_channels(n_channels: Any) -> int:
    """Return the number of channels on the multi-sphere, an integer of at least 2, as an int."""
    number = check_integer(n_channels, "n_channels")
    if number < 2:
        raise ValueError(
            f"n_channels is {n_channels!r}, expected at least 2: on the multi-sphere a pixel of "
            f"one channel is a sign, and has no frequencies beyond 1"
        )
    return number


def check_frequency(frequency: Any, name: str) -> int:
    """Return a frequency, an integer of at least 0, as an int."""
    return check_integer(frequency, name, at_least=0)


def check_constant(value: Any, name: str) -> float:
    """Return `value`, a finite number of at least 0, as a float."""
    try:
        real = not isinstance(value, str) and getattr(value, "imag", 0) == 0
        number = float(value) if real else math.nan
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or number < 0:
        raise ValueError(f"{name} is {value!r}, expected a finite number of at least 0")
    return number


def check_positive(value: Any, name: str) -> float:
    """Return `value`, a finite number above 0, as a float."""
    number = check_constant(value, name)
    if number == 0.0:
        raise ValueError(f"{name} is {value!r}, expected a positive number")
    return number


# ---------------------------------------------------------------- flags and names


def check_flag(value: Any, name: str) -> bool:
    """Return `value`, a Python or NumPy boolean, as a bool."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise ValueError(f"{name} is {value!r}, expected True or False")


def check_choice(value: Any, name: str, choices: Iterable[str]) -> str:
    """Return `value`, one of `choices`; the message lists all of them."""
    choices = list(choices)
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} is {value!r}, expected one of {', '.join(map(repr, choices))}")
    return value


def check_kinds(kinds: Iterable[str]) -> tuple[str, ...]:
    """Return one kind of kernel, or several different ones, as a tuple of names."""
    kinds = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    for kind in kinds:
        check_choice(kind, "kinds", KINDS)
    if not kinds or len(set(kinds)) < len(kinds):
        raise ValueError(f"kinds is {kinds!r}, expected one or both of {KINDS}")
    return kinds


def check_dtype(dtype: Any) -> str:
    """Return the name of a working precision, given as a name, a type or a NumPy dtype."""
    try:
        return check_choice(np.dtype(dtype).name, "dtype", DTYPES)
    except (TypeError, ValueError):
        return check_choice(dtype, "dtype", DTYPES)


def check_trained(trained: Iterable[str]) -> tuple[str, ...]:
    """Return the trained parts of a network, in the order of `vocabulary.PARTS`."""
    if isinstance(trained, str):
        trained = (trained,)
    try:
        given = list(trained)
    except TypeError:
        raise ValueError(f"trained is {trained!r}, expected some of {PARTS}") from None
    for part in given:
        check_choice(part, "trained", PARTS)
    return tuple(part for part in PARTS if part in given)


# ---------------------------------------------------------------- networks and kernels


def check_network(network: Any) -> None:
    """Raise a ValueError if `network` is not a `Network`."""
    from .network import Network  # network.py checks its own arguments with this module

    if not isinstance(network, Network):
        raise ValueError(f"network is {network!r}, expected a rescntk.Network")


def check_kernel(kernel: Any) -> None:
    """Raise a ValueError if `kernel` cannot be called: a `Network`, say."""
    if not callable(kernel):
        raise ValueError(f"kernel is {kernel!r}, expected a rescntk.Kernel or another callable")


# ---------------------------------------------------------------- arrays


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
    """Return `values`, one number or a vector of numbers of at least 0, as a float64 array."""
    expected = f"of at least 0, one or {shape}"
    array = check_real(values, name, expected, finite)
    if array.ndim > 1 or array.size == 0 or (array < 0).any():
        raise ValueError(f"{name} is {values!r}, expected numbers {expected}")
    return array


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
    given, A = A, check_real(A, name, "(n, n)")
    if A.ndim != 2 or A.shape[0] != A.shape[1] or A.size == 0:
        raise ValueError(f"{name} has shape {A.shape}, expected (n, n)")
    if np.abs(A - A.T).max() > np.sqrt(rounding_unit(given)) * np.abs(A).max():
        raise ValueError(f"{name} of shape {A.shape} is not symmetric")
    return A


def check_targets(y: Any, n: int) -> np.ndarray:
    """Return targets `y` of n signals, (n,) or (n, n_targets), as a float64 array."""
    expected = f"({n},) or ({n}, n_targets)"
    y = check_real(y, "y", expected)
    if y.ndim not in (1, 2) or len(y) != n or y.size == 0:
        raise ValueError(f"y has shape {y.shape}, expected {expected}")
    return y


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


# ---------------------------------------------------------------- signals


def check_signals(X: ArrayT, name: str) -> ArrayT:
    """Return signals `X`, real and finite, as a float64 array.

    Parameters
    ----------
    X : array
        Signals (n_cases, n_channels, n_timepoints).
    name : str
        The argument's name in messages.
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
    """Raise a ValueError if signals X and Z differ in library, channels or length."""
    if array_module(X) is not array_module(Z):
        raise ValueError(
            "X and Z are of different array libraries, expected both NumPy or both CuPy"
        )
    for axis, what in ((1, "channels"), (2, "timepoints")):
        if X.shape[axis] != Z.shape[axis]:
            raise ValueError(
                f"Z has shape {Z.shape}, expected {X.shape[axis]} {what} as in X of shape {X.shape}"
            )


# ------------------------------------------------ ladders of depths, sets of signals, correlations


def check_ladder(depths: Iterable[int], least: int, ratio: float) -> tuple[int, ...]:
    """Return `least` depths or more, each at least `ratio` times the previous depth."""
    ladder = check_depths(depths)
    if len(ladder) < least:
        raise ValueError(
            f"depths is {ladder!r}, expected at least {least}: an exponent needs slopes, "
            f"and its uncertainty how they change"
        )
    for low, high in pairwise(ladder):
        if high < ratio * low:
            raise ValueError(
                f"depths has {low} and then {high}, expected each at least {ratio:g} times as much"
            )
    return ladder


def check_cases(X: np.ndarray, least: int, reason: str) -> None:
    """Refuse fewer than `least` signals."""
    n = len(X)
    if n < least:
        raise ValueError(
            f"X has {n} case{'s' if n > 1 else ''}, expected at least {least}: {reason}"
        )


def check_distinct(X: np.ndarray, reason: str) -> None:
    """Refuse signals that are there twice."""
    for i in range(len(X)):
        same = np.flatnonzero((X[i + 1 :] == X[i]).all(axis=(1, 2)))
        if len(same):
            raise ValueError(
                f"X has the same signal as cases {i} and {i + 1 + same[0]}, expected different "
                f"ones: {reason}"
            )


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


# ---------------------------------------------------------------- theory

MULTISPHERE_TOLERANCE = 2e-6
"""Largest | ‖x_j‖²/C0 − 1 | of a pixel that counts as on the multi-sphere.

Relative, of the squared norm. Raising it admits signals whose kernels theorem 4.1 misses by as
large a relative error. Chosen by rounding: pixels projected in float32 and given in float64
have errors of a few units of 1.2e-7."""


def multisphere_error(X: np.ndarray) -> float:
    """Return the largest | ‖x_j‖²/C0 − 1 | over the pixels of signals."""
    return float(np.abs((X * X).mean(axis=1) - 1.0).max())


def check_on_multisphere(X: Any, name: str) -> np.ndarray:
    """Return `X` as an array of signals on the multi-sphere, or say by how much it is off."""
    X = check_signals(X, name)
    worst = multisphere_error(X)
    if worst > MULTISPHERE_TOLERANCE:
        raise ValueError(
            f"{name} of shape {X.shape} is not on the multi-sphere: a pixel's squared norm is off "
            f"by {worst:.2g} of n_channels, expected none (multisphere.project makes it so)"
        )
    return X


def check_rows_of_pixels(t: Any) -> np.ndarray:
    """Return `t` as an array with an axis of pixels, or say what is wrong with it."""
    values = check_real(t, "t", "(..., n_timepoints)")
    if values.ndim == 0 or values.size == 0:
        raise ValueError(f"t has shape {values.shape}, expected (..., n_timepoints)")
    return values


def check_multisphere_networks(networks: Iterable[Any], kind: str) -> tuple[Any, ...]:
    """Return the networks if ``multisphere.gram_complements`` can take them together.

    They are ReLU networks with an input filter of size 1, differ in depth and α alone, and have
    kernels that are not 0 for every signal.
    """
    networks = tuple(networks)
    if not networks:
        raise ValueError("networks is empty, expected at least one")
    first = networks[0]
    for network in networks:
        check_network(network)
        if network.activation != "relu" or network.input_filter_size != 1:
            raise ValueError(
                f"network is {network!r}: kernels depend on dot products alone for activation "
                f"'relu' and input_filter_size 1, expected these"
            )
        nothing = not network.skip and network.branch_gain == 0
        if nothing or network.input_scale == 0:
            raise ValueError(f"network is {network!r}: its kernels are 0, no correlations")
        if network.replace(depth=1, alpha=1.0) != first.replace(depth=1, alpha=1.0):
            raise ValueError("networks differ in more than depth and alpha, expected them alike")
        parts = network.parts
        moves = network.branch_share > 0 and parts.inner + parts.outer > 0
        if kind == "ntk" and parts.initial == 0 and not moves:
            raise ValueError(
                f"network is {network!r}: its tangent kernel is 0, and has no correlations"
            )
    return networks


MOST_AXES = 32
"""Most pixels of a tensor grid: NumPy's arrays have at most 32 axes before version 2."""


def check_pixels(n_timepoints: Any) -> int:
    """Return `n_timepoints` as an int that an array has axes for, or say what is wrong with it."""
    d = check_depth(n_timepoints, "n_timepoints")
    if d > MOST_AXES:
        raise ValueError(
            f"n_timepoints is {d}, expected at most {MOST_AXES}, an array's axes (an output "
            f"depends on its receptive field alone: a ring just longer serves as well)"
        )
    return d


def check_memory(needed: int, max_memory: Any, what: str) -> None:
    """Say so if `what` would take more than `max_memory` bytes."""
    limit = check_constant(max_memory, "max_memory")
    if needed > limit:
        raise ValueError(
            f"{what} takes {needed / 1e9:,.1f} GB, expected max_memory, {limit / 1e9:,.1f} GB, "
            f"at most"
        )


def check_frequencies(max_frequency: Any, d: int) -> tuple[int, ...]:
    """Return the highest frequency of each of `d` pixels, given one integer or `d`."""
    name = "max_frequency"
    try:
        given = tuple(max_frequency)
    except TypeError:
        given = (max_frequency,) * d
    if len(given) != d:
        raise ValueError(
            f"{name} is {max_frequency!r}, expected an integer or one for each of {d} pixels"
        )
    return tuple(check_frequency(k, name) for k in given)


def check_relu(network: Any, reason: str) -> None:
    """Say so if `network` is not one with ReLU, and the `reason` that it has to be."""
    check_network(network)
    if network.activation != "relu":
        raise ValueError(f"network has activation {network.activation!r}{reason}")


def check_pixel_set(pixels: Any, given: Any, d: int) -> frozenset[int]:
    """Return one set of pixels of a ring of `d`; an error names `given`."""
    try:
        chosen = frozenset(check_integer(pixel, "pixels") % d for pixel in pixels)
    except TypeError:
        raise ValueError(f"pixels is {given!r}, expected sets of integers") from None
    if not chosen:
        raise ValueError(f"pixels is {given!r}, expected at least one pixel")
    return chosen


def check_pixel_sets(
    pixels: Any, field: frozenset[int], shifts: Iterable[int], d: int
) -> list[frozenset[int]]:
    """Return sets of pixels, each in the receptive field `field` after one of the `shifts`."""
    try:
        sets = [check_pixel_set(some, pixels, d) for some in pixels]
    except TypeError:
        raise ValueError(f"pixels is {pixels!r}, expected sets of integers") from None
    shifts = tuple(shifts)
    for chosen in sets:
        if not any({(p + shift) % d for p in chosen} <= field for shift in shifts):
            raise ValueError(
                f"pixels has {sorted(chosen)}, expected some of the receptive field's, "
                f"{sorted(field)}: the kernel does not depend on others"
            )
    if not sets:
        raise ValueError("pixels is empty, expected at least one set of pixels")
    return sets


def check_samples(values: Any) -> np.ndarray:
    """Return samples of functions on the circle as an array (..., n_samples)."""
    array = check_real(values, "values", "(..., n_samples)")
    if array.ndim == 0 or array.size == 0 or array.shape[-1] < 2:
        raise ValueError(f"values has shape {array.shape}, expected (..., n_samples)")
    return array


def check_vector(values: Any, name: str) -> np.ndarray:
    """Return `values` as a vector of real numbers."""
    array = check_real(values, name, "(n,)")
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} has shape {array.shape}, expected (n,)")
    return array


def check_points(angles: Any, targets: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the angles of points on the circle and the values there, two vectors of one length."""
    angles, targets = check_vector(angles, "angles"), check_vector(targets, "targets")
    if angles.shape != targets.shape:
        raise ValueError(f"targets has shape {targets.shape}, expected {angles.shape}")
    return angles, targets


def check_cutoff(cutoff: Any, limit: int, n_samples: int) -> np.ndarray:
    """Return cut-off frequencies as an array of integers from 0 to `limit`."""
    last = np.asarray(cutoff)
    if last.dtype.kind not in "iu" or last.size == 0 or last.min() < 0 or last.max() > limit:
        raise ValueError(
            f"cutoff is {cutoff!r}, expected integers from 0 to {limit} for values of "
            f"{n_samples} samples"
        )
    return last


def check_named(named: Any, name: str) -> None:
    """Say so if `named` is not a mapping of names to the objects of a picture."""
    if not isinstance(named, Mapping) or not named:
        raise ValueError(f"{name} is {named!r}, expected a mapping of names to what is drawn")


def check_family(family: Any, depths: Iterable[int]) -> list[Any]:
    """Return the networks of a family at `depths`: a Network, or a function from depth to one."""
    from .network import Network

    if isinstance(family, Network):
        return [family.replace(depth=depth) for depth in depths]
    if not callable(family):
        raise ValueError(f"family is {family!r}, expected a Network or a function that returns one")
    networks = []
    for depth in depths:
        network = family(depth)
        if not isinstance(network, Network):
            raise ValueError(f"family returned {network!r} for depth {depth}, expected a Network")
        networks.append(network)
    return networks


def check_fit_range(first: Any, last: Any, values: Any) -> tuple[int, int]:
    """Return the first and last frequency of a fit to the spectrum of one function's samples."""
    first, last = check_depth(first, "first"), check_integer(last, "last")
    if np.ndim(values) != 1 or not first < last <= len(values) // 2:
        raise ValueError(
            f"first and last are {first} and {last}, expected first < last below half the samples "
            f"of one function; values has shape {np.shape(values)}"
        )
    return first, last


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
