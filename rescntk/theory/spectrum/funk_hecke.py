r"""Eigenvalues of convolutional kernels on the multi-sphere.

For signals uniform on the multi-sphere the eigenfunctions are products of spherical harmonics,
one frequency :math:`k_i` a pixel, and the eigenvalue is (Funk-Hecke for each pixel; Barzilai et
al. 2022, section 5 and appendix G; Geifman et al. 2022, lemma A.6)

.. math:: \lambda_k = \int_{[-1,1]^d} K(t) \prod_i P_{k_i}(t_i)\, w(t_i)\, dt

with :math:`P_k` and w as in ``quadrature``. K on a tensor grid of nodes comes from ``dot_grid``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import reduce
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import scipy.ndimage

from ...calls import check_network
from ...engines.request import HEADS, KINDS
from ...network import Network, check_choice, check_constant, check_depth, check_flag
from . import dot_grid
from .dot_grid import LastLayer, check_pixels
from .quadrature import (
    METHODS,
    Rule,
    check_channels,
    check_frequency,
    choose,
    coarser,
    default_nodes,
    rule,
)

# Threads beyond a few wait for one another's Python.
_THREADS = 4

# Points of the last layer that are integrated together: enough for few and large matrix products.
_SLAB_ENTRIES = 4_000_000

# Relative rounding errors of an eigenvalue, in eps: a few for each pixel's weights and sums.
_ROUNDINGS = 32


class Spectrum(NamedTuple):
    """Eigenvalues with their errors, each an array with an axis for each pixel's frequency."""

    eigenvalues: np.ndarray
    errors: np.ndarray
    """By how much eigenvalues from a coarser grid differ, at this frequency or one next to it,
    and what rounding may add: an estimate, on the safe side."""
    trace: float
    """K(x, x) of the equivariant kernel, for every x the same: the sum of all its eigenvalues,
    and of the trace kernel's, each as often as `multiplicities` says."""
    nodes: int
    """Nodes a pixel of the finer grid."""


def eigenvalues(
    network: Network,
    n_channels: int,
    n_timepoints: int,
    max_frequency: int | Iterable[int],
    kind: str = "gpk",
    head: str = "equivariant",
    *,
    normalized: bool = False,
    method: str = "auto",
    nodes: int | None = None,
    return_error: bool = False,
    max_memory: float = 4e9,
) -> Any:
    r"""Return a kernel's eigenvalues on the multi-sphere, an axis for each pixel's frequency.

    Parameters
    ----------
    network : Network
        Any: with or without skip connections, one or two convolutions a layer, ReLU or erf.
    n_channels : int
        C0, at least 2: the pixels' spheres have C0 − 1 dimensions. (For C0 = 1 they are two
        points.)
    n_timepoints : int
        Number d of pixels, at most 32. Only those in the output's receptive field cost.
    max_frequency : int or d ints
        Highest frequency, of all pixels or of each.
    kind : {"gpk", "ntk"}, default "gpk"
    head : {"equivariant", "trace", "gap"}, default "equivariant"
        Pixel 0 is the equivariant head's. The eigenvalues of trace and GAP are the averages of
        its eigenvalues over all shifts of the frequencies (Geifman et al. 2022, theorem 3.7);
        those of GAP belong to the eigenfunctions that no shift changes (see `multiplicities`).
    normalized : bool, default False
        Of the kernel divided by its value K(x, x) for the equivariant head. Works at any depth.
    method : {"auto", "angles", "gegenbauer", "cosine"}, default "auto"
        Quadrature (``quadrature.rule``). "gegenbauer" is the papers', and "cosine" the same for
        C0 = 2 by a fast transform; for few channels "angles" takes a fraction of their nodes.
        "auto" takes the one of the first two with fewer nodes.
    nodes : int, optional
        Nodes a pixel, more than `max_frequency`. With the default the highest frequencies have
        errors of 1e-4 of an eigenvalue or (mostly far) less by "angles", and for less than five
        channels up to a few percent by the others.
    return_error : bool, default False
        Return a `Spectrum`: eigenvalues and errors.
    max_memory : float, default 4e9
        Bytes that arrays may take.

    Returns
    -------
    ndarray, (max_frequency + 1, ..., max_frequency + 1), d axes; or Spectrum
        Entry k is the eigenvalue of frequency k_i at pixel i; exactly 0 where k is not 0
        outside the receptive field.

    Raises
    ------
    ValueError
        For arguments that are not as above, or a grid beyond `max_memory`.
    OverflowError
        If eigenvalues exceed float64; a deep kernel wants ``normalized=True``.

    Examples
    --------
    >>> from rescntk import literature
    >>> from rescntk.theory import spectrum
    >>> network = literature.barzilai_resnet(depth=2)
    >>> spectrum.eigenvalues(network, n_channels=2, n_timepoints=3, max_frequency=4).shape
    (5, 5, 5)
    >>> found = spectrum.eigenvalues(network, 2, 3, (8, 0, 0), return_error=True)
    >>> bool((found.errors < 1e-3 * found.eigenvalues).all())
    True
    """
    check_flag(return_error, "return_error")
    check_flag(normalized, "normalized")
    limit = check_constant(max_memory, "max_memory")
    request = _Request(network, n_channels, n_timepoints, max_frequency, kind, head, method, nodes)
    needed = request.cost.bytes
    if needed > limit:
        raise ValueError(
            f"max_frequency is {max_frequency!r}: a grid of {request.nodes} nodes a pixel, with "
            f"{len(request.receptive_field)} of {request.d} pixels in the receptive field, takes "
            f"{needed / 1e9:,.1f} GB, expected max_memory, {limit / 1e9:,.1f} GB, at most"
        )
    fine, trace = request.compute(request.nodes, normalized)
    if not return_error:
        return fine
    coarse, _ = request.compute(request.coarser, normalized)
    # A difference may cross zero; its neighbours tell how large it is thereabouts.
    errors = scipy.ndimage.maximum_filter(np.abs(fine - coarse), 3, mode="nearest")
    errors += request.rounding(fine, trace)
    return Spectrum(fine, errors, trace, request.nodes)


def cost(
    network: Network,
    n_channels: int,
    n_timepoints: int,
    max_frequency: int | Iterable[int],
    kind: str = "gpk",
    *,
    method: str = "auto",
    nodes: int | None = None,
) -> dot_grid.Cost:
    """Return what `eigenvalues` would take with these arguments, without computing anything.

    Returns
    -------
    Cost
        Points of the grid at which an activation is evaluated, over all layers, and bytes.

    Examples
    --------
    >>> from rescntk import literature
    >>> from rescntk.theory import spectrum
    >>> spectrum.cost(literature.geifman_cnn(3), 2, 4, max_frequency=20).points
    3833324
    """
    return _Request(
        network, n_channels, n_timepoints, max_frequency, kind, "equivariant", method, nodes
    ).cost


def multiplicities(
    n_channels: int,
    n_timepoints: int,
    max_frequency: int | Iterable[int],
    head: str = "equivariant",
) -> np.ndarray:
    r"""Return how many eigenfunctions each frequency has, in the shape of `eigenvalues`.

    For the equivariant and trace heads :math:`\prod_i N(C_0, k_i)`, N the number of spherical
    harmonics of a frequency. With GAP only eigenfunctions that no shift changes have an
    eigenvalue other than 0: the orbits of products under shifts. All shifts of a frequency share
    them; here each has its share, which may be a fraction.

    Parameters
    ----------
    n_channels, n_timepoints, max_frequency, head
        As for `eigenvalues`.

    Examples
    --------
    >>> from rescntk.theory import spectrum
    >>> spectrum.multiplicities(n_channels=3, n_timepoints=2, max_frequency=2)
    array([[ 1.,  3.,  5.],
           [ 3.,  9., 15.],
           [ 5., 15., 25.]])
    >>> spectrum.multiplicities(3, 2, 2, head="gap")
    array([[ 1. ,  1.5,  2.5],
           [ 1.5,  6. ,  7.5],
           [ 2.5,  7.5, 15. ]])
    """
    n_channels, d = check_channels(n_channels), check_pixels(n_timepoints)
    highest = _check_frequencies(max_frequency, d)
    check_choice(head, "head", HEADS)
    count = np.array([harmonics(n_channels, k) for k in range(max(highest) + 1)], dtype=float)

    def fixed(shift: int) -> np.ndarray:
        """Return how many products of each frequency a shift leaves as they are."""
        cycles = math.gcd(shift, d)  # pixels of a cycle have equal residues modulo this
        result = np.zeros([k + 1 for k in highest])
        for ks in product(*(range(min(highest[c::cycles]) + 1) for c in range(cycles))):
            result[tuple(ks[i % cycles] for i in range(d))] = math.prod(count[k] for k in ks)
        return result

    whole = _outer(count[: k + 1] for k in highest)
    if head != "gap":
        return whole
    return (whole + sum(fixed(shift) for shift in range(1, d))) / d  # Burnside


def harmonics(n_channels: int, frequency: int) -> int:
    """Return N(C0, k), the number of spherical harmonics of a frequency in C0 dimensions.

    Examples
    --------
    >>> from rescntk.theory import spectrum
    >>> [spectrum.harmonics(3, k) for k in range(4)]
    [1, 3, 5, 7]
    """
    c, k = check_channels(n_channels), check_frequency(frequency, "frequency")
    return math.comb(k + c - 1, c - 1) - (math.comb(k + c - 3, c - 1) if k > 1 else 0)


class _Request:
    """Checked arguments, and the way from a grid to eigenvalues."""

    def __init__(
        self,
        network: Network,
        n_channels: int,
        n_timepoints: int,
        max_frequency: int | Iterable[int],
        kind: str,
        head: str,
        method: str,
        nodes: int | None,
    ) -> None:
        check_network(network)
        self.network = network
        self.n_channels, self.d = check_channels(n_channels), check_pixels(n_timepoints)
        self.max_frequency = _check_frequencies(max_frequency, self.d)
        self.highest = max(self.max_frequency)
        self.kind = check_choice(kind, "kind", KINDS)
        self.head = check_choice(head, "head", HEADS)
        self.method = check_choice(method, "method", ("auto", *METHODS))
        if method == "auto":
            self.method = choose(self.n_channels, self.highest)
        if method == "cosine" and self.n_channels != 2:
            raise ValueError(
                f"method is 'cosine' and n_channels {self.n_channels}: a cosine transform is for "
                f"n_channels 2, where harmonics are those of a circle"
            )
        if nodes is None:
            nodes = default_nodes(self.method, self.n_channels, self.highest)
        self.nodes = check_depth(nodes, "nodes")
        if self.nodes <= max(self.highest, 1):
            raise ValueError(
                f"nodes is {nodes}, expected more than the highest frequency, {self.highest}, "
                f"and at least 2"
            )
        self._windows = dot_grid.windows(network, self.d)

    @property
    def receptive_field(self) -> frozenset[int]:
        """The pixels that the output at pixel 0 depends on."""
        return self._windows.features[-1].pixels

    @property
    def coarser(self) -> int:
        """Nodes a pixel of the grid that tells the errors."""
        return coarser(self.method, self.n_channels, self.nodes)

    @property
    def cost(self) -> dot_grid.Cost:
        grid = dot_grid.cost(self.network, self.d, self.nodes, self.kind)
        shape = self._windows.before[-1].shape(self.nodes)
        lead = dot_grid.leading(shape, _SLAB_ENTRIES)
        slab = min(math.prod(shape), _SLAB_ENTRIES) + math.prod(shape[lead:])
        partial = math.prod(self._partial_shape(shape, lead))
        result = math.prod(k + 1 for k in self.max_frequency)
        return dot_grid.Cost(grid.points, grid.bytes + 8 * (slab + 2 * partial + 4 * result))

    def _partial_shape(self, shape: tuple[int, ...], lead: int) -> tuple[int, ...]:
        """Return the shape of the last layer's integrals along all but the first axes."""
        rest = (self._reached[axis] + 1 if shape[axis] > 1 else 1 for axis in range(lead, self.d))
        return (*shape[:lead], *rest)

    @property
    def _reached(self) -> tuple[int, ...]:
        """The highest frequency along each axis of the last layer's branch that is needed."""
        shifts = range(1 if self.head == "equivariant" else self.d)
        seen = {
            p + s for p in dot_grid.taps(self.network.outer_filter_size, self.d) for s in shifts
        }
        # The integrals of pixel 0 along `axis` are those of pixel p along `axis` + p.
        return tuple(
            max(self.max_frequency[(axis + p) % self.d] for p in {0, *seen})
            for axis in range(self.d)
        )

    def compute(self, nodes: int, normalized: bool) -> tuple[np.ndarray, float]:
        """Return the eigenvalues, and K(x, x) of the equivariant kernel."""
        integrate = rule(self.method, self.n_channels, self.highest, nodes)
        last = LastLayer(self.network, self.kind, integrate.gaps, self.d, self.n_channels, _THREADS)
        result = np.zeros([k + 1 for k in self.max_frequency])
        outer = dot_grid.taps(self.network.outer_filter_size, self.d)
        self._add_rotated(result, self._last_branch(last, integrate), outer)
        if self.network.skip:
            carried = integrate.transform(last.carried, dict(enumerate(self._reached)))
            self._add_rotated(result, carried, {0: 1})
        mantissa, exponent = last.scale
        if normalized:
            return (result / last.own, 1.0) if last.own * mantissa > 0 else (0.0 * result, 0.0)
        with np.errstate(over="ignore"):
            result = np.ldexp(result * mantissa, exponent)
            trace = float(np.ldexp(last.own * mantissa, exponent))
        if not (np.isfinite(result).all() and math.isfinite(trace)):
            raise OverflowError(
                f"eigenvalues exceed float64 at depth {self.network.depth}; normalized=True has "
                f"no such limit"
            )
        return result, trace

    def rounding(self, found: np.ndarray, trace: float) -> np.ndarray:
        """Return the rounding errors to expect of eigenvalues.

        Those of weights and sums are relative. Those of the kernel's values differ from node to
        node: a sum over n nodes with weights P_k averages them. A frequency of several pixels
        sees those of layers whose window covers them all, at worst no others.
        """
        count = [harmonics(self.n_channels, k) for k in range(self.highest + 1)]
        one = np.array([1.0 if k == 0 else 1.0 / (n * self.nodes) for k, n in enumerate(count)])
        noise = np.sqrt(_outer(one[: k + 1] for k in self.max_frequency))
        eps = float(np.finfo(np.float64).eps)
        return eps * (_ROUNDINGS * np.abs(found) + 8.0 * trace * noise)

    def _last_branch(self, last: LastLayer, integrate: Rule) -> np.ndarray:
        """Return the integrals of the last layer's branch, slab by slab."""
        lead = dot_grid.leading(last.shape, _SLAB_ENTRIES)
        reached = dict(enumerate(self._reached))
        inner = {axis: reached.pop(axis) for axis in range(lead, self.d)}
        partial = np.empty(self._partial_shape(last.shape, lead))
        for slab in dot_grid.blocks(last.shape, _SLAB_ENTRIES):
            partial[slab[:lead]] = integrate.transform(last.branch(slab), inner)
        return integrate.transform(partial, reached)

    def _add_rotated(
        self, result: np.ndarray, integrals: np.ndarray, pixels: dict[int, int]
    ) -> None:
        """Add the mean of `integrals` as seen by `pixels` (with counts), over shifts if asked.

        The integrals have one entry, that of frequency 0, along pixels outside of their window.
        """
        d = self.d
        shifts = [0] if self.head == "equivariant" else range(d)
        count = sum(pixels.values()) * len(shifts)
        for shift in shifts:
            for pixel, times in pixels.items():
                seen = dot_grid.rotate(integrals, (pixel + shift) % d)
                common = tuple(
                    slice(min(a, b)) for a, b in zip(result.shape, seen.shape, strict=True)
                )
                result[common] += (times / count) * seen[common]


def _outer(factors: Iterable[np.ndarray]) -> np.ndarray:
    return reduce(np.multiply.outer, factors)


def _check_frequencies(max_frequency: Any, d: int) -> tuple[int, ...]:
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
