"""Checks of the arguments of `rescntk.theory`: depths, pixels, frequencies, points, signals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sized
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from ...checks.messages import shown
from ...checks.values import (
    KINDS,
    check_choice,
    check_depths,
    check_flag,
    check_integer,
    check_nonnegative,
    check_shape,
    is_sequence,
)
from ...engines.heads import check_head
from ...network import Network
from ...network.parameters import branch_product, in_words
from ...network.parts import BRANCH_POWERS, Layer

Map = Callable[..., np.ndarray]
"""A function of arrays, such as a kernel."""


def check_layers(depth: int, subject: str) -> None:
    """Refuse a depth whose layers, passed one by one, take hours: 50 µs a layer and more.

    `subject` begins the message, such as "depth is".
    """
    if depth > 10**8:
        raise ValueError(f"{subject} {depth}, expected at most 100000000 layers, hours of work")


def check_depths_of_layers(network: Network, depths: Iterable[int] | None) -> tuple[int, ...]:
    """Return the depths asked for, by default the network's.

    A network whose layers differ has no others than its own.
    """
    asked = (network.depth,) if depths is None else check_depths(depths)
    check_layers(max(asked), "depths has")
    if max(asked) > network.depth and not network.is_uniform:
        raise ValueError(
            f"depths has {max(asked)}, expected at most {network.depth}, the network's layers"
        )
    return asked


def check_branch(network: Network) -> None:
    """Refuse a network whose layers change nothing: β is 0."""
    if network.branch_gain == 0:
        numbers = in_words(network.layer(1).numbers(BRANCH_POWERS))
        raise ValueError(
            f"network has {numbers}, expected positive numbers, alpha with a square above 0: "
            f"without a residual branch depth changes nothing"
        )


def check_branch_of_layers(layers: Iterable[Layer]) -> None:
    """Refuse layers whose branch adds no variance, or more than float64 has."""
    for layer in layers:
        if not 0 < layer.branch_gain < math.inf:
            raise ValueError(
                f"network has a layer of {in_words(layer.numbers(BRANCH_POWERS))}, expected "
                f"positive numbers whose {branch_product()} is one too"
            )


def check_kind(kind: str) -> str:
    """Return a kind of kernel."""
    return check_choice(kind, "kind", KINDS)


POOLED_EIGENVALUES = (
    "eigenvalues of pooled heads are those of 'trace' times a factor of each shift's Fourier mode "
    "(docs/theory/spectrum.md)"
)


_KNOWN_HEADS = ("equivariant", "trace", "gap")
"""The heads that theory knows; one more of `HEADS` is refused until a function learns it."""


def check_known_head(head: str | int) -> str | int:
    """Return a head that theory knows: a name, or the pixels of a window."""
    return check_head(head, _KNOWN_HEADS)


def check_named_head(head: str, reason: str = "pooled heads are not supported here") -> str:
    """Return the name of a head; pooled heads are refused, for a reason."""
    if not isinstance(head, str) and check_known_head(head):
        raise ValueError(
            f"head is {shown(head)}, expected one of {', '.join(map(repr, _KNOWN_HEADS))}: {reason}"
        )
    return check_choice(head, "head", _KNOWN_HEADS)


def check_resnet(network: Network) -> None:
    """Refuse networks without skip connections: they are the other side of a comparison."""
    if not network.skip:
        raise ValueError("network has no skip connections, expected a ResNet: a CNN is its other")


def check_cases(X: Sized, least: int, reason: str) -> None:
    """Refuse fewer than `least` signals."""
    if len(X) < least:
        cases = "1 case" if len(X) == 1 else f"{len(X)} cases"
        raise ValueError(f"X has {cases}, expected at least {least}: {reason}")


def check_energies(matrices: np.ndarray) -> None:
    """Refuse kernel matrices, (n_depths, n_cases, n_cases), that have a 0 on a diagonal."""
    zeros = np.argwhere(matrices.diagonal(axis1=1, axis2=2) == 0)
    if len(zeros):
        raise ValueError(
            f"X has a signal whose kernel with itself is 0 (case {zeros[0, 1]}), expected signals "
            f"and networks with a normalized kernel"
        )


def check_vector(values: ArrayLike, name: str) -> np.ndarray:
    """Return `values` as a vector of real numbers."""
    return np.asarray(check_shape(values, name, "(n,)", lambda shape: len(shape) == 1))


def check_dot_products(t: np.ndarray, complement: bool, name: str = "t") -> np.ndarray:
    """Return 1 − t, in [0, 2], of dot products `t`, which hold 1 − t if `complement` is true."""
    complement = check_flag(complement, "complement")
    low, high = (0.0, 2.0) if complement else (-1.0, 1.0)
    slack = 8 * np.finfo(np.float64).eps  # a dot product of unit vectors is rounded
    if not bool(((t >= low - slack) & (t <= high + slack)).all()):
        raise ValueError(
            f"{name} has values from {t.min()} to {t.max()}, "
            f"expected {'complements of ' if complement else ''}dot products in [{low}, {high}]"
        )
    t = np.clip(t, low, high)
    return t if complement else 1.0 - t


def check_points(angles: ArrayLike, targets: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return the angles of points on the circle and the values there, two vectors of one length."""
    angles = check_vector(angles, "angles")
    return angles, check_shape(targets, "targets", angles.shape)


def check_length(
    n_timepoints: int, at_most: int = 2**27, why: str = "an array of {:.3g} GiB"
) -> int:
    """Return the length of a receptive field, an integer from 1 to `at_most`, as an int."""
    d = check_integer(n_timepoints, "n_timepoints", at_least=1)
    if d > at_most:
        reason = why.format(check_nonnegative(d, "n_timepoints") / 2**27)
        raise ValueError(f"n_timepoints is {d}, expected at most {at_most}: {reason}")
    return d


def check_pixels(n_timepoints: int) -> int:
    """Return the pixels of a tensor grid, 1 to 32: at 3 nodes a pixel, 32 of them have 1e15."""
    why = "a larger grid fits nowhere (an output depends only on its receptive field: a ring"
    return check_length(n_timepoints, 32, f"{why} just longer serves as well)")


def check_channels(n_channels: int) -> int:
    """Return the number of channels on the multi-sphere, an integer of at least 2, as an int."""
    if (number := check_integer(n_channels, "n_channels")) < 2:
        what = "on the multi-sphere a pixel of one channel is a sign"
        raise ValueError(f"n_channels is {shown(n_channels)}, expected at least 2: {what}")
    check_nonnegative(number, "n_channels")  # within float64
    return number


def read_once(max_frequency: int | Iterable[int]) -> int | tuple[int, ...]:
    """Return the highest frequency, of all pixels or of each, an iterator's numbers as a tuple."""
    if is_sequence(max_frequency):
        return tuple(max_frequency)
    return cast(int, max_frequency)


def check_grid(
    n_channels: int, n_timepoints: int, max_frequency: int | Iterable[int], head: str
) -> tuple[int, int, tuple[int, ...], str]:
    """Return the channels, the pixels, the highest frequency of each pixel, and the head."""
    channels, d = check_channels(n_channels), check_pixels(n_timepoints)
    max_frequency = read_once(max_frequency)
    frequencies = max_frequency if isinstance(max_frequency, tuple) else (max_frequency,) * d
    if len(frequencies) != d:
        raise ValueError(
            f"max_frequency is {shown(max_frequency)}, expected one for each of {d} pixels"
        )
    highest = tuple(check_integer(k, "max_frequency", at_least=0) for k in frequencies)
    check_nonnegative(max(highest), "max_frequency")  # within float64
    return channels, d, highest, check_named_head(head, POOLED_EIGENVALUES)
