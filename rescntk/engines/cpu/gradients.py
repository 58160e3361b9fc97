"""Derivatives of weighted sums of kernels in the engine "numba" (engines/gradients.py).

Tasks depend on the shapes alone, and their sums are added in order: results have the same bits for
any number of threads. Pairs that lose digits in distances go through the reference engine.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numba
import numpy as np

from ...arrays import Batch
from .. import gradients as reference
from ..doubt import MOST_E
from ..geometry import longest_reach
from ..gradients import Derivatives, Signals, add_means, derivatives, pair_factors
from ..masses import exact_unit_vectors
from ..protocol import Request, Tick, blocks, check_stop, silent, stop_flag
from ..reference import SortedSignals
from . import remove_damaged_files
from .adjoint import derive
from .arguments import PADDING, RowGroup
from .engine import paired, prepared, run_tasks
from .plan import Plan, TaskCases
from .run import NumbaRun
from .sums import filter_sum
from .tables import OrderedSignals, SignalBlock
from .vectors import LINE_BYTES
from .way import KEPT, RowGradients, Way

remove_damaged_files(derive)

__all__ = ["paired", "prepared", "vjp", "vjp_paired"]

_PARTS = 8
"""Most threads for which tasks are cut, whatever the number of threads. More let more threads share
the work of few signals; fewer make tables of right cases less often. Chosen by reasoning."""

_PART_ENTRIES = 2_000_000
"""Least pixel pairs times layers of each part: 10 ms. More leave threads idle; fewer make more
tasks, at 1 ms of Python each."""

_GROUP_BYTES = 6400
"""Bytes of one quantity in a group of rows, as `plan._GROUP_BYTES`: four are kept of a layer."""

_NOISE = 4.0
"""Rounding units of D, in g, that w of proportional windows may be. Below, κ̄ counts as 0."""

_MOST_DOUBT = {"float64": 1.4e4, "float32": 25.0}
"""The sum of E² (doubt.py) over pixel pairs, over the root of their number, of a pair of signals.

κ̄ has the relative error eps E², and pixel pairs share a derivative. Pairs above go through the
reference engine. A larger number leaves larger errors; a smaller one repeats more pairs. Chosen by
reasoning: errors stay below 1e-11 (float64) and 1e-5 (float32) of the largest component.
"""


_NEAR = {"float64": 1e-10, "float32": 0.0}
"""The min(1 − ρ, 1 + ρ) of windows below which pairs of signals go through the reference engine.

√q1 − √q2 has a rounding error, which κ̄ multiplies by 1/θ; tables of float32 keep what rounding
took from roots. A larger number repeats more pairs of near copies. At this one the error is 1e-11.
"""

_PAIRS_AT_ONCE = 4096
"""Pairs that go through the reference engine together. More take more memory."""


_OWN_PAIRS = 64
"""Signals whose kernels with themselves go back together. More look at more pairs without weights;
fewer make more calls, at 2 ms of Python each. Chosen by reasoning."""


class GradientPlan(Plan):
    """The plan of kernels and their way back; all rows are closed, of any length.

    If not `every`, one pair of each left signal has a weight.
    """

    def __init__(
        self, request: Request, n_channels: int, rows: Any, columns: Any, every: bool
    ) -> None:
        super().__init__(replace(request, threads=_PARTS), n_channels, True, rows, columns)
        threads = request.threads or numba.config.NUMBA_NUM_THREADS
        self.workers = min(threads, self.workers)
        entries = self.pixel_pairs * self.depth // (1 if every else len(columns))
        parts = entries // _PART_ENTRIES
        self.threads = max(1, min(self.threads, parts))
        network, n_axes = request.network, 1 if self.width == 1 else 2
        self.input_filter = filter_sum(network.input_filter_size, n_axes)
        self.segment, self.closed_rows, self.margin = self.longest, True, 0
        reach = longest_reach(network, self.depth, self.ring // self.width)
        reach = max(reach, network.filter_size // 2, network.input_filter_size // 2)
        self.halo = reach * self.width

    @property
    def _numbers_in_group(self) -> int:
        return max(1, min(_GROUP_BYTES // self.dtype.itemsize, self._numbers_of_tables))

    def group_rows(self, total: int, pixels: int) -> int:
        """Return the rows of a group: they fill lines, in which derivatives are added up."""
        line = LINE_BYTES // self.dtype.itemsize
        return max(1, -(-super().group_rows(total, pixels) // line)) * line

    def way(self, group: RowGroup, share: float, every: bool) -> tuple[RowGroup, Way]:
        """Return the group with memory for the way back, and its places there.

        `share` is the linear network's λ, and `every` is as in `Way`.
        """
        item = self.dtype.itemsize
        line = LINE_BYTES // item
        tables = self.depth + 1 + self.n_channels
        numbers = [*[1] * 7, tables, 2 * self.n_channels, 1, 1, 1, KEPT * self.depth]
        numbers += [max(1, self.input_filter.pieces)]
        begin = -(-len(group.memory) // line) * line
        *places, size = (begin + np.cumsum([0, *numbers]) * group.length).tolist()
        memory = np.zeros(size + line, self.dtype)
        memory = memory[-memory.ctypes.data % LINE_BYTES // item :][:size]
        scaling = self.scaling(self.longest)
        start, noise = 1.0 / (self.longest * scaling.offsets), float(np.finfo(self.dtype).eps)
        ntk, turns = self.request.kinds == ("ntk",), self.input_filter.size == 1
        way = Way._make([
            *places, filter_sum(1), self.input_filter, start, ntk, every, turns, share,
            _NOISE * noise, _NEAR[self.dtype.name], MOST_E[self.dtype.name],
        ])  # fmt: skip
        return group._replace(memory=memory), way


class _Sums(NamedTuple):
    """Results of a task."""

    left: SignalBlock
    right: SignalBlock
    numbers: np.ndarray  # (2, left case), as `Signals.by_numbers`
    of_left: np.ndarray
    of_right: np.ndarray  # (L + 1 + channels, pixels) of each side
    doubtful: np.ndarray  # (left case, right case), whether derivatives are not in the sums


class GradientRun(NumbaRun):
    """The kernels of a request and their derivatives; `factors` are of `pair_factors`.

    If not `every`, kernels of pairs without weights are not computed.
    """

    def __init__(
        self, plan: GradientPlan, lefts: Signals, rights: Signals, factors: Any, every: bool
    ) -> None:
        super().__init__(plan, len(lefts.scale), len(rights.scale))
        self.lefts, self.rights, (self.of_left, self.of_right) = lefts, rights, factors
        self._of_lefts = self._vectors(lefts)
        self._of_rights = self._of_lefts if rights is lefts else self._vectors(rights)
        self._every = every
        self._share = self.scaling.activation.constants.get("linear_share", 0.0)

    def derive(self, rows: SignalBlock, columns: SignalBlock, task: TaskCases) -> _Sums:
        """Compute a task of `values`, and return its sums of derivatives."""
        plan: Any = self.plan
        if plan.symmetric and rows.contains(task.columns):
            columns = rows  # whose tables are there
        left, right = rows.part(task.rows), columns.part(task.columns)
        n, m, d = len(left), len(right), plan.longest
        shift = right.cases.start - left.cases.start if plan.symmetric else n
        needed = np.tri(m, n, shift, dtype=bool).T
        pairs = self._pixel_pairs(left.lengths[:1], right.lengths)
        most = self.scaling.allowed_doubt(
            pairs, np.minimum(left.cancelled[:, None], right.cancelled)
        )
        group_rows = plan.group_rows(int(right.offsets.sum()), d)
        group, way = plan.way(plan.row_group(d, group_rows), self._share, self._every)
        rights = right.rows(np.arange(m), right.offsets, group_rows, 0)
        here = np.s_[left.cases, right.cases]
        weights = [np.where(needed, each[here], 0.0) for each in (self.of_left, self.of_right)]
        doubtful = np.zeros((n, m), bool)
        for repeated in (False, True):
            results = self._results(
                n, left.lengths[:1], right.lengths, group_rows, most, self._no_values, 0, 0
            )
            gradients = self._gradients(left, right, weights)
            derive(
                left.packed("left"), right.packed("right"), left.left_cases(slice(0, d), plan),
                rights, shift, group, self.constants._replace(stop=stop_flag()), results, way,
                gradients,
            )  # fmt: skip
            check_stop()
            if repeated:
                break
            means = left.means_or_parts[:, :, None], right.means[:, None]
            kernels = self._kernels(results, pairs, *means)
            strict = _MOST_DOUBT[plan.dtype.name] * np.sqrt(pairs)
            doubtful = ((results.doubt > most) | (results.doubt > strict)) & needed
            if not doubtful.any():
                break
            weights = [np.where(doubtful, 0.0, each) for each in weights]
        self.repeat(kernels, results.doubt, most, pairs, needed, left, right)
        self.values[:, :, left.cases, right.cases] = kernels
        tables = gradients.left.shape[1]
        of_left = gradients.left.swapaxes(0, 1).reshape(tables, -1)
        of_right = self._folded(
            gradients.right[: tables * self._per_table(right)].reshape(tables, -1), right
        )
        by_alpha = (weights[0] * gradients.by_alpha).sum(axis=1)
        numbers = np.stack([by_alpha, np.zeros(n)])
        return _Sums(left, right, numbers, of_left, of_right, doubtful & needed)

    def _per_table(self, right: SignalBlock) -> int:
        """Return the numbers of a right table."""
        return (len(right.packed("right").inverse) - PADDING) // (self.plan.depth + 1)

    def _gradients(
        self, left: SignalBlock, right: SignalBlock, weights: list[np.ndarray]
    ) -> RowGradients:
        """Return arrays for a task, with the pixels of its signals."""
        n, m, d = len(left), len(right), self.plan.longest
        channels, per_table = len(self.lefts.pixels), self._per_table(right)
        tables = self.plan.depth + 1 + channels
        own, other = self._of_lefts[..., left.cases], self._of_rights[..., right.cases]
        parts = [np.concatenate(right.right_layout(part), axis=-1) for part in other]
        other = np.stack([part.reshape(channels, per_table) for part in parts], axis=1)
        return RowGradients(
            left_weights=weights[0],
            right_weights=weights[1],
            left=np.zeros((n, tables, d)),
            right=np.zeros(tables * per_table),
            by_alpha=np.zeros((n, m)),
            left_pixels=np.ascontiguousarray(own.transpose(3, 1, 2, 0)),
            right_pixels=np.append(other, np.zeros(PADDING, other.dtype)),
        )

    def _vectors(self, signals: Signals) -> np.ndarray:
        """Return the vectors of a side as sums of two numbers, (2, channels, d, cases)."""
        if self.scaling.input_filter.size == 1:
            vectors, rests, _ = exact_unit_vectors(signals.pixels)
        else:
            vectors, rests = signals.vectors(slice(None))
        high = np.asarray(vectors).astype(self.plan.dtype)
        low = ((vectors - high) + rests).astype(self.plan.dtype)
        channels, cases = len(high), len(signals.scale)
        return np.stack([high, low]).reshape(2, channels, cases, -1).swapaxes(2, 3)

    def _folded(self, sums: np.ndarray, right: SignalBlock) -> np.ndarray:
        """Return sums over right tables, (table, …), as (table, pixels)."""
        width, d, m = self.plan.width, self.plan.longest, len(right)
        if not self.plan.all_offsets:
            return sums.reshape(len(sums), d, m).swapaxes(1, 2).reshape(len(sums), -1)
        height = d // width
        sums = sums.reshape(len(sums), m, 2 * height - 1, 2 * width - 1).copy()
        sums[:, :, : height - 1] += sums[:, :, height:]
        sums[..., : width - 1] += sums[..., width:]
        return sums[:, :, :height, :width].reshape(len(sums), -1)


def vjp(
    request: Request,
    X: Batch,
    Z: Batch | None,
    weights: np.ndarray,
    roots: tuple[np.ndarray, np.ndarray] | None,
    tick: Tick,
    every: bool = True,
) -> Derivatives:
    """Return the same as `gradients.vjp`; kernels without weights only if `every`."""
    rows = OrderedSignals(X)
    columns = rows if Z is None else OrderedSignals(Z)
    plan = GradientPlan(request, rows.n_channels, rows.lengths, columns.lengths, every)
    lefts = Signals(SortedSignals(X, plan.scaling))
    rights = lefts if Z is None else Signals(SortedSignals(Z, plan.scaling))
    if Z is None:  # tasks give both sides of the pairs above the diagonal
        weights = np.triu(weights) + np.tril(weights, -1).T
    *factors, power = pair_factors(weights, lefts.scale, rights.scale, roots)
    run = GradientRun(plan, lefts, rights, factors, every)
    doubtful, depth = np.zeros(weights.shape, bool), plan.depth

    def take(sums: _Sums) -> None:
        doubtful[sums.left.cases, sums.right.cases] = sums.doubtful
        by_variances, by_pixels = np.split(sums.of_left, [depth + 1])
        lefts.add(sums.left.cases, by_variances, by_pixels, sums.numbers)
        rights.add(sums.right.cases, *np.split(sums.of_right, [depth + 1]))
        tick(sums.doubtful.size)

    run_tasks(plan, rows, columns, run.derive, take)
    kernel = run.finish(rows, columns, plan.symmetric)
    (kind,) = request.kinds
    sure = [np.where(doubtful, 0.0, factor) for factor in factors]
    add_means(run.scaling, kind, lefts, rights, *sure)
    found = derivatives(run.scaling, kernel, lefts, rights, power, roots is not None)
    _add_pairs(found, request, X, X if Z is None else Z, weights, roots, doubtful)
    return found


def vjp_paired(
    request: Request, X: Any, weights: np.ndarray, tick: Tick
) -> tuple[list[np.ndarray], np.ndarray]:
    """Return the same as `gradients.vjp_paired`."""
    gradients: list[np.ndarray] = []
    numbers = np.zeros(2)
    for some in blocks(0, len(X), _OWN_PAIRS):
        ones = np.ones(len(X[some]))
        found = vjp(request, X[some], None, np.diag(weights[some]), (ones, ones), silent, False)
        gradients += found.left
        numbers += found.numbers[0].sum(axis=1)
        tick(len(ones))
    return gradients, numbers


def _add_pairs(
    found: Derivatives, request: Request, X: Any, Z: Any, weights: np.ndarray, roots: Any,
    pairs: np.ndarray,
) -> None:  # fmt: skip
    """Add the derivatives of some pairs: float32's from float64, float64's from the reference."""
    lefts, rights = np.nonzero(pairs)
    if request.dtype == "float32" and len(lefts):
        i, k = np.unique(lefts), np.unique(rights)
        some_weights = np.where(pairs, weights, 0.0)[np.ix_(i, k)]
        request, own = replace(request, dtype="float64"), roots and (roots[0][i], roots[1][k])
        _add(found, vjp(request, X[i], Z[k], some_weights, own, silent, False), i, k)
        return
    for some in blocks(0, len(lefts), _PAIRS_AT_ONCE):
        i, k = lefts[some], rights[some]
        own = roots and (roots[0][i], roots[1][k])
        _add(found, reference.vjp_of_pairs(request, X[i], Z[k], weights[i, k], own, silent), i, k)


def _add(found: Derivatives, more: Derivatives, lefts: np.ndarray, rights: np.ndarray) -> None:
    """Add derivatives by the signals that are `lefts` and `rights` of the others' signals."""
    for side, to, numbers, cases, power, wanted in zip(
        (more.left, more.right), (found.left, found.right), more.numbers, (lefts, rights),
        more.power, found.power, strict=True,
    ):  # fmt: skip
        total = found.numbers[-1 if to is found.right else 0]
        for case, gradient, number in zip(cases, side, numbers.T, strict=True):
            to[case] = to[case] + np.ldexp(gradient, power - wanted)
            total[:, case] += np.ldexp(number, power - wanted)
