"""`NumbaRun`: the constants of a request, and the kernels of a task."""

from __future__ import annotations

import numpy as np

from ...arrays import Array
from ...validation import KINDS
from .. import exact_sum
from ..geometry import on_ring
from ..protocol import ScaledKernel
from ..scaling import NEARLY_OPPOSITE
from .arguments import Results, RunConstants, RunNumbers
from .heads import CODES
from .layers import coefficients
from .merged import compute_in_deficits
from .plan import Plan
from .rows import compute
from .sums import filter_sum
from .tables import Part


class NumbaRun:
    """A request with its constants, for the kernels of any of its signals."""

    def __init__(self, plan: Plan) -> None:
        request = plan.request
        net, head = request.network, request.head
        self.request, self.plan, self.scaling = request, plan, plan.scaling(plan.longest)
        self.has_pixels, self.linear_apart = head == "pixels", self.scaling.linear_apart
        self.kinds = [kind for kind in KINDS if kind in request.kinds]
        p, r = coefficients(request.dtype)
        numbers = RunNumbers(
            initial=net.parts.initial,
            nearly_opposite=NEARLY_OPPOSITE,
            window=plan.window,
            skip=net.skip,
            linear_apart=self.linear_apart,
            closed=plan.closed,
            halo=plan.halo,
            margin=plan.margin,
            head=CODES[head],
            gpk="gpk" in request.kinds,
            ntk="ntk" in request.kinds,
            summed=request.summed,
        )
        inner, outer = filter_sum(net.filter_size), filter_sum(net.outer_filter_size)
        window = filter_sum(max(1, plan.window))
        self.constants = RunConstants(self._layers(), p, r, inner, outer, window, numbers)
        self._weights = self.scaling.doubt_weights()

    def _layers(self) -> np.ndarray:
        net, scaling = self.request.network, self.scaling
        ring = scaling.d if self.plan.closed else None
        whole = [(name, "int64") for name in ("slot", "inner_step", "outer_step")]
        shared = scaling.constants
        layers = np.zeros(len(shared), np.dtype([*shared.dtype.descr, *whole], align=True))
        for name in shared.dtype.names or ():
            layers[name] = shared[name]
        for number, layer in enumerate(layers[1:], start=1):
            layer["inner_step"] = on_ring(net.inner_filter(number), ring).step
            layer["outer_step"] = on_ring(net.outer_filter(number), ring).step
        layers["slot"] = -1
        layers["slot"][list(self.request.depths)] = range(len(self.request.depths))
        return layers

    # -- the kernels of a task

    def fill(
        self,
        values: np.ndarray,
        left: Part,
        right: Part,
        shift: int | None,
        only_diagonal: bool = False,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return kernels, (kind, depth, left case, right case), and whether they are needed.

        With `shift`, the left case i with the right case k is needed where i ≤ k + shift alone;
        with `only_diagonal`, where i = k. Other pairs may be incomplete.
        Kernels of all pixel pairs are written to `values`, and a view of it is returned.
        """
        n, m = len(left), len(right)
        shift = n if shift is None else shift
        lefts, offsets = left.left_cases, right.offsets
        group_rows = self.plan.group_rows(int(offsets.sum()), int(lefts.pixels[0]))
        rights = right.block.rows(np.arange(right.start, right.start + m), offsets, group_rows)
        lengths = left.lengths[np.unique(lefts.length, return_index=True)[1]]
        pixels = values if self.has_pixels else np.zeros((0,) * 6)
        first = left.cases.start, right.cases.start
        results = self._results(pixels, first, n, lengths, right.lengths)
        compute(
            left.block.left, right.block.right, lefts, rights, group_rows, shift, only_diagonal,
            self.constants, results,
        )  # fmt: skip
        length = lefts.length if len(lengths) > 1 else slice(None)  # else the same for all cases
        if self.has_pixels:
            kernels = values[:, :, left.cases, right.cases]
        else:
            means = left.means[:, :, None], right.means[:, None]
            pairs = self._pixel_pairs(lengths, right.lengths)[length]
            kernels = self._kernels(results.sums, pairs, *means)
        needed = np.eye(n, dtype=bool) if only_diagonal else np.tri(m, n, shift, dtype=bool).T
        doubtful = results.doubt > results.most_doubt[length]
        rows, columns = np.nonzero(doubtful & needed)
        for some in self.plan.repeats(left.lengths[rows], right.lengths[columns]):
            here, there = rows[some], columns[some]
            kernels[:, :, here, there] = self._in_deficits(left, right, here, there)
        return kernels, needed

    def _in_deficits(
        self, left: Part, right: Part, rows: np.ndarray, columns: np.ndarray
    ) -> np.ndarray:
        """Return the kernels of pairs, (kind, depth, pair, …); the left cases have one length."""
        lengths, left_length = right.lengths[columns], left.lengths[rows[:1]]
        offsets, d = self.plan.offsets(lengths), int(left_length[0])
        group_rows = self.plan.group_rows_of_deficits(int(offsets.sum()), d)
        lefts = left.block.rows(left.start + rows, offsets, group_rows, right=False)
        rights = right.block.rows(right.start + columns, offsets, group_rows)
        shape = (1, len(rows), d, d) if self.has_pixels else (0,) * 4
        pixels = np.empty((len(self.kinds), self.plan.n_depths, *shape))
        results = self._results(pixels, (0, 0), 1, left_length, lengths)
        compute_in_deficits(
            left.block.masses, right.block.masses, lefts, rights, group_rows, self.constants,
            results,
        )  # fmt: skip
        if self.has_pixels:
            return pixels[:, :, 0]
        pairs = self._pixel_pairs(left_length, lengths)
        means = left.means[:, None, rows], right.means[:, None, columns]
        return self._kernels(results.sums, pairs, *means)[:, :, 0]

    def _results(
        self,
        pixels: np.ndarray,
        first: tuple[int, int],
        n: int,
        left: np.ndarray,
        right: np.ndarray,
    ) -> Results:
        """Return arrays for `n` left cases, of the different lengths `left`, with right cases.

        `right` are the lengths of all right cases. `first` are the places of the first left and
        the first right case in `pixels`.
        """
        m, grids = len(right), self._grids(left, right)
        shape = (0,) * 4 if self.has_pixels else (len(self.kinds), self.plan.n_depths, n, m)
        most = self.scaling.allowed_doubt(self._pixel_pairs(left, right))
        return Results(
            sums=np.zeros((len(grids), *shape)),
            pixels=pixels,
            first_left=first[0],
            first_right=first[1],
            doubt=np.zeros((n, m)),
            grids=grids,
            weights=self._weights,
            most_doubt=np.broadcast_to(most, (len(left), m)).astype(np.float64),
        )

    def _pixel_pairs(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return the number of pixel pairs that the head needs, (left length, right case)."""
        pairs: np.ndarray = left[:, None] * self.plan.offsets(right)
        return pairs

    def _grids(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return the grids of sums, (grid, 2, depth, left length, right case)."""
        lengths, places = np.unique(right, return_inverse=True)
        bounds = self._bounds(left)[..., None] * self._bounds(lengths)[..., None, :]
        grids = exact_sum.grids(np, bounds, self._pixel_pairs(left, lengths))
        return np.take(np.array(grids), places, axis=-1)

    def _bounds(self, lengths: np.ndarray) -> np.ndarray:
        """Return the bounds on √(kernel at any pixel), (2, depth, length)."""
        bounds = [self.plan.scaling(d).common_bounds for d in lengths.tolist()]
        return np.stack(bounds, axis=-1)

    def _kernels(
        self, sums: np.ndarray, pairs: np.ndarray, left: Array, right: Array
    ) -> np.ndarray:
        """Return kernels, (kind, depth, left case, right case), from sums over `pairs` terms.

        `left` and `right` are the means of the signals, (channel, …): F⁰ averages to x̄ · z̄ over
        pixel pairs, where it is kept apart.
        """
        if self.request.head == "equivariant":
            return sums[0]
        kernels = np.asarray(exact_sum.total(list(sums))) / pairs.astype(np.float64)
        if not self.linear_apart:
            return kernels
        linear = exact_sum.pairwise(x * z for x, z in zip(left, right, strict=True))
        for kind, value in zip(self.kinds, kernels, strict=True):
            share = 1.0 if kind == "gpk" else self.request.network.parts.initial
            for t, depth in enumerate(self.request.depths):
                value[t] += (share * 2.0 ** -self.scaling.exponents[depth]) * linear
        return kernels

    # -- results

    def values(self, n: int, m: int) -> np.ndarray:
        """Return an array for the kernels of n left with m right cases, (kind, depth, n, m, …)."""
        shape = (len(self.kinds), self.plan.n_depths, n, m)
        return np.empty((*shape, self.scaling.d, self.scaling.d) if self.has_pixels else shape)

    def finish(self, values: Array, left: Array, right: Array, symmetric: bool) -> ScaledKernel:
        """Return the results with both triangles, and with constants corrected."""
        for value in values:
            self.scaling.finish(value, symmetric)
        by_kind = dict(zip(self.kinds, values, strict=True))
        ordered = {kind: by_kind[kind] for kind in self.request.kinds}
        return self.scaling.scaled(ordered, left, right)
