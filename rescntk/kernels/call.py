"""`KernelCall`: from checked arguments to an engine's plan, and from its kernels to results."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

from .. import engines
from ..arrays import Array, Batch, SignalList, channels_and_length, images_as_signals
from ..engines.engine import EngineSignals, Plan
from ..engines.request import ScaledKernel
from ..memory import check_free_memory, is_always_free
from .arguments import Arguments
from .prepared import PreparedSignals
from .progress import progress_bar
from .results import Results, correlation

_FEW_NUMBERS = 1 << 16
"""The largest number of pixels times layers of X for which a normalized kernel keeps the tables.

Normalized kernels need the tables of X twice, for K(x, x) and for K(x, z). At this number they take
5 MB. A larger number needs more memory; with a smaller one, calls of a few signals make tables
twice.
"""


@contextmanager
def default_errors() -> Iterator[None]:
    """Handle floating-point errors as NumPy does by default. It is also a decorator.

    In the engines underflow is ordinary, so that ``np.errstate(all="raise")`` must not stop them.
    """
    with np.errstate(divide="warn", over="warn", under="ignore", invalid="warn"):
        yield


class KernelCall:
    """A call, with the engine that computes it.

    `left` and `right` are X and Z, or their prepared tables, which cost the engine least. `right`
    is None if Z is X.
    """

    def __init__(self, arguments: Arguments) -> None:
        self.arguments, self.request = arguments, arguments.request
        self.engine = engines.choose(arguments.engine, self.request, arguments.X)
        self.results, self.prepared = Results(arguments), arguments.prepared
        self.left: EngineSignals = arguments.X
        self.right: EngineSignals | None = arguments.Z
        if self.prepared is None:
            return
        self.prepared.check_engine(self.engine)
        if self.prepared.has_lists != isinstance(self.left, SignalList):
            self.prepared = None  # lists and arrays have tables of their own
        elif self.right is None:
            self.left = self.prepared.tables
        elif not self.request.shares:
            self.right = self.prepared.tables

    def plan(self, left: EngineSignals, right: EngineSignals | None, paired: bool = False) -> Plan:
        """Return the engine's plan, or raise a MemoryError if it exceeds the free memory."""
        request = self.request
        if paired and request.shares:
            request = replace(request, shares=False)
        plan = self.engine.plan(request, left, right, paired)
        _check_memory(plan, self.results)
        return plan

    def kernels(self) -> dict[str, Array]:
        """Return, for each kind, the kernels of each case of X with each case of Z.

        Their shape is (depths, n, m, …).
        """
        left = self.left
        if self.arguments.normalized and self.right is not None:
            left = self.left_for_two_plans()
        return self._compute_plan(self.plan(left, self.right), left)

    def paired_kernels(self) -> dict[str, Array]:
        """Return, for each kind, the kernels of the cases with the same index, (depths, n)."""
        return self._compute_plan(self.plan(self.left, self.right, paired=True), self.left)

    def _compute_plan(self, plan: Plan, left: EngineSignals) -> dict[str, Array]:
        """Compute a plan for the signals `left`, and return its results for each kind."""
        normalized = self.arguments.normalized
        diagonals = None if self.right is None else cache(partial(self.diagonals, left))
        if diagonals is not None and normalized:
            diagonals()  # computed before the values of pairs need memory
        scaled = self._computed(plan, "signal" if plan.paired and self.right is None else "pair")
        del plan  # frees its tables
        to_results = self.results.normalize if normalized else self.results.unscale
        return {kind: to_results(scaled, kind, diagonals) for kind in self.request.kinds}

    def _computed(self, plan: Plan, unit: str) -> ScaledKernel:
        """Compute a plan, with a progress bar of its signal pairs if the caller asked for it."""
        n, m = plan.shape
        pairs = n * (n + 1) // 2 if plan.symmetric else n * m
        with progress_bar(self.arguments.progress, pairs, unit) as tick:
            return plan.compute(tick)

    def left_for_two_plans(self) -> EngineSignals:
        """Return `left` for K(x, x) and K(x, z): with its tables if they are small."""
        if self.left is not self.arguments.X or self.request.shares:
            return self.left
        X = self.arguments.X
        pixels = len(X) * channels_and_length(X)[1]
        if pixels * (self.request.depths[-1] + 1) > _FEW_NUMBERS:
            return X
        with_tables: EngineSignals = self.engine.with_tables(self.request, X)
        return with_tables

    def diagonals(self, left: EngineSignals) -> tuple[ScaledKernel, ScaledKernel]:
        """Return the kernels of each signal with itself, of `left` and of Z."""
        left_diagonal = self._diagonal(left)
        right_diagonal = None if self.prepared is None else self.prepared.diagonal
        if right_diagonal is None:
            right_diagonal = left_diagonal if self.right is None else self._diagonal(self.right)
        return left_diagonal, right_diagonal

    def _diagonal(self, signals: EngineSignals) -> ScaledKernel:
        return self.plan(signals, None, paired=True).compute()

    def prepare(self, source: Any) -> PreparedSignals:
        """Return copies of X with the engine's tables, which other calls take as Z.

        `source` is X as the caller gave it.
        """
        X, pixel_shape = self.arguments.X, self.arguments.pixel_shape
        batch: Batch
        signals: Batch
        if isinstance(X, SignalList):
            batch = signals = SignalList([signal.copy() for signal in X])
        else:
            signals = X.copy()
            batch = signals.reshape(*signals.shape[:2], *pixel_shape)
            if isinstance(source, (list, tuple, SignalList)) and len(pixel_shape) == 1:
                batch = SignalList.of(signals)  # calls may combine it with signals of other lengths
        tables = self.engine.with_tables(self.request, signals)
        plan = self.plan(tables, None, paired=True)  # refuses signals that do not fit into memory
        diagonal = plan.compute() if self.arguments.normalized else None
        return PreparedSignals(
            batch=batch,
            source=source,
            signals=signals,
            tables=tables,
            diagonal=diagonal,
            request=self.request,
            dtype=self.arguments.dtype,
            engine=self.engine,
        )


@default_errors()
def mean_of_normalized(X: Array, Z: PreparedSignals) -> Array:
    """Return the normalized kernels of X and Z, averaged over kinds and depths, (n, m).

    X must be a finite float64 array with the channels and pixels of the array of Z, because it is
    not checked.
    """
    arguments = Arguments(
        request=Z.request,
        X=images_as_signals(X),
        Z=Z.signals,
        pixel_shape=X.shape[2:],
        depths=Z.request.depths,
        dtype=Z.dtype,
        normalized=True,
        engine=Z.engine.name,
        progress=False,
        prepared=Z,
    )
    call = KernelCall(arguments)
    left = call.left_for_two_plans()
    X_diagonal, Z_diagonal = call.diagonals(left)
    values = call.plan(left, call.right).compute().values
    kernels = [
        correlation(K, X_diagonal.values[kind], Z_diagonal.values[kind])
        for kind, K in values.items()
    ]
    return sum(kernels[1:], start=kernels[0]).mean(axis=0) / len(kernels)


def _check_memory(plan: Plan, results: Results) -> None:
    """Raise a MemoryError if the results, or the tables of a plan, exceed the free memory."""
    result_bytes, plan_bytes = results.peak_bytes(math.prod(plan.result_shape)), plan.peak_bytes
    if is_always_free(max(result_bytes, plan_bytes)):
        return
    request, network = plan.request, plan.request.network
    kinds, n_depths = " and ".join(map(str.upper, request.kinds)), len(results.depth_indices)
    shape = " × ".join(map(str, plan.result_shape))
    check_free_memory(
        result_bytes,
        f"the {kinds}, {shape} numbers{f', at {n_depths} depths,' * (n_depths > 1)}",
        "give fewer signals, kinds or depths at a time: gram(network, X[:k], X) has k rows",
        plan.room_for_results,
    )
    names = "filter_size", "outer_filter_size", "input_filter_size"
    size = max(max(network.values_of(name)) for name in names)
    check_free_memory(
        plan_bytes,
        f"depth {request.depths[-1]} for signals of {max(plan.lengths)} timepoints and filters of "
        f"{size}",
        "give a smaller depth, shorter filters or signals",
    )
