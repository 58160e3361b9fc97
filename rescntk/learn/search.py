"""Search for the kernel that suits training signals: each Gram matrix computed once.

One pass of the recursion gives the GPK and the NTK at all depths. Each of these matrices is
judged by ridge regression's closed-form leave-one-out error, at every penalty from one
eigendecomposition; squared errors, because among few signals they discriminate where
counts of mistakes tie.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from ..kernels import Kernel, gram
from ..network import Network
from .readouts import RidgePath
from .views import FittedView, View, is_standard, shorten


@dataclass(frozen=True)
class Space:
    """What is searched, a tuple of values for each name; the rest is fixed."""

    standardize: tuple[bool, ...]
    slopes: tuple[bool, ...]
    constant: tuple[bool, ...]
    filter_size: tuple[int, ...]
    input_filter_size: tuple[int, ...]
    head: tuple[str, ...]
    kind: tuple[str, ...]
    depth: tuple[int, ...]
    normalized: tuple[bool, ...]
    penalty: tuple[float, ...]
    alpha: float = 1.0
    max_length: int | None = None

    def passes(self, X: np.ndarray) -> Iterator[Pass]:
        """Yield what has to be computed for such signals, leaving out what changes nothing.

        Those are standardizing signals that are (nearly) standardized, slopes of one time
        point, and input filters longer than the signals (unless there is no other).
        """
        short = shorten(X, self.max_length)
        standardize, slopes = self.standardize, self.slopes
        if len(standardize) > 1 and is_standard(short):
            standardize = (False,)
        if len(slopes) > 1 and short.shape[2] == 1:
            slopes = (False,)
        inputs = tuple(q for q in self.input_filter_size if q <= short.shape[2])
        for standard, slope, constant, size, window, head in product(
            standardize,
            slopes,
            self.constant,
            self.filter_size,
            inputs or (min(self.input_filter_size),),
            self.head,
        ):
            view = View(self.max_length, standard, slope, constant)
            network = Network(max(self.depth), size, input_filter_size=window, alpha=self.alpha)
            yield Pass(view, network, head)


class Pass(NamedTuple):
    """One run of the recursion: a view of the signals, the deepest network, a head."""

    view: View
    network: Network
    head: str


@dataclass(frozen=True)
class Candidate:
    """One kernel matrix, with the penalty that suits it best.

    ``error`` is the mean squared error of leaving one out, over cases and outputs.
    """

    standardize: bool
    slopes: bool
    constant: bool
    filter_size: int
    input_filter_size: int
    head: str
    kind: str
    depth: int
    normalized: bool
    penalty: float
    error: float


class Finalist(NamedTuple):
    """A candidate with all it takes to go on: view, kernel, signals as seen, matrix, path."""

    candidate: Candidate
    view: FittedView
    kernel: Kernel
    signals: np.ndarray
    K: np.ndarray
    path: RidgePath


class Found(NamedTuple):
    """All candidates in the order in which they were judged, and the best few, best first."""

    candidates: list[Candidate]
    finalists: list[Finalist]


def search(
    space: Space,
    X: np.ndarray,
    Y: np.ndarray,
    *,
    finalists: int = 1,
    verbose: int = 0,
    options: dict[str, Any],
) -> Found:
    """Judge every kernel of `space` on signals `X` with targets `Y` (n_cases, n_outputs).

    `options` are passed to `rescntk.gram`; `verbose` 1 prints a line at the end, 2 one for each
    pass.
    """
    candidates: list[Candidate] = []
    best: list[tuple[float, int, Finalist]] = []  # a heap with the worst on top
    begin = time.perf_counter()
    passes = list(space.passes(X))
    for number, (view, network, head) in enumerate(passes, 1):
        start = time.perf_counter()
        fitted = view.fit(X)
        signals = fitted(X)
        matrices = gram(
            network, signals, head=head, kinds=space.kind, depths=space.depth, **options
        )
        for kind, t, normalized in product(space.kind, range(len(space.depth)), space.normalized):
            K = getattr(matrices, kind)[t].astype(np.float64, copy=False)
            K = normalize(K) if normalized else K
            path = RidgePath(K, Y)
            error, penalty = min((path.error(penalty), penalty) for penalty in space.penalty)
            deep = network.replace(depth=space.depth[t])
            candidate = Candidate(
                **{k: v for k, v in asdict(view).items() if k != "max_length"},
                filter_size=network.filter_size,
                input_filter_size=network.input_filter_size,
                head=head,
                kind=kind,
                depth=deep.depth,
                normalized=normalized,
                penalty=penalty,
                error=error,
            )
            candidates.append(candidate)
            kernel = Kernel(deep, kind, head, normalized)
            entry = Finalist(candidate, fitted, kernel, signals, K, path)
            # The number breaks ties: earlier candidates win.
            heapq.heappush(best, (-error, -len(candidates), entry))
            if len(best) > finalists:
                heapq.heappop(best)
        if verbose > 1:
            latest = candidates[-len(space.kind) * len(space.depth) * len(space.normalized) :]
            print(
                f"[{number}/{len(passes)}] {describe(view, network, head)}: "
                f"{time.perf_counter() - start:.1f} s, squared error "
                f"{min(c.error for c in latest):.4g}, best so far {-max(best)[0]:.4g}",
                flush=True,
            )
    if verbose:
        print(
            f"{len(candidates)} kernels from {len(passes)} passes over {len(X)} signals: "
            f"{time.perf_counter() - begin:.1f} s",
            flush=True,
        )
    return Found(candidates, [entry for _, _, entry in sorted(best, reverse=True)])


def normalize(K: np.ndarray) -> np.ndarray:
    """Return K(x,z)/√(K(x,x) K(z,z)), 0 where a signal's kernel with itself is 0."""
    own = np.sqrt(np.maximum(np.diagonal(K), 0.0))
    inverse = np.where(own > 0, 1.0 / np.where(own > 0, own, 1.0), 0.0)
    return K * inverse[:, None] * inverse


def describe(view: View, network: Network, head: str) -> str:
    """Return a pass in words."""
    parts = ["standardized" if view.standardize else "signals"]
    parts += ["slopes"] * view.slopes + ["constant"] * view.constant
    return (
        f"{' + '.join(parts)}, filters {network.input_filter_size} and "
        f"{network.filter_size}, {head}"
    )


def as_table(candidates: Sequence[Candidate]) -> dict[str, np.ndarray]:
    """Return candidates as columns, ready for a data frame."""
    return {
        field.name: np.array([getattr(candidate, field.name) for candidate in candidates])
        for field in fields(Candidate)
    }
