"""`KernelCall`: checked arguments on their way through an engine to results."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
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
"""Pixels times layers of X up to which its tables serve for two passes, of a normalized kernel.

More take more memory, 5 MB at this number; with fewer, a call of few signals makes them twice.
"""


@contextmanager
def default_errors() -> Iterator[None]:
    """Compute under NumPy's default handling of floating-point errors; also a decorator.

    Underflow is ordinary in the engines: ``np.errstate(all="raise")`` must not stop them.
    """
    with np.errstate(divide="warn", over="warn", under="ignore", invalid="warn"):
        yield


class KernelCall:
    """A call with the engine that computes it.

    `left` and `right` are X and Z in the form that the engine takes at least cost; `right` is None
    where Z is X.
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
        """Return the kernels by kind, of each case of X with each of Z: (depths, n, m, …)."""
        if self.arguments.normalized and self.right is not None:
            self._keep_few_tables()
        return self._results(self.plan(self.left, self.right))

    def paired_kernels(self) -> dict[str, Array]:
        """Return the kernels by kind, of each case of X with the same case of Z: (depths, n)."""
        return self._results(self.plan(self.left, self.right, paired=True))

    def _results(self, plan: Plan) -> dict[str, Array]:
        normalized = self.arguments.normalized
        diagonals = None if self.right is None else cache(self.diagonals)
        if diagonals is not None and normalized:
            diagonals()  # before the values of pairs take memory
        scaled = self._computed(plan, "signal" if plan.paired and self.right is None else "pair")
        del plan  # with its tables
        to_results = self.results.normalize if normalized else self.results.unscale
        return {kind: to_results(scaled, kind, diagonals) for kind in self.request.kinds}

    def _computed(self, plan: Plan, unit: str) -> ScaledKernel:
        """Compute a plan, with a bar of its pairs."""
        n, m = plan.shape
        pairs = n * (n + 1) // 2 if plan.symmetric else n * m
        with progress_bar(self.arguments.progress, pairs, unit) as tick:
            return plan.compute(tick)

    def _keep_few_tables(self) -> None:
        """Hold the tables of X for two passes, if they are few."""
        if self.left is self.arguments.X and not self.request.shares:
            X = self.arguments.X
            pixels = len(X) * channels_and_length(X)[1]
            if pixels * (self.request.depths[-1] + 1) <= _FEW_NUMBERS:
                self.left = self.engine.with_tables(self.request, X)

    def diagonals(self) -> tuple[ScaledKernel, ScaledKernel]:
        """Return the kernels of each signal with itself, of X and of Z."""
        left = self._diagonal(self.left)
        right = None if self.prepared is None else self.prepared.diagonal
        if right is None:
            right = left if self.right is None else self._diagonal(self.right)
        return left, right

    def _diagonal(self, signals: EngineSignals) -> ScaledKernel:
        return self.plan(signals, None, paired=True).compute()

    def prepare(self, source: Any) -> PreparedSignals:
        """Return copies of X with the engine's tables, as Z of other calls.

        `source` is X as the caller gave it.
        """
        X, axes = self.arguments.X, self.arguments.axes
        batch: Batch
        signals: Batch
        if isinstance(X, SignalList):
            batch = signals = SignalList([signal.copy() for signal in X])
        else:
            signals = X.copy()
            batch = signals.reshape(*signals.shape[:2], *axes)
            if isinstance(source, (list, tuple, SignalList)) and len(axes) == 1:
                batch = SignalList.of(signals)  # lists of one length take other lengths too
        tables = self.engine.with_tables(self.request, signals)
        plan = self.plan(tables, None, paired=True)  # refuses signals beyond the memory
        diagonal = plan.compute() if self.arguments.normalized else None
        dtype = self.arguments.dtype
        return PreparedSignals(
            batch, source, signals, tables, diagonal, self.request, dtype, self.engine
        )


@default_errors()
def mean_of_normalized(X: Array, Z: PreparedSignals) -> Array:
    """Return the mean of the normalized kernels, of all kinds and depths, of X and Z: (n, m).

    X is a finite float64 array with the channels and pixels of the array of Z: nothing is checked.
    """
    arguments = Arguments(
        Z.request,
        images_as_signals(X),
        Z.signals,
        axes=X.shape[2:],
        depths=Z.request.depths,
        dtype=Z.dtype,
        normalized=True,
        engine=Z.engine.name,
        progress=False,
        prepared=Z,
    )
    call = KernelCall(arguments)
    call._keep_few_tables()
    of_X, of_Z = call.diagonals()
    values = call.plan(call.left, call.right).compute().values
    kernels = [correlation(K, of_X.values[kind], of_Z.values[kind]) for kind, K in values.items()]
    return sum(kernels[1:], start=kernels[0]).mean(axis=0) / len(kernels)


def _check_memory(plan: Plan, results: Results) -> None:
    """Raise a MemoryError if results, or what a plan holds beside them, exceed the free memory."""
    result_bytes, plan_bytes = results.bytes(math.prod(plan.result_axes)), plan.bytes
    if is_always_free(max(result_bytes, plan_bytes)):
        return
    request, network = plan.request, plan.request.network
    kinds, n_depths = " and ".join(map(str.upper, request.kinds)), len(results.order)
    axes = " × ".join(map(str, plan.result_axes))
    check_free_memory(
        result_bytes,
        f"the {kinds}, {axes} numbers{f', at {n_depths} depths,' * (n_depths > 1)}",
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
