"""A run of the engine "numba": the constants of a request, and the kernels of its tasks."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np

from ...arrays import Array
from ...validation import KINDS
from .. import exact_sum
from ..doubt import WHOLLY_DOUBTFUL, pixel_weights
from ..geometry import first_places, numbered, on_ring
from ..kept import once, with_object
from ..layer import NEARLY_OPPOSITE
from ..protocol import ScaledKernel, check_stop, stop_flag
from .arguments import Constants, Results
from .heads import CODES, SHARES
from .plan import Plan, TaskCases
from .rows import compute
from .substitutes import coefficients_in
from .sums import filter_sum
from .sweep import sweep
from .swept_layers import AHEAD
from .tables import NumbaSignals, SignalBlock
from .vectors import LINE_BYTES, REGISTER_BYTES

_BITS = {"float64": 53, "float32": 23}
"""Bits of a kernel that sums on grids keep (`exact_sum.grids`).

With 24 bits of float32, GAP at 100 time points would take a second grid, and 5 % more time.
"""


class NumbaRun:
    """The constants of a request, and `values`, its kernels of `n` left with `m` right cases."""

    def __init__(self, plan: Plan, n: int, m: int) -> None:
        request = plan.request
        net, head = request.network, request.head
        self.request, self.plan, self.scaling = request, plan, plan.scaling(plan.longest)
        self.has_pixels, self.shares = head == "pixels", request.shares
        # The loops write to `values` themselves: pixel pairs, and shares that are no sums.
        self.direct = self.has_pixels or (self.shares and not plan.all_offsets)
        self.kinds = [kind for kind in KINDS if kind in request.kinds]
        self.constants = Constants(
            with_object(
                self.scaling,
                ("layers", plan.ring, plan.longest, plan.swept, plan.few_names, *self.kinds),
                lambda: self._layers(plan.few_names),
            ),
            *coefficients_in(request.dtype),
            plan.inner,
            plan.outer,
            plan.window_sum,
            initial=net.parts.initial,
            nearly_opposite=NEARLY_OPPOSITE,
            skip=net.skip,
            adds_mean=self.scaling.adds_mean,
            margin=plan.margin,
            head=SHARES if self.shares else CODES[head],
            gpk="gpk" in request.kinds,
            ntk="ntk" in request.kinds,
            summed=request.summed,
            swept=plan.swept,
            stop=stop_flag(),
        )
        self._weights = pixel_weights(self.scaling)
        self._no_values = np.zeros((0,) * 6, plan.dtype)
        shape = (len(self.kinds), plan.n_depths, n, m)
        d = int(plan.rows[0])
        axes = (d, d) if self.has_pixels else (d, 1) if self.direct else (d,) * self.shares
        self.values = np.zeros((*shape, *axes), plan.dtype if self.direct else np.float64)

    @once
    def constants_of_deficits(self) -> Constants:
        windows = filter_sum(1)  # windows are channels
        return self.constants._replace(layers=self._layers(), window=windows, swept=False)

    def _layers(self, few: bool = False) -> np.ndarray:
        """Return the constants of the layers; with `few`, without names that change nothing."""
        net, shared, depths = self.request.network, self.scaling.constants, self.request.depths
        whole = [(name, "int64") for name in ("slot", "inner_step", "outer_step")]
        left_out = []
        if few and not (net.parts.inner_minus_readout and "ntk" in self.kinds):
            left_out.append("twice_inner_minus_readout")
        if few and self.plan.swept and (shared["sum_scale"][1:] == 1.0).all():
            left_out.append("sum_scale")
        names = [name for name in shared.dtype.names or () if name not in left_out]
        same = [(name, shared.dtype[name]) for name in names]
        layers = np.zeros(len(shared), np.dtype([*same, *whole], align=True))
        for name in names:
            layers[name] = shared[name]
        for number, layer in enumerate(layers[1:], start=1):
            layer["inner_step"] = on_ring(net.inner_filter(number), self.plan.ring).step
            layer["outer_step"] = on_ring(net.outer_filter(number), self.plan.ring).step
        layers["slot"] = -1
        layers["slot"][list(depths)] = range(len(depths))
        return layers

    # -- tasks

    def fill(self, rows: SignalBlock, columns: SignalBlock, task: TaskCases) -> int:
        """Compute a task of `values`, and return its number of pairs of cases."""
        plan = self.plan
        if plan.symmetric and rows.contains(task.columns):
            columns = rows  # whose tables are there
        left, right = rows.part(task.rows), columns.part(task.columns)
        if task.swapped:
            left, right = right, left
        shift = right.cases.start - left.cases.start if plan.symmetric else None
        kernels, needed = self.kernels(left, right, shift)
        self.write(kernels, needed, left, right, task.swapped)
        return int(np.count_nonzero(needed))

    def write(
        self, kernels: np.ndarray, needed: np.ndarray, left: SignalBlock, right: SignalBlock,
        swapped: bool,
    ) -> None:  # fmt: skip
        """Write a task's `kernels` to `values`; with `swapped`, left cases are of Z."""
        if not self.plan.closed:
            i, k = np.nonzero(needed)
            kernels = kernels[:, :, i, k]
            i, k = left.places[i], right.places[k]
            if swapped:
                i, k = k, i
            if self.shares:
                self.values[:, :, i, k, : kernels.shape[-1]] = kernels
                return
            self.values[:, :, i, k] = kernels
            if self.plan.symmetric:
                self.values[:, :, k, i] = kernels
        elif not self.direct:
            self.values[:, :, left.cases, right.cases] = kernels

    def fill_pairs(self, rows: SignalBlock, columns: SignalBlock, cases: slice) -> int:
        """Compute kernels of rows with columns of the same place; return the number of pairs."""
        left = rows.part(cases)
        right = left if columns is rows else columns.part(cases)
        kernels, _ = self.kernels(left, right, 0, only_diagonal=True)
        self.values[:, :, 0, left.places] = kernels.diagonal(axis1=2, axis2=3)
        return len(left)

    def kernels(
        self, left: SignalBlock, right: SignalBlock, shift: int | None, only_diagonal: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return kernels, (kind, depth, left case, right case), and whether they are needed.

        With `shift`, the left case i with the right case k is needed where i ≤ k + shift alone;
        with `only_diagonal`, where i = k. Other pairs may be incomplete.
        If `direct`, kernels are written to `values`, and a view of it is returned.
        """
        n, m, plan = len(left), len(right), self.plan
        shift = n if shift is None else shift
        run: Callable[..., None] = compute
        last: tuple[Any, ...] = ()
        if plan.swept:
            run, last = sweep, (self.constants.ntk or None, None if plan.in_registers else True)
            plan = of_whole_rows(plan)
        segments, offsets = plan.segments(int(left.lengths[0])), right.offsets
        longest = segments[0].stop + 2 * plan.margin
        group_rows = plan.group_rows(int(offsets.sum()), longest)
        if plan.swept:
            group_rows = REGISTER_BYTES // plan.dtype.itemsize
        group = plan.row_group(longest, group_rows)
        lefts = [left.left_cases(part, plan) for part in segments]
        number = lefts[0]["length"]
        lengths = self.left_lengths(left)
        length = number if len(lengths) > 1 else slice(None)  # else the same for all cases
        pairs = self._pixel_pairs(lengths, right.lengths)[length]
        most = self.allowed_doubt(left, right, pairs)
        results = self.results(left, right, group_rows, most)
        leaving = most if plan.levels == 1 else WHOLLY_DOUBTFUL * most
        results = results._replace(leaving_doubt=self.scaling.leaving_doubt(leaving, pairs))
        for part, cases in zip(segments, lefts, strict=True):
            rights = right.rows(np.arange(m), offsets, group_rows, part.start, plan=plan)
            run(
                left.packed("left", plan), right.packed("right"), cases, rights, shift,
                only_diagonal, group,
                self.constants._replace(margin=plan.margin, stop=stop_flag()),
                self._of_segment(results, part), *last,
            )  # fmt: skip
            check_stop()
        needed = np.eye(n, dtype=bool) if only_diagonal else np.tri(m, n, shift, dtype=bool).T
        values = self.values[:, :, left.cases, right.cases]
        self.repeat(results, values, pairs, needed, left, right)
        if self.direct:
            return values, needed
        means = left.means_or_parts[:, :, None], right.of_signals("means")[:, None]
        return self._kernels(results, pairs, *means), needed

    def allowed_doubt(self, left: SignalBlock, right: SignalBlock, pairs: Any) -> Any:
        """Return the sums of E² over `pairs` that kernels may have, (left case, right case)."""
        cancelled = np.minimum(left.of_signals("cancelled")[:, None], right.of_signals("cancelled"))
        return self.scaling.allowed_doubt(pairs, cancelled)

    def repeat(
        self, results: Results, values: np.ndarray, pairs: np.ndarray, needed: np.ndarray,
        left: SignalBlock, right: SignalBlock,
    ) -> None:  # fmt: skip
        """Compute the doubtful rows of pairs that are `needed` again, in deficits.

        A pair keeps its first levels while their doubts together are allowed. All rows of its
        other levels are doubtful. A pair that is wholly doubtful keeps no level.
        """
        doubtful = sum(results.doubt[1:], results.doubt[0]) > results.most_doubt
        rows, columns = np.nonzero(doubtful & needed)
        if not len(rows):
            return
        doubt = results.doubt[:, rows, columns].cumsum(axis=0)
        most = results.most_doubt[rows, columns]
        kept = (doubt <= most).sum(axis=0) * (doubt[-1] <= WHOLLY_DOUBTFUL * most)
        most_parallel = np.broadcast_to(self.scaling.most_parallel(pairs), doubtful.shape)
        parallel = doubt[-1] > most_parallel[rows, columns]
        for level, sums in enumerate(results.sums if results.sums.size else ()):
            dropped = level >= kept
            sums[..., rows[dropped], columns[dropped]] = 0.0
        firsts = first_places(right.offsets)
        for masses, of_masses in (("masses", ~parallel), ("split masses", parallel)):
            places = np.flatnonzero(of_masses)
            lengths = left.lengths[rows[places]], right.lengths[columns[places]]
            for some in self.plan.repeats(*lengths):
                numbers = places[some]
                i, k = rows[numbers], columns[numbers]
                case, offset = numbered(right.offsets[k])
                levels = results.levels[i[case], firsts[k[case]] + offset]
                again = np.flatnonzero(levels >= kept[numbers][case])
                repeated = self.in_deficits(left, right, i, k, masses, again)
                if repeated.sums.size:
                    results.sums[0][..., i, k] += repeated.sums[0, ..., 0, :]
                of_pixels = (results.shares, repeated.shares), (values, repeated.values)
                for of_all, of_pairs in of_pixels:
                    if of_pairs.size:  # shorter signals have fewer pixels
                        of_all[:, :, i, k, : of_pairs.shape[4]] = of_pairs[:, :, 0]

    def in_deficits(
        self, left: SignalBlock, right: SignalBlock, rows: np.ndarray, columns: np.ndarray,
        masses: str, some: np.ndarray,
    ) -> Results:  # fmt: skip
        """Return the results of `some` rows of pairs; the left cases have one length.

        `masses` is the layout of tables (`SignalBlock.packed`).
        """
        if self.plan.symmetric and left.contains(right.cases):  # the tables of masses are there
            columns, right = columns + right.cases.start - left.cases.start, left
        offsets, d = right.offsets[columns], int(left.lengths[rows[0]])
        segments, margins = self.plan.segments(d), 2 * self.plan.margin
        group_rows = self.plan.group_rows_of_deficits(len(some), segments[0].stop + margins)
        results = self.results_of_pairs(left, right, rows, columns, group_rows)
        if self.direct:
            shape = len(self.kinds), self.plan.n_depths, 1, len(rows), d
            values = np.empty((*shape, self.values.shape[-1]), self.plan.dtype)
            results = results._replace(values=values)
        for part in segments:
            pairs = left.rows(rows, offsets, group_rows, part.start, right=False, some=some)
            rights = right.rows(columns, offsets, group_rows, part.start, some=some)
            pixels_of_row = part.stop - part.start + margins
            compute(
                left.packed(masses), right.packed(masses), left.left_cases(part, self.plan),
                rights, 0, False,
                self.plan.row_group(pixels_of_row, group_rows, in_deficits=True),
                self.constants_of_deficits._replace(stop=stop_flag()),
                self._of_segment(results, part), pairs,
            )  # fmt: skip
            check_stop()
        return results

    def results_of_pairs(
        self, left: SignalBlock, right: SignalBlock, rows: np.ndarray, columns: np.ndarray,
        group_rows: int,
    ) -> Results:  # fmt: skip
        """Return arrays of pairs, in the place of right cases, whose left cases have one length."""
        lengths, left_length = right.lengths[columns], left.lengths[rows[:1]]
        if self.plan.biased:
            bounds = left.of_signals("bounds")[..., rows] * right.of_signals("bounds")[..., columns]
            grids = self._grids(bounds[..., None, :], left_length, lengths)
        else:
            grids = self._grids_of_lengths(left_length, lengths)
        biases = left.of_signals("bias")[rows], right.of_signals("bias")[columns]
        unread = np.zeros((1, len(rows)))
        return self._arrays(1, grids, int(left_length[0]), group_rows, unread, biases)

    def results(
        self, left: SignalBlock, right: SignalBlock, rows: int, most_doubt: np.ndarray
    ) -> Results:
        """Return arrays for all pairs of left and right cases; a group has `rows` rows."""
        if self.plan.biased:
            bounds = left.of_signals("bounds")[..., None] * right.of_signals("bounds")[..., None, :]
            grids = self._grids(bounds, left.lengths, right.lengths)
        elif self.plan.closed:
            place = "grids", self.plan.longest
            one = left.lengths[:1], right.lengths[:1]
            grids = with_object(self.scaling, place, lambda: self._grids_of_lengths(*one))
            grids = grids.repeat(len(right), axis=-1)  # a view's type would be compiled anew
        else:
            grids = self._grids_of_lengths(self.left_lengths(left), right.lengths)
        biases = left.of_signals("bias"), right.of_signals("bias")
        results = self._arrays(
            len(left), grids, int(left.lengths[0]), rows, most_doubt, biases,
            levels=self.plan.levels, rights=int(right.offsets.sum()),
        )  # fmt: skip
        if not self.direct:
            return results
        return results._replace(
            values=self.values, first_left=left.cases.start, first_right=right.cases.start
        )

    def _arrays(
        self, n: int, grids: np.ndarray, longest: int, rows: int, most_doubt: np.ndarray,
        biases: tuple[np.ndarray, np.ndarray], levels: int = 1, rights: int = 0,
    ) -> Results:  # fmt: skip
        """Return arrays for `n` left cases; `longest` is the length of the first one.

        `rows` are the rows of a group, `rights` all rows, and `biases` of the left and right cases.
        """
        depths, m = self.plan.n_depths, grids.shape[-1]
        shape = (len(self.kinds), depths, n, m)
        shares = np.zeros((0,) * 6)
        if self.shares and not self.direct:
            shares = np.zeros((*shape, longest, len(grids)))
        if self.has_pixels or self.shares:
            shape = (0,) * 4
        padded = rows + LINE_BYTES
        return Results(
            sums=np.zeros((levels, len(grids), *shape)),
            shares=shares,
            values=self._no_values,
            first_left=0,
            first_right=0,
            first_pixel=0,
            doubt=np.zeros((levels, n, m)),
            levels=np.zeros((n, rights), np.int8),
            grids=np.ascontiguousarray(grids),
            weights=self._weights,
            most_doubt=most_doubt,
            leaving_doubt=most_doubt,
            left_bias=biases[0],
            right_bias=biases[1],
            row_grids=np.zeros((2, depths, len(grids), padded)),
            row_sums=np.zeros((2, depths, len(grids), padded)),
            row_doubts=np.zeros(padded),
            row_places=np.zeros(padded, np.int64),
        )

    def left_lengths(self, left: SignalBlock) -> np.ndarray:
        """Return the lengths that `LEFT_CASE` numbers (`SignalBlock.left_cases`)."""
        if self.plan.biased:
            return left.lengths
        return left.lengths[:1] if self.plan.closed else _different(left.lengths)[0]

    def _grids_of_lengths(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return the grids for signals of these lengths, which share their bounds."""
        lengths, places = _different(right)

        def bound(lengths: np.ndarray) -> np.ndarray:  # (2, depth, length)
            return np.stack([self.plan.scaling(d).common_bounds for d in lengths.tolist()], axis=-1)

        bounds = bound(left)[..., None] * bound(lengths)[..., None, :]
        return self._grids(bounds, left, lengths)[..., places]

    def _grids(self, bounds: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return the grids of sums, (grid, 2, depth, left, right), of kernels below `bounds`.

        `left` and `right` are the signals' lengths.
        """
        terms = self._pixel_pairs(left, right)
        if self.shares:
            terms //= left[:, None]
        return np.array(exact_sum.grids(np, bounds, terms, _BITS[self.request.dtype]))

    @staticmethod
    def _of_segment(results: Results, part: slice) -> Results:
        return results._replace(weights=results.weights[part.start :], first_pixel=part.start)

    def _pixel_pairs(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return the number of pixel pairs that the head needs, (left length, right case)."""
        return np.outer(left, self.plan.offsets(right))

    def _kernels(
        self, results: Results, pairs: np.ndarray, left: Array, right: Array
    ) -> np.ndarray:
        """Return kernels, (kind, depth, left case, right case), from sums over `pairs` terms.

        `left` and `right` are the means of the signals, (channel, …): F⁰ averages to x̄ · z̄ over
        pixel pairs, where the mean is added. For shares, `left` are the parts of the means.
        """
        sums = sum(results.sums[1:], results.sums[0])
        if self.request.head == "equivariant":
            return sums[0]
        if self.shares:
            sums, pairs = np.moveaxis(results.shares, -1, 0), pairs[..., None]
            left, right = left[..., : sums.shape[-1]], right[..., None]
        kernels = np.asarray(exact_sum.total(list(sums))) / pairs.astype(np.float64)
        if not self.scaling.adds_mean:
            return kernels
        linear = exact_sum.pairwise(x * z for x, z in zip(left, right, strict=True))
        self.scaling.add_mean(dict(zip(self.kinds, kernels, strict=True)), linear)
        return kernels

    def finish(self, left: NumbaSignals, right: NumbaSignals, symmetric: bool) -> ScaledKernel:
        """Return the results with both triangles, and with constants corrected."""
        terms, values = 1, self.values
        if self.direct and self.shares:
            terms, values = self.plan.longest, self.values[..., 0]
        for value in values:
            self.scaling.finish(value, symmetric, terms)
        by_kind = dict(zip(self.kinds, values, strict=True))
        ordered = {kind: by_kind[kind] for kind in self.request.kinds}
        lengths = left.lengths[np.argsort(left.order)]
        return self.scaling.scaled(ordered, left.scale, right.scale, lengths)


def of_whole_rows(plan: Plan) -> Plan:
    """Return the plan of the sweep, whose rows are not cut into segments."""
    plan = copy(plan)
    plan.segment, plan.closed_rows = plan.longest, plan.closed
    plan.halo = max(AHEAD, plan.reach if plan.closed else 0)
    plan.margin = 0 if plan.closed else plan.margin
    return plan


def _different(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the different lengths, the longest first, and the place of each length among them."""
    falling, places = np.unique(-lengths, return_inverse=True)
    return -falling, places
