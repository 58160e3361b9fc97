r"""Eigenvalues of convolutional kernels on the multi-sphere, by the formula of Funk and Hecke.

The kernel is a function :math:`K(t_1, \dots, t_d)` of the pixels' dot products. Its eigenvalue
at the frequencies :math:`k_1, \dots, k_d` is the integral of K times the normalized Gegenbauer
polynomials :math:`\prod_i P_{k_i}(t_i)` over the law of the dot products (quadrature.py):
Barzilai et al. 2022, section 5 and appendix G; Geifman et al. 2022, lemma A.6.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import reduce
from itertools import product
from typing import TypedDict

import numpy as np
import scipy.ndimage

from ...checks.messages import shown
from ...checks.values import (
    check_choice,
    check_flag,
    check_nonnegative,
    check_positive_integer,
)
from ...kernels.progress import progress_bar
from ...memory import check_memory
from ...network import Network, check_network
from ...network.parameters import BASIC_FIELDS
from ..tools.argument_checks import check_grid, check_kind, read_once
from .grid import Block, KernelOnGrid, Tick, grid_shape, leading, rotate, shifts, taps, windows
from .quadrature import METHODS, default_nodes, harmonics, integrate, nodes_and_matrix
from .result import Spectrum


class Quadrature(TypedDict, total=False):
    """Options of `eigenvalues` that every function of spectra takes and hands on."""

    method: str
    nodes: int | None
    max_memory: float
    max_points: float
    progress: bool


def check_quadrature(options: Mapping[str, object]) -> None:
    """Refuse names that are no options of the quadrature, before long work."""
    known = Quadrature.__annotations__
    for name in options:
        if name not in known:
            raise ValueError(f"{name} is given, expected other options: {', '.join(known)}")


def eigenvalues(
    network: Network,
    n_channels: int,
    n_timepoints: int,
    max_frequency: int | Iterable[int],
    *,
    kind: str,
    head: str,
    normalized: bool = False,
    method: str = "auto",
    nodes: int | None = None,
    errors: bool = False,
    max_memory: float = 4e9,
    max_points: float = 1e11,
    progress: bool = False,
) -> Spectrum:
    """Return a kernel's eigenvalues on the multi-sphere, an axis for each pixel's frequency.

    Entry k has frequency k_i at pixel i. It is exactly 0 where k is not 0 outside the receptive
    field.

    Parameters
    ----------
    network : Network
        Without biases.
    n_channels : int
        C0, at least 2: the pixels' spheres have C0 − 1 dimensions.
    n_timepoints : int
        Number d of pixels, at most 32. Only pixels in the output's receptive field cost.
    max_frequency : int or d ints
        Highest frequency, of all pixels or of each.
    kind : {"gpk", "ntk"}
    head : {"equivariant", "trace", "gap"}
        The equivariant head reads pixel 0. Trace and GAP average its eigenvalues over all shifts
        of the frequencies (Geifman et al. 2022, theorem 3.7; see `Spectrum.counts`).
    normalized : bool, default False
        Divide the kernel by its value K(x, x) for the equivariant head.
    method : {"auto", "angles", "gegenbauer"}, default "auto"
        Quadrature (``docs/theory/spectrum.md``). "gegenbauer" is the papers' rule. "auto" is the
        rule of fewer nodes.
    nodes : int, optional
        Nodes a pixel: more than `max_frequency`; for "angles" more than π/4 times
        (`max_frequency` + C0 − 2). Errors need some more. ReLU at α = 1 has relative errors of at
        most 1e-4 by the default of "angles", beside rounding errors of about 1e-16 K(x, x): these
        are larger than the smallest eigenvalues of high frequencies, many pixels or small α. Large
        variances of erf have larger errors.
    errors : bool, default False
        Whether to estimate errors. Up to three times the work.
    max_memory : float, default 4e9
        Maximum number of bytes of arrays.
    max_points : float, default 1e11
        Maximum number of points of the grid over all layers. 1e11 take most of an hour on one core.
        `cost` tells both numbers.
    progress : bool, default False
        Whether to show a progress bar (needs tqdm).

    Returns
    -------
    `Spectrum`

    Raises
    ------
    ValueError
        If an argument is out of range, or the work exceeds `max_memory` or `max_points`.
    OverflowError
        If eigenvalues exceed float64; normalized ones of ReLU, also leaky, do not.

    Examples
    --------
    >>> from rescntk import literature
    >>> from rescntk.theory import spectrum
    >>> network = literature.barzilai_resnet(depth=2)
    >>> found = spectrum.eigenvalues(network, 2, 3, (2, 0, 0), kind="gpk", head="equivariant")
    >>> (found.eigenvalues.ravel() / found.trace).round(4)
    array([0.3223, 0.1815, 0.0072])
    """
    check_flag(errors, "errors")
    check_flag(progress, "progress")
    check_flag(normalized, "normalized")
    max_frequency = read_once(max_frequency)
    space = n_channels, n_timepoints, max_frequency, head
    request = _Request(network, space, kind, method, nodes, errors)
    n_points, n_bytes = request.cost(request.nodes)
    field = windows(network, request.d)[1][-1]
    grid = (
        f"max_frequency is {shown(max_frequency)}: a grid of {request.nodes} nodes a pixel, with "
        f"{len(field)} of {request.d} pixels in the receptive field,"
    )
    check_memory(n_bytes, max_memory, grid)
    if n_points > check_nonnegative(max_points, "max_points"):
        raise ValueError(  # a point of a layer takes about 3e-8 seconds
            f"{grid} has {n_points:.3g} points, {n_points * 3e-8 / 3600:,.0f} "
            f"hours of one core, expected max_points, {max_points:.3g}, at most"
        )
    node_counts = request.coarser if errors else ()
    points = n_points + sum(request.cost(n_nodes)[0] for n_nodes in node_counts)
    with progress_bar(progress, points, "point") as tick:
        fine, trace = request.compute(request.nodes, normalized, tick)
        if not errors:
            unknown = np.full_like(fine, math.nan)
            return Spectrum(fine, unknown, trace, request.head, request.n_channels)
        coarse = [request.compute(n_nodes, normalized, tick)[0] for n_nodes in node_counts]
    # A difference may cross zero: take the largest of two grids and of its neighbours.
    differences = np.maximum(*(np.abs(fine - values) for values in coarse))
    estimated = scipy.ndimage.maximum_filter(differences, 3, mode="nearest")
    estimated += request.rounding(fine, trace)
    return Spectrum(fine, estimated, trace, request.head, request.n_channels)


def cost(
    network: Network,
    n_channels: int,
    n_timepoints: int,
    max_frequency: int | Iterable[int],
    *,
    kind: str,
    method: str = "auto",
    nodes: int | None = None,
) -> tuple[int, int]:
    """Return what a call of `eigenvalues` takes, without computing anything.

    Parameters
    ----------
    network, n_channels, n_timepoints, max_frequency, kind, method, nodes
        As for `eigenvalues`, with the equivariant head. With ``errors`` two coarser grids of less
        cost follow.

    Returns
    -------
    n_points : int
        The number of points at which an activation is evaluated, over all layers.
    n_bytes : int
        The maximum number of bytes in memory.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from rescntk import literature
    >>> from rescntk.theory import spectrum
    >>> spectrum.cost(literature.geifman_cnn(3), 2, 4, max_frequency=20, kind="gpk")[0]
    4191795
    """
    space = n_channels, n_timepoints, max_frequency, "equivariant"
    request = _Request(network, space, kind, method, nodes)
    return request.cost(request.nodes)


class _Request:
    """Checked arguments, and the way from a grid to eigenvalues."""

    def __init__(
        self,
        network: Network,
        space: tuple[int, int, int | Iterable[int], str],
        kind: str,
        method: str,
        nodes: int | None,
        errors: bool = False,
    ) -> None:
        check_network(network, BASIC_FIELDS, activations=None)
        self.n_channels, self.d, self.max_frequency, self.head = check_grid(*space)
        self.network, self.kind = network, check_kind(kind)
        self.highest = max(self.max_frequency)
        self.method = check_choice(method, "method", ("auto", *METHODS))
        counts = {name: default_nodes(name, self.n_channels, self.highest) for name in METHODS}
        if method == "auto":
            self.method = min(METHODS, key=counts.__getitem__)
        n = counts[self.method] if nodes is None else check_positive_integer(nodes, "nodes")
        check_nonnegative(n, "nodes")  # within float64
        by_angles, least = self.method == "angles", max(self.highest + 1, 2)
        if by_angles:
            least = max(math.floor(math.pi / 4 * (self.highest + self.n_channels - 2)) + 1, 2)

        # On the coarser grid an error like nodes^-6 is twice as large, the slowest of "angles".
        # Errors of the other rule fall at least like nodes^-C0. Errors change their sign from grid
        # to grid: a second one has one node less.
        slow = by_angles or self.n_channels > 6
        coarser = n - max(8, math.ceil(n / 8)) if slow else n // 2
        self.nodes, self.coarser = n, (coarser, coarser - 1)
        what = f"a max_frequency of {self.highest} by {self.method!r}"
        if errors:  # the second grid has `least` nodes at least
            least += 1
            least = max(least + 8, math.ceil(least * 8 / 7)) if slow else 2 * least
            what = f"errors of {what}"
        if n < least:
            raise ValueError(f"nodes is {nodes}, expected at least {least} for {what}")
        self._windows = windows(network, self.d)
        self._outer = taps(network.outer_filter(network.depth), self.d)
        # The highest frequency along each axis of the last layer's branch that is needed: pixel p
        # along `axis` + p has the integrals of pixel 0 along `axis`.
        seen = {0, *(p + shift for p in self._outer for shift in shifts(self.head, self.d))}
        top, d = self.max_frequency, self.d
        self._reached = [max(top[(axis + p) % d] for p in seen) for axis in range(d)]

    def cost(self, nodes: int) -> tuple[int, int]:
        """Return what `compute` takes, in exact integers."""
        before, features = ([nodes ** len(p) for p in pixels] for pixels in self._windows)
        # The features before, the branch, and the features after with one sum in the making.
        layers = zip(features[:-2], before[:-1], features[1:-1], strict=True)
        stored = max((old + branch + 2 * new for old, branch, new in layers), default=0)
        shape = grid_shape(self._windows[0][-1], self.d, nodes)
        _, partial = self._partial(shape)
        result = math.prod(k + 1 for k in self.max_frequency)
        matrix = 3 * nodes * (self.highest + 1)  # of the rule, with what it is made from
        entries = stored * (1 + (self.kind == "ntk")) + 2 * math.prod(partial)
        return sum(before), 8 * (entries + 4 * result + matrix)

    def _partial(self, shape: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
        """Return how many first axes blocks cut, and the shape of integrals along the others."""
        lead = leading(shape)
        counts = (self._reached[axis] + 1 if shape[axis] > 1 else 1 for axis in range(lead, self.d))
        return lead, (*shape[:lead], *counts)

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def compute(self, nodes: int, normalized: bool, tick: Tick) -> tuple[np.ndarray, float]:
        """Return the eigenvalues, and K(x, x) of the equivariant kernel."""
        complements, matrix = nodes_and_matrix(self.method, self.n_channels, self.highest, nodes)
        last = KernelOnGrid(self.network, self.kind, complements, self.d, self.n_channels, tick)
        lead, shape = self._partial(last.shape)
        reached, partial = list(enumerate(self._reached)), np.empty(shape)

        def integrate_block(block: Block, branch: np.ndarray) -> None:
            partial[block[:lead]] = integrate(matrix, branch, dict(reached[lead:]))

        last.for_each_block(integrate_block)
        result = np.zeros([k + 1 for k in self.max_frequency])
        self._add_rotated(result, integrate(matrix, partial, dict(reached[:lead])), self._outer)
        if self.network.skip:
            self._add_rotated(result, integrate(matrix, last.carried, dict(reached)), {0: 1})
        if normalized:
            zero = 0 in (self.network.input_scale, last.diagonal)
            result, trace = (0.0 * result, 0.0) if zero else (result / last.diagonal, 1.0)
        else:
            result, trace = result * last.scale, last.diagonal * last.scale
        if not (np.isfinite(result).all() and math.isfinite(trace)):
            remedy = "; normalized=True has no such limit" if self.network.homogeneous else ""
            raise OverflowError(f"eigenvalues exceed float64 at depth {self.network.depth}{remedy}")
        return result, trace

    def rounding(self, eigenvalues: np.ndarray, trace: float) -> np.ndarray:
        """Return the rounding errors to expect of eigenvalues.

        A sum over n nodes averages errors of the kernel's values. P_k changes k times as fast.
        """
        count = [harmonics(self.n_channels, k) for k in range(self.highest + 1)]
        one = np.array([1.0 if k == 0 else 1.0 / (n * self.nodes) for k, n in enumerate(count)])
        noise = np.sqrt(reduce(np.multiply.outer, [one[: k + 1] for k in self.max_frequency]))
        noise *= 1.0 + reduce(np.add.outer, [np.arange(k + 1) / 8 for k in self.max_frequency])
        eps = float(np.finfo(np.float64).eps)
        return eps * (32.0 * np.abs(eigenvalues) + 8.0 * trace * noise)

    def _add_rotated(
        self, result: np.ndarray, integrals: np.ndarray, pixels: dict[int, int]
    ) -> None:
        """Add the mean of integrals as seen by `pixels` (with counts), over shifts if asked."""
        over = shifts(self.head, self.d)
        count = sum(pixels.values()) * len(over)
        for shift, (pixel, times) in product(over, pixels.items()):
            seen = rotate(integrals, (pixel + shift) % self.d)
            common = tuple(map(slice, map(min, result.shape, seen.shape)))
            result[common] += (times / count) * seen[common]
