"""Derivatives of weighted sums of kernels in the engine "numba" (engines/derivatives.py).

Tasks depend on the shapes alone, and their sums are added in order: results have the same bits for
any number of threads. Pairs that lose digits in distances go through deficits, in float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ...arrays import Batch
from ..derivatives import Derivatives, Signals, WeightedPairs
from ..doubt import MOST_E
from ..geometry import first_places
from ..masses import exact_unit_vectors
from ..protocol import Request, Tick, blocks, check_stop, silent, stop_flag
from ..scaling import Scaling
from . import remove_damaged_files
from .arguments import PADDING, RowGroup
from .engine import run_tasks
from .gradient_rows import derive
from .plan import Plan, TaskCases
from .run import NumbaRun
from .sums import filter_sum
from .tables import NumbaSignals, SignalBlock
from .tape import BY_INPUT, KEPT, ROOTS, RowGradients, Tape
from .vectors import LINE_BYTES

remove_damaged_files(derive)

_PARTS = 8
"""Most threads for which tasks are cut, whatever the number of threads. More let more threads share
the work of few signals; fewer make tables of right cases less often. Chosen by reasoning."""

_PART_ENTRIES = 8_000_000
"""Least pixel pairs times layers of each part: 30 ms. More leave threads idle; fewer make more
tasks, at 2 ms of Python each: with 2 million, 24 × 24 signals took 7 % more time in float32."""

_NOISE = 4.0
"""Rounding units of D, in g, that w of proportional windows may be. Below, κ̄ counts as 0."""


class Limits(NamedTuple):
    """Limits of the pairs of signals that go through distances. Pairs above go in deficits."""

    doubt: float
    """The sum of E² (doubt.py) over pixel pairs, over the root of their number.

    κ̄ has the relative error eps E², and pixel pairs share a derivative. A larger number leaves
    larger errors; a smaller one repeats more pairs."""

    near: float
    """The min(1 − ρ, 1 + ρ) of windows. √q1 − √q2 has a rounding error, which κ̄ multiplies by 1/θ;
    tables of float32 keep what rounding took from roots. A larger number repeats more pairs of near
    copies."""

    first: float
    """The mean of 1/√min(1 − ρ, 1 + ρ) over pixel pairs of layer 1, where it has windows or biases.

    The w of float32's vectors errs by eps √w, and κ̄ by eps/√w. A larger number leaves larger
    errors; a smaller one repeats more pairs of few channels. Chosen: random signals have 5, copies
    at a distance of .001 have 1400. Float64 keeps to `near`."""

    also_kernels: bool = True
    """Whether pairs also keep to the doubt that their kernels may have."""


LIMITS = {"float64": Limits(1.4e6, 1e-10, math.inf), "float32": Limits(25.0, 0.0, 25.0)}
"""Measured on 19 families of signals, three of them real, with seven networks.

A hundredth of float64's doubt would save errors of at most 4e-12 of the largest component. With 100
times as much, errors on normalized kernels of smooth signals reach 1e-10.
"""

FOR_FLOAT32 = Limits(1.4e10, 1e-22, math.inf, also_kernels=False)
"""The limits of float64 for derivatives that float32 asks for: errors stay below some 1e-6."""

_OWN_PAIRS = 64
"""Signals whose kernels with themselves go back together. More look at more pairs without weights;
fewer make more calls, at 2 ms of Python each. Chosen by reasoning."""


def plan_of(request: Request, rows: NumbaSignals, columns: NumbaSignals, every: bool) -> Plan:
    """Return the plan of derivatives. If not `every`, one pair of each signal has a weight."""
    entries = request.depths[-1] * int(rows.lengths.sum())
    if request.head == "gap":
        entries *= int(columns.lengths.sum()) // (1 if every else len(columns.lengths))
    elif every:
        entries *= len(columns.lengths)
    parts = max(1, min(_PARTS, entries // _PART_ENTRIES))
    closed = rows.closed and columns.closed
    return Plan(request, rows.n_channels, closed, rows.lengths, columns.lengths, parts=parts)


def with_tape(
    plan: Plan, group: RowGroup, scaling: Scaling, limits: Limits, in_deficits: bool = False
) -> tuple[RowGroup, Tape]:  # fmt: skip
    """Return the group with memory for the tape, and its places there."""
    item, request = plan.dtype.itemsize, plan.request
    line, network = LINE_BYTES // item, request.network
    input_filter = filter_sum(network.input_filter_size, 1 if plan.width == 1 else 2)
    tables, vectors = plan.depth + 1 + plan.n_channels, 2 * plan.n_channels
    per_layer = KEPT + in_deficits * ROOTS
    rings = dict.fromkeys(Tape._fields[: Tape._fields.index("per_layer")], 1) | {
        "right": tables,
        "left": in_deficits * tables,
        "right_pixels": vectors,
        "left_pixels": in_deficits * vectors,
        "input_roots": in_deficits * ROOTS,
        "kept": per_layer * plan.depth,
        "by_input": BY_INPUT,
        "room": 2 * max(1, input_filter.pieces, plan.outer.pieces),
    }
    begin = -(-len(group.memory) // line) * line
    *places, size = (begin + np.cumsum([0, *rings.values()]) * group.length).tolist()
    memory = np.zeros(size + line, plan.dtype)
    memory = memory[-memory.ctypes.data % LINE_BYTES // item :][:size]
    one_pixel = request.head == "equivariant"
    soft = limits.doubt / (limits.first * math.sqrt(1 if one_pixel else plan.pairs_of_longest))
    turned = turns(request)
    windows = "ntk" in request.kinds and not turned
    noise = _NOISE * float(np.finfo(plan.dtype).eps)
    return group._replace(memory=memory), Tape(
        **dict(zip(rings, places, strict=True)),
        per_layer=per_layer,
        single=filter_sum(1),
        input=input_filter,
        everywhere=plan.closed_rows and not one_pixel,
        one_pixel=one_pixel,
        readout=network.parts.readout,
        turns=turned,
        share=scaling.activation.constants.get("linear_share", 0.0),
        noise=scaling.tied**2 if in_deficits else noise,
        near=limits.near,
        near_first=(limits.near or soft * soft) if windows else 0.0,  # `soft` squared: E is 1
        soft=soft,
        most_doubt=MOST_E[plan.dtype.name],
    )


def turns(request: Request) -> bool:
    """Return whether derivatives turn unit vectors of pixels (`layer.input_adjoint`)."""
    return request.network.input_filter_size == 1 and not request.network.bias


class GradientRun(NumbaRun):
    """The derivatives of a request's kernels."""

    def __init__(self, plan: Plan, pairs: WeightedPairs, limits: Limits) -> None:
        super().__init__(plan, 0, 0)
        self.limits = limits
        layers = self.constants.layers.copy()
        layers["slot"] = -1  # no layer has results
        self.constants = self.constants._replace(layers=layers)
        self.sides, self.factors = [pairs.lefts, pairs.rights], pairs.factors
        of_lefts = self._vectors(pairs.lefts)
        same = pairs.rights is pairs.lefts
        self._of_sides = [of_lefts, of_lefts if same else self._vectors(pairs.rights)]

    def derive(self, rows: SignalBlock, columns: SignalBlock, task: TaskCases) -> tuple[Any, ...]:
        """Return a task's sums of derivatives.

        For the sides of X and of Z the cases and derivatives, (L + 1 + channels, pixels); then
        `Signals.by_numbers`, (2, case of X); then whether the sums lack a pair's derivatives, (case
        of X, case of Z): float32 leaves doubtful pairs out, float64 computes them in deficits.
        """
        plan = self.plan
        if plan.symmetric and rows.contains(task.columns):
            columns = rows  # whose tables are there
        left, right = rows.part(task.rows), columns.part(task.columns)
        cases, sides, vectors = np.s_[left.cases, right.cases], self.sides, self._of_sides
        weights = [factor[:, *cases] for factor in self.factors]
        if task.swapped:
            left, right = right, left
            sides, vectors = sides[::-1], vectors[::-1]
            weights = [w.swapaxes(1, 2) for w in weights[::-1]]
        n, m = len(left), len(right)
        shift = right.cases.start - left.cases.start if plan.symmetric else n
        needed = np.tri(m, n, shift, dtype=bool).T
        lefts, d = left.left_cases(slice(0, plan.longest), plan), int(left.lengths[0])
        pairs = self._pixel_pairs(self.left_lengths(left), right.lengths)[lefts["length"]]
        pixels = d + 2 * plan.margin
        line = LINE_BYTES // plan.dtype.itemsize  # rows fill lines: derivatives are added up there
        group_rows = -(-plan.group_rows(int(right.offsets.sum()), pixels) // line) * line
        group, tape = with_tape(plan, plan.row_group(pixels, group_rows), self.scaling, self.limits)
        rights = right.rows(np.arange(m), right.offsets, group_rows, 0)
        terms = 1 if tape.one_pixel else pairs
        most = np.full(pairs.shape, self.limits.doubt * np.sqrt(terms))
        if self.limits.also_kernels:
            most = np.minimum(most, self.allowed_doubt(left, right, pairs))
        weights = [np.where(needed, each / terms, 0.0) for each in weights]
        vectors = [
            side[:, signals.places(block.cases)]
            for side, signals, block in zip(vectors, sides, (left, right), strict=True)
        ]
        layout, doubtful, certain = self._right_layout(right), np.zeros((n, m), bool), weights
        placed = [vectors[0], vectors[1][:, layout]]
        while True:  # the second time without doubtful pairs
            results = self.results(left, right, group_rows, most)
            sums = self._sums(certain, placed, (0, _first(right)))
            derive(
                left.packed("left"), right.packed("right"), lefts, rights, shift, group,
                constants=self.constants._replace(stop=stop_flag()), results=results, tape=tape,
                gradients=sums._replace(begins=first_places(left.lengths)),
            )  # fmt: skip
            check_stop()
            weighted = ((certain[0] != 0.0) | (certain[1] != 0.0)).any(axis=0)
            doubted = (results.doubt[0] > most) & weighted
            if not doubted.any():
                break
            doubtful |= doubted
            certain = [np.where(doubtful, 0.0, each) for each in weights]
        found = sums.left, _by_pixels(sums.right, layout), np.where(doubtful, 0.0, sums.by_numbers)
        if plan.dtype == np.float64 and doubtful.any():
            self._add_in_deficits(left, right, doubtful, weights, vectors, found)
            doubtful[:] = False
        of_sides = [(left.cases, found[0]), (right.cases, found[1])]
        numbers = weights[task.swapped][:, None] * found[2]
        numbers = numbers.sum(axis=0).sum(axis=1 + (not task.swapped))
        if task.swapped:
            return of_sides[::-1], numbers, doubtful.T
        return of_sides, numbers, doubtful

    def _sums(
        self, weights: list[np.ndarray], vectors: list[np.ndarray], firsts: tuple[int, int]
    ) -> RowGradients:
        """Return sums, 0 at first, of pairs with `weights` by either side.

        `vectors` are of both sides, and `firsts` the places of the first ones in the rows' tables.
        """
        plan, (n_left, n_right) = self.plan, (side.shape[1] for side in vectors)
        tables = plan.depth + 1 + plan.n_channels
        padding = np.zeros(PADDING, plan.dtype)
        left_pixels, right_pixels = (np.append(side, padding) for side in vectors)
        return RowGradients(
            left_weights=weights[0],
            right_weights=weights[1],
            ntk=np.array([kind == "ntk" for kind in plan.request.kinds]),
            left=np.zeros((tables, n_left)),
            right=np.zeros((tables, n_right)),
            by_numbers=np.zeros((len(weights[0]), 2, *weights[0].shape[1:])),
            left_pixels=left_pixels,
            right_pixels=right_pixels,
            begins=np.zeros(1, np.int64),
            first_left=firsts[0],
            n_channels=plan.n_channels,
            n_left=n_left,
            n_right=n_right,
            first_right=firsts[1],
        )

    def _add_in_deficits(
        self, left: SignalBlock, right: SignalBlock, doubtful: np.ndarray,
        weights: list[np.ndarray], vectors: list[np.ndarray], found: tuple[np.ndarray, ...],
    ) -> None:  # fmt: skip
        """Add the derivatives of doubtful pairs, (left case, right case), to a task's sums.

        These are by the left and by the right pixels, and by the numbers of each pair.
        """
        plan, lefts, rights = self.plan, *np.nonzero(doubtful)
        layouts = [self._right_layout(block) for block in (left, right)]
        placed = [side[:, layout] for side, layout in zip(vectors, layouts, strict=True)]
        firsts = _first(left), _first(right)
        for some in plan.repeats(left.lengths[lefts], right.lengths[rights]):
            i, k = lefts[some], rights[some]
            offsets, d = plan.offsets(right.lengths[k]), int(left.lengths[i[0]])
            pixels = d + 2 * plan.margin
            group_rows = plan.group_rows_of_deficits(int(offsets.sum()), pixels)
            group, tape = with_tape(
                plan, plan.row_group(pixels, group_rows, in_deficits=True), self.scaling,
                self.limits, in_deficits=True,
            )  # fmt: skip
            of_pairs = [np.ascontiguousarray(each[:, None, i, k]) for each in weights]
            sums = self._sums(of_pairs, placed, firsts)
            derive(
                left.packed("exact masses"), right.packed("exact masses"),
                left.left_cases(slice(0, plan.longest), plan)[i[:1]],
                right.rows(k, offsets, group_rows, 0), 0, group,
                constants=self.constants_of_deficits._replace(stop=stop_flag()),
                results=self.results_of_pairs(left, right, i, k, group_rows), tape=tape,
                gradients=sums, pairs=left.rows(i, offsets, group_rows, 0, right=False),
            )  # fmt: skip
            check_stop()
            for whole, part, layout in zip(found, (sums.left, sums.right), layouts, strict=False):
                whole += _by_pixels(part, layout)
            found[2][:, :, i, k] = sums.by_numbers[:, :, 0]

    def _right_layout(self, right: SignalBlock) -> np.ndarray:
        """Return the place of each number of a right table among all pixels of the right cases."""
        parts, first = [], 0
        for d in np.unique(-right.lengths):
            cases = int((right.lengths == -d).sum())
            pixels = np.arange(first, first - cases * d).reshape(1, cases, -d).swapaxes(1, 2)
            parts.append(np.concatenate(right.right_layout(pixels), axis=-1).ravel())
            first -= cases * d
        return np.concatenate(parts)

    def _vectors(self, signals: Signals) -> np.ndarray:
        """Return the vectors of a side as sums of two numbers, (2 · channels, pixels)."""
        if turns(self.request):
            vectors, rests, _ = exact_unit_vectors(signals.pixels)
        else:
            vectors, rests = signals.vectors(slice(None))
        high = np.asarray(vectors).astype(self.plan.dtype)
        low = ((vectors - high) + rests).astype(self.plan.dtype)
        return np.stack([high, low], axis=1).reshape(2 * len(high), -1)


def vjp(
    request: Request, X: Batch, Z: Batch | None, weights: Sequence[np.ndarray], roots: Any,
    tick: Tick, every: bool = True, limits: Limits | None = None,
) -> Derivatives:  # fmt: skip
    """Return the same as `derivatives.vjp`, of weights (left, right case) of each kind.

    If not `every`, one pair of each signal has a weight. `limits` take the place of the precision's
    own.
    """
    rows = NumbaSignals(X)
    columns = rows if Z is None else NumbaSignals(Z)
    if request.head == "gap" and rows.closed and columns.closed and len(X) < len(columns.order):
        swapped = [w.T for w in weights], roots and [of_kind[::-1] for of_kind in roots]
        # This way tables have fewer right rows.
        sums = vjp(request, columns.batch, X, *swapped, tick, every=every, limits=limits)
        return sums._replace(sides=sums.sides[::-1])
    plan = plan_of(request, rows, columns, every)
    sides = [rows] if Z is None else [rows, columns]
    pairs = WeightedPairs(sides, plan.scaling, weights, roots)
    run = GradientRun(plan, pairs, limits or LIMITS[request.dtype])
    doubtful, depth = np.zeros(weights[0].shape, bool), plan.depth

    def take(sums: tuple[Any, ...]) -> None:
        ((left_cases, of_left), (right_cases, of_right)), numbers, doubted = sums
        doubtful[left_cases, right_cases] = doubted
        by_variances, by_pixels = np.split(of_left, [depth + 1])
        pairs.lefts.add(left_cases, by_variances, by_pixels, numbers)
        pairs.rights.add(right_cases, *np.split(of_right, [depth + 1]))
        tick(doubted.size)

    run_tasks(plan, rows, columns, run.derive, take)
    pairs.leave_out(doubtful)
    pairs.add_means(run.scaling, request.kinds)
    sums = pairs.derivatives(run.scaling)
    _add_doubtful(sums, request, (rows, columns), pairs, doubtful)
    return sums


def vjp_paired(request: Request, X: Any, weights: Sequence[np.ndarray]) -> Derivatives:
    """Return the same as `derivatives.vjp_paired`."""
    gradients: list[np.ndarray] = []
    numbers = np.zeros(2)
    for some in blocks(0, len(X), _OWN_PAIRS):
        ones = np.ones(len(X[some]))
        diagonals, roots = [np.diag(each[some]) for each in weights], [(ones, ones)] * len(weights)
        sums = vjp(request, X[some], None, diagonals, roots, silent, every=False)
        gradients += sums.sides[0]
        numbers += sums.numbers
    return Derivatives([gradients], numbers)


def _add_doubtful(
    sums: Derivatives, request: Request, sides: tuple[NumbaSignals, NumbaSignals],
    pairs: WeightedPairs, doubtful: np.ndarray,
) -> None:  # fmt: skip
    """Add the derivatives of pairs that float32 leaves out, from float64.

    Signals are numbered by their places in order.
    """
    (rows, columns), (lefts, rights) = sides, np.nonzero(doubtful)
    if len(lefts) == 0:
        return
    i, k = np.unique(lefts), np.unique(rights)
    weights = [of_kind[np.ix_(i, k)] for of_kind in np.where(doubtful, pairs.weights, 0.0)]
    roots = pairs.roots and [(left[i], right[k]) for left, right in pairs.roots]
    more = vjp(
        replace(request, dtype="float64"), rows.some(i), columns.some(k), weights, roots, silent,
        every=False, limits=FOR_FLOAT32,
    )  # fmt: skip
    sums.add(more, rows.order[i], columns.order[k])


def _first(block: SignalBlock) -> int:
    """Return where the first case begins in right tables."""
    one = np.ones(1, np.int64)
    return int(block.rows(0 * one, one, 1, 0).each["begin"][0])


def _by_pixels(sums: np.ndarray, layout: np.ndarray) -> np.ndarray:
    """Return the sums of right tables at each pixel (`GradientRun._right_layout`)."""
    return np.stack([np.bincount(layout, of_table) for of_table in sums])
