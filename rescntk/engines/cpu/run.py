"""`NumbaRun`: a request with its constants, and the computation of a block of its kernels."""

from __future__ import annotations

from functools import cached_property

import numba
import numpy as np

from ...arrays import Array
from ...vocabulary import KINDS
from .. import exact_sum
from ..geometry import longest_reach, on_ring, receptive_reach
from ..layer import constants_dtype
from ..protocol import Request, ScaledKernel, cut
from ..scaling import DOUBTFUL, NEARLY_OPPOSITE, Scaling
from . import sizes
from .arguments import Results, RunConstants, RunNumbers
from .cases import Part
from .deficits import compute_in_deficits
from .heads import CODES
from .layers import CHANNELS, coefficients
from .rows import compute


class NumbaRun:
    """A request on signals of one length, whose rows are closed, or of any lengths.

    Parameters
    ----------
    request : Request
        The kernels wanted.
    n_channels : int
        Channels of each signal.
    longest : int
        The length of the longest signal.
    closed : bool
        Whether rows close in themselves. Otherwise rows are open: the head is "gap".

    Attributes
    ----------
    margin : int
        Pixels of an open row at either end (`Block.margin`).
    all_offsets : bool
        Whether the head needs all offsets of a pair, not the offset 0 alone.
    """

    def __init__(self, request: Request, n_channels: int, longest: int, closed: bool) -> None:
        net, head = request.network, request.head
        self.request, self.network, self.n_channels = request, net, n_channels
        self.longest, self.closed = longest, closed
        self.all_offsets, self.has_pixels = head in ("gap", "pixels"), head == "pixels"
        self.kinds = [kind for kind in KINDS if kind in request.kinds]
        self._scalings = {longest: Scaling(request, n_channels, longest)}
        self.depth = request.depths[-1]
        self.threads = request.threads or numba.config.NUMBA_NUM_THREADS
        size = net.input_filter_size
        sums = size > 1 and self.n_channels * size > CHANNELS and head in ("trace", "gap")
        self.window = size if sums else 0
        reach = self.window // 2
        self.margin = 0 if self.closed else receptive_reach(net, self.depth) + reach
        ring = longest if self.closed else None
        self.halo = max(reach, longest_reach(net, self.depth, ring), net.filter_size // 2)
        scaling = self.scaling(longest)
        p, r = coefficients(request.dtype)
        self.constants = RunConstants(
            layers=self._layers(scaling),
            p=p,
            r=r,
            numbers=RunNumbers(
                initial=net.parts.initial,
                nearly_opposite=NEARLY_OPPOSITE,
                inner_size=net.filter_size,
                outer_size=net.outer_filter_size,
                window=self.window,
                skip=net.skip,
                linear_apart=scaling.linear_apart,
                closed=closed,
                halo=self.halo if closed else 0,
                margin=self.margin,
                head=CODES[head],
                gpk="gpk" in request.kinds,
                ntk="ntk" in request.kinds,
                summed=request.summed,
            ),
        )
        self._weights = scaling.doubt_weights()

    def scaling(self, length: int) -> Scaling:
        """Return the constants of the layers for signals of a length.

        Lengths differ in bounds, and in the number of pixel pairs, alone.
        """
        if length not in self._scalings:
            self._scalings[length] = self._scalings[self.longest].of_length(length)
        return self._scalings[length]

    @property
    def layer_entries(self) -> int:
        """Pixel pairs times layers of a pair of the longest signals."""
        return self.longest * self.scaling(self.longest).offsets * self.depth

    def rows_of_task(self, length: int) -> int:
        """Return the rows that fill a task whose left cases have at most this length."""
        pixels, offsets = length + 2 * self.margin, self.scaling(length).offsets
        return sizes.rows_of_task(np.dtype(self.request.dtype), self._tables, pixels, offsets)

    @property
    def right_cases(self) -> int:
        """Right cases, of the longest signals, that fill a task."""
        rows, depths = self.rows_of_task(self.longest), len(self.request.depths)
        return sizes.right_cases(rows, self.scaling(self.longest).offsets, depths)

    @property
    def left_cases(self) -> int:
        """Left cases, of the longest signals, whose tables are held at once."""
        taken = self.scaling(self.longest).bytes_per_case(self.n_channels)
        depths = len(self.request.depths)
        return sizes.left_cases(self.right_cases, self.layer_entries, depths, taken)

    @property
    def _tables(self) -> int:
        """Half the number of tables that a group of rows copies."""
        return self.depth + 1 + self.n_channels

    def _layers(self, scaling: Scaling) -> np.ndarray:
        """Return the constants of layers 0 … L."""
        net, dtype = self.network, self.request.dtype
        ring = self.longest if self.closed else None
        whole = [(name, "int64") for name in ("slot", "inner_step", "outer_step")]
        fields = np.dtype([*constants_dtype(dtype).descr, *whole], align=True)
        layers = np.zeros(self.depth + 1, fields)
        for number, layer in enumerate(layers[1:], start=1):
            factor = scaling.factor(number) * scaling.unit(number)
            skip_scale = scaling.step(number) * net.skip
            layer["factor"], layer["half_factor"] = factor, 0.5 * factor
            layer["skip_scale"] = skip_scale
            layer["sum_scale"] = skip_scale * self.request.summed
            if scaling.linear_apart:
                layer["linear_scale"] = 2.0 ** -scaling.exponents[number - 1]
            layer["mean"] = scaling.mean_variances[number]
            layer["doubtful"] = DOUBTFUL * scaling.mean_variances[number]
            layer["inner_step"] = on_ring(net.inner_filter(number), ring).step
            layer["outer_step"] = on_ring(net.outer_filter(number), ring).step
        layers["slot"] = -1
        layers["slot"][list(self.request.depths)] = range(len(self.request.depths))
        layers["twice_inner_minus_readout"] = 2.0 * net.parts.inner_minus_readout
        layers["outer_plus_readout"] = net.parts.outer_plus_readout
        layers["tiny"] = np.finfo(dtype).tiny
        layers["one"] = 1
        return layers

    # -- a block of kernels

    def fill(
        self,
        values: np.ndarray,
        left: Part,
        right: Part,
        shift: int | None,
        only_diagonal: bool = False,
    ) -> np.ndarray:
        """Return the kernels of left with right cases, (kind, depth, left case, right case).

        With `shift`, the left case i with the right case k is needed where i ≤ k + shift alone;
        with `only_diagonal`, where i = k. Other pairs may be incomplete.
        Kernels of all pixel pairs are written to `values`, and a view of it is returned.
        """
        n, m = len(left), len(right)
        shift = n if shift is None else shift
        lefts, dtype = left.left_cases, np.dtype(self.request.dtype)
        offsets = self._offsets(right.lengths)
        group_rows = sizes.rows_per_group(
            dtype, self._tables, int(offsets.sum()), int(lefts.pixels[0])
        )
        rights = right.cases.rows(np.arange(right.start, right.stop), offsets, group_rows)
        lengths = left.lengths[np.unique(lefts.length, return_index=True)[1]]
        first = left.batch.start, right.batch.start
        results = self._results(values, n, lengths, right.lengths, first)
        own = lefts.length if len(lengths) > 1 else slice(None)  # else one row for all cases
        compute(
            left.cases.left, right.cases.right, lefts, rights, group_rows, shift, only_diagonal,
            self.constants, results,
        )  # fmt: skip
        if self.has_pixels:
            kernels = values[:, :, left.batch, right.batch]
        else:
            kernels = self._kernels(results, self._pixel_pairs(lengths, right.lengths)[own])
        if self.linear_apart:
            means = left.cases.means[:, left.here, None], right.cases.means[:, None, right.here]
            self._add_linear_part(kernels, *means)
        doubtful = results.doubt > results.most_doubt[own]
        doubtful &= np.eye(n, m, dtype=bool) if only_diagonal else np.tri(n, m, -shift - 1) == 0
        pairs = np.nonzero(doubtful)
        if len(pairs[0]):
            self._repeat(kernels, left, right, pairs)
        return kernels

    def fill_diagonal(self, cases: Part) -> np.ndarray:
        """Return the kernels of cases with themselves, (kind, depth, case)."""
        kernels = self.fill(np.empty(0), cases, cases, 0, only_diagonal=True)
        return kernels.diagonal(axis1=2, axis2=3)

    def _repeat(
        self, kernels: np.ndarray, left: Part, right: Part, pairs: tuple[np.ndarray, ...]
    ) -> None:
        """Compute some pairs of `kernels` again, in deficits.

        `pairs` are the places of cases among the left and the right ones, the left ones rising.
        """
        of_left = left.lengths[pairs[0]]
        changes = np.flatnonzero(np.diff(of_left)) + 1
        for rows, columns in zip(*(np.split(cases, changes) for cases in pairs), strict=True):
            entries = left.lengths[rows[0]] * self._offsets(right.lengths[columns])
            for some in cut(entries, sizes.TASK_PAIRS):
                here, there = rows[some], columns[some]
                kernels[:, :, here, there] = self._in_deficits(left, right, here, there)

    def _in_deficits(
        self, left: Part, right: Part, rows: np.ndarray, columns: np.ndarray
    ) -> np.ndarray:
        """Return the kernels of pairs, (kind, depth, pair, …); the left cases have one length."""
        lengths, d = right.lengths[columns], int(left.lengths[rows[0]])
        offsets = self._offsets(lengths)
        here, there = left.start + rows, right.start + columns
        dtype, number = np.dtype(self.request.dtype), int(offsets.sum())
        group_rows = sizes.rows_of_deficits(dtype, number, d + 2 * self.margin)
        left_rows = left.cases.rows_of_masses(here, offsets, group_rows, right=False)
        right_rows = right.cases.rows_of_masses(there, offsets, group_rows, right=True)
        shape = (1, len(rows), d, d) if self.has_pixels else (0,) * 4
        own = np.empty((len(self.kinds), len(self.request.depths), *shape))
        one = np.array([d])
        results = self._results(own, 1, one, lengths)
        compute_in_deficits(
            left.cases.masses, right.cases.masses, left_rows, right_rows, group_rows,
            self.constants, results,
        )  # fmt: skip
        if self.has_pixels:
            return own[:, :, 0]
        kernels = self._kernels(results, self._pixel_pairs(one, lengths))[:, :, 0]
        if self.linear_apart:
            means = left.cases.means[:, here], right.cases.means[:, there]
            self._add_linear_part(kernels, *means)
        return kernels

    def _results(
        self,
        values: np.ndarray,
        n: int,
        left: np.ndarray,
        right: np.ndarray,
        first: tuple[int, int] = (0, 0),
    ) -> Results:
        """Return arrays for `n` left cases, of the lengths `left`, with right cases.

        `right` are the lengths of all right cases, (cases,). `first` are the places of the first
        left and right case in `values`.
        """
        m = len(right)
        closed = self.closed  # all lengths are equal
        grids = np.repeat(self._own_grids, m, axis=-1) if closed else self._grids(left, right)
        kinds, depths = len(self.kinds), len(self.request.depths)
        shape = (0,) * 4 if self.has_pixels else (kinds, depths, n, m)
        most = self.scaling(self.longest).allowed_doubt(self._pixel_pairs(left, right))
        return Results(
            sums=np.zeros((len(grids), *shape)),
            pixels=values if self.has_pixels else np.zeros((0,) * 6),
            first_left=first[0],
            first_right=first[1],
            doubt=np.zeros((n, m)),
            grids=grids,
            weights=self._weights,
            most_doubt=np.broadcast_to(most, (len(left), m)).astype(np.float64),
        )

    def _offsets(self, lengths: np.ndarray) -> np.ndarray:
        """Return the number of offsets of pairs with right cases of these lengths."""
        return lengths if self.all_offsets else np.ones_like(lengths)

    def _pixel_pairs(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return the number of pixel pairs that the head needs, (left length, right case)."""
        pairs: np.ndarray = left[:, None] * self._offsets(right)
        return pairs

    @cached_property
    def _own_grids(self) -> np.ndarray:
        """The grids of one pair of the longest signals."""
        one = np.array([self.longest])
        return self._grids(one, one)

    def _grids(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return the grids of sums, (grid, 2, depth, left length, right case)."""
        own, other = self._bounds(left)[..., None], self._bounds(right)[..., None, :]
        grids = exact_sum.grids(np, own * other, self._pixel_pairs(left, right))
        return np.stack([np.asarray(grid) for grid in grids])

    def _bounds(self, lengths: np.ndarray) -> np.ndarray:
        """Return the bounds on √(kernel at any pixel), (2, depth, signal), of signals' lengths."""
        different, places = np.unique(lengths, return_inverse=True)
        bounds = []
        for length in different.tolist():
            common = self.scaling(length).common_bounds or {}  # ReLU has them
            bounds.append([[common[kind, t] for t in self.request.depths] for kind in KINDS])
        return np.moveaxis(np.array(bounds), 0, -1)[..., places]

    def _kernels(self, results: Results, pixel_pairs: np.ndarray) -> np.ndarray:
        """Return the kernels of a block, (kind, depth, left case, right case), from its sums."""
        if self.request.head == "equivariant":
            return results.sums[0]
        total = np.asarray(exact_sum.total(list(results.sums)))
        return total / pixel_pairs.astype(np.float64)

    @property
    def linear_apart(self) -> bool:
        """True if the mean of F⁰ is kept apart (`Scaling.linear_apart`)."""
        return self.constants.numbers.linear_apart

    def _add_linear_part(self, values: np.ndarray, left: Array, right: Array) -> None:
        """Add the mean of F⁰ over pixel pairs, x̄ · z̄, to kernels (kind, depth, …).

        `left` and `right` are the means of the signals, channel by channel.
        """
        products = (one * other for one, other in zip(left, right, strict=True))
        exponents = self.scaling(self.longest).exponents
        linear = exact_sum.pairwise(products)
        for kind, value in zip(self.kinds, values, strict=True):
            share = 1.0 if kind == "gpk" else self.network.parts.initial
            for t, depth in enumerate(self.request.depths):
                value[t] += (share * 2.0 ** -exponents[depth]) * linear

    # -- results

    def values(self, n: int, m: int) -> np.ndarray:
        """Return an array for the kernels of n left with m right cases, (kind, depth, n, m, …)."""
        shape = (len(self.kinds), len(self.request.depths), n, m)
        return np.empty((*shape, self.longest, self.longest) if self.has_pixels else shape)

    def finish(self, values: Array, left: Array, right: Array, symmetric: bool) -> ScaledKernel:
        """Return the results with both triangles, and with constants corrected."""
        ordered = dict(zip(self.kinds, values, strict=True))
        scaling = self.scaling(self.longest)
        for value in values:
            scaling.finish(value, symmetric)
        by_kind = {kind: ordered[kind] for kind in self.request.kinds}
        return scaling.scaled(by_kind, left, right)

    def of_diagonal(self, values: Array, scale: Array) -> ScaledKernel:
        """Return the results of signals with themselves, (kind, depth, 1, case)."""
        scaled = self.finish(values, scale, scale, symmetric=False)
        own = {kind: value[:, 0] for kind, value in scaled.values.items()}
        return ScaledKernel(own, scale, scale, scaled.exponents)
