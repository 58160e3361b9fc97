r"""Changed signals: the nearest signals found to which a model gives another answer.

A model's answer is a number f(x): the logarithm of the odds of a class, or a prediction. Wanted is
the x nearest to a signal x₀ with :math:`f(x) \ge c`. L-BFGS makes the augmented Lagrangian
:math:`|x - x_0|^2 / 2 + \max(0, \mu + \rho (c - f))^2 / 2 \rho` smaller. After some steps μ becomes
max(0, μ + ρ (c − f)) (Nocedal and Wright 2006, chapters 7 and 17). All
signals take their steps together. A step costs one call of each pass' kernel.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp, softmax
from threadpoolctl import threadpool_limits

from ..progress import progress_bar, warn
from ..validation import check_depth, check_rectangular
from .average import Average
from .drift import DriftWarning
from .views import Signals, by_channel, take

_LONGEST_STEP = 0.1
"""Longest step, in units of √(channels · time points). Raising it reaches other classes in fewer
steps, and passes by near ones. The unit is the length of a signal of deviation 1."""

_LEAST_STEP = 1e-3
"""Part of a step of L-BFGS below which a round of a search ends. Raising it ends rounds sooner."""

_ROUND = 8
"""Steps between changes of the multiplier μ. Raising it solves each Lagrangian more exactly, for
fewer multipliers."""

_MEMORY = 12
"""Last moves of a signal that L-BFGS knows. Raising it takes more memory."""

_GAP = 0.1
"""Part of the way in f by which the first Lagrangian may miss the level. Raising it bends f less,
and reaches the level later."""

_FIRMER = 4.0
"""Factor of ρ after a round that ends below the level. Raising it reaches the level sooner, and
bends f less."""

_GAIN = 0.01
"""Part of the distance that a round has to gain; else a search that has the level ends. Raising it
ends searches sooner."""

_STARTS = 300
"""Most signals of fit among which a search looks for its start. Raising it starts at nearer ones,
and takes the time of their prediction."""

_FIRST_HALVINGS, _HALVINGS = 5, 14
"""Halvings of the way from a signal to its changed signal, at the start and at the end of a search.
Raising them comes closer to the level."""

_MARGIN = 0.02
"""Part of the way in f by which steps aim above the level. Raising it reaches the level in fewer
steps; what is too much is taken back by the halvings."""


class Counterfactuals(NamedTuple):
    """Changed signals, and what the model answers to them."""

    signals: Signals
    """As the signals given; NaN where none was found"""
    targets: np.ndarray
    """(n_cases,): the class, or the value, that each signal was to get"""
    answers: np.ndarray
    """(n_cases,): the probability of the class, or the prediction; NaN where none was found"""
    distances: np.ndarray
    """(n_cases,): √ of the sum of squared changes, each channel divided by its deviation in fit"""
    found: np.ndarray
    """(n_cases,): whether the model gives the target to the signal"""


class Goal(NamedTuple):
    """The answers that a model is to give to some signals."""

    answer: Callable[..., tuple[np.ndarray, ...]]
    """Function of decisions (n, n_outputs), novelties (n,) and the places of n cases among the
    signals. Returns f, (n,), and its derivatives by decisions and novelties."""
    level: np.ndarray
    """(n_cases,): c, the least f."""
    targets: np.ndarray
    """(n_cases,): the classes or values."""
    check: Callable[[Any, np.ndarray], tuple[np.ndarray, np.ndarray]]
    """Function of changed signals and their places: the model's own answers, and which of them
    have the target."""


def each_case(values: Any, name: str, n: int) -> np.ndarray:
    """Return a value for each of n cases: one for all, or (n,)."""
    given = check_rectangular(values, name, f"one value or ({n},)")
    if given.shape not in ((), (n,)):
        raise ValueError(f"{name} has shape {given.shape}, expected one value or ({n},)")
    return np.broadcast_to(given, n)


def changed_signals(
    average: Average, X: Signals, goal: Goal, *, max_iterations: int, progress: bool
) -> Counterfactuals:
    """Return the nearest signals found to which the model of an average gives its targets.

    The search for a case starts near the nearest training signal that has the level. It starts at X
    where no training signal has the level.
    """
    steps, n = check_depth(max_iterations, "max_iterations"), len(X)
    starts, shapes = average.passes[0].training.signals, [np.shape(x) for x in X]
    signals: list[Any] = [np.full(shape, np.nan) for shape in shapes]
    distances, answers = np.full((2, n), np.nan)
    with (
        progress_bar(progress, len(set(shapes)) * steps, "step", name="counterfactual") as tick,
        threadpool_limits(1, "blas"),
        np.errstate(over="ignore", invalid="ignore"),  # of signals, or goals, out of reach
    ):
        for shape in dict.fromkeys(shapes):
            cases = np.array([k for k in range(n) if shapes[k] == shape])
            candidates = np.array([s for s in starts if np.shape(s) == shape]).reshape(-1, *shape)
            search = _Search(average, np.array([X[k] for k in cases]), goal, cases)
            search.start_near(candidates[:: -(-len(candidates) // _STARTS) or 1])
            search.steps(steps, tick)
            search.draw_near(_HALVINGS)
            for row in np.flatnonzero(search.reached):
                signals[cases[row]][...] = search.best[row]
                distances[cases[row]] = search.best_distance[row]
    changed = signals if isinstance(X, list) else np.array(signals)
    has_target = np.isfinite(distances)
    rows = np.flatnonzero(has_target)
    if len(rows):
        # Changed signals are meant to differ from the signals of fit.
        with warnings.catch_warnings(action="ignore", category=DriftWarning):
            answers[rows], has_target[rows] = goal.check(take(changed, rows), rows)
    lost = np.flatnonzero(~has_target)
    for case in lost:
        changed[case][...] = np.nan
    answers[lost] = distances[lost] = np.nan
    if len(lost):
        warn(
            f"no signal was found to which the model gives the target, for {len(lost)} of {n} "
            f"cases: {', '.join(map(str, lost[:20]))}{', …' * (len(lost) > 20)}",
        )
    return Counterfactuals(changed, goal.targets, answers, distances, has_target)


def log_odds(logits: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the logarithm of the odds of some classes, (n,), and its derivatives, (n, n_classes).

    `logits` are logarithms of probabilities up to a constant, `places` columns of the classes.
    """
    rows = np.arange(len(places))
    rivals = logits.copy()
    rivals[rows, places] = -np.inf
    slopes = -softmax(rivals, axis=1)
    slopes[rows, places] = 1.0
    return logits[rows, places] - logsumexp(rivals, axis=1), slopes


def quasi_newton(gradient: np.ndarray, moves: np.ndarray, rises: np.ndarray) -> np.ndarray:
    """Return the product of L-BFGS' inverse Hessian and a gradient, for each case, (n, size).

    `moves` and `rises` are the last changes of points and of gradients, (memory, n, size), the
    latest first. Changes along which the gradient does not rise are left out.
    """
    curvatures = (moves * rises).sum(axis=2)
    curved = curvatures > 1e-10 * np.sqrt((moves**2).sum(axis=2) * (rises**2).sum(axis=2))
    inverse = np.divide(1.0, curvatures, out=np.zeros(curvatures.shape), where=curved)
    product, parts = gradient.copy(), []
    for move, rise, factor in zip(moves, rises, inverse, strict=True):
        parts.append(factor * (move * product).sum(axis=1))
        product -= parts[-1][:, None] * rise
    squares = np.where(curved[0], (rises[0] ** 2).sum(axis=1), 1.0)
    product *= np.where(curved[0], curvatures[0] / squares, 1.0)[:, None]
    for move, rise, factor in zip(moves[::-1], rises[::-1], inverse[::-1], strict=True):
        product += (parts.pop() - factor * (rise * product).sum(axis=1))[:, None] * move
    return product


class _Search:
    """Signals of one length on their ways; the best so far of each."""

    def __init__(self, average: Average, X: np.ndarray, goal: Goal, cases: np.ndarray) -> None:
        self.average, self.X, self.cases = average, X, cases
        self.answer, self.level = goal.answer, goal.level[cases]
        self.scale = by_channel(average.channel_scale, X)
        self.unit = np.sqrt(X[0].size)
        self.best = X.copy()
        self.best_distance = np.full(len(X), np.inf)
        self.first = self.values(X, cases)
        self.best_distance[self.first >= self.level] = 0.0

    @property
    def reached(self) -> np.ndarray:
        return np.isfinite(self.best_distance)

    def values(self, Z: np.ndarray, cases: np.ndarray) -> np.ndarray:
        """Return f of some cases at signals Z, (n_cases,)."""
        decided = self.average.at(Z)
        return self.answer(decided.mean(), decided.novelty, cases)[0]

    def keep(self, Z: np.ndarray, f: np.ndarray, places: np.ndarray) -> None:
        """Keep signals Z that have the level, and are nearer than the best so far."""
        parts = (Z - self.X[places]) / self.scale
        distances = np.sqrt((parts**2).sum(axis=tuple(range(1, Z.ndim))))
        better = (f >= self.level[places]) & (distances < self.best_distance[places])
        for k in np.flatnonzero(better)[np.argsort(-distances[better])]:  # the nearest comes last
            self.best[places[k]], self.best_distance[places[k]] = Z[k], distances[k]

    def steps(self, count: int, tick: Callable[[int], None]) -> None:
        """Make steps from the best signals so far."""
        searched, shape = np.flatnonzero(self.best_distance > 0), self.X.shape
        if not len(searched):
            tick(count)
            return
        origin = self.X[searched] / self.scale
        moved = (self.best[searched] / self.scale - origin).reshape(len(searched), self.X[0].size)
        gap = np.abs(self.level - self.first)[searched]
        aim, longest = self.level[searched] + _MARGIN * gap, _LONGEST_STEP * self.unit

        def at(v: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            Z = (origin[rows] + v.reshape(-1, *shape[1:])) * self.scale
            cases = self.cases[searched[rows]]
            f, slopes = self.average.slopes(Z, partial(self.answer, cases=cases))
            self.keep(Z, f, searched[rows])
            return f, (slopes * self.scale).reshape(v.shape)

        def lagrangian(
            v: np.ndarray, f: np.ndarray, slopes: np.ndarray, rows: np.ndarray
        ) -> tuple[np.ndarray, np.ndarray]:
            force = np.maximum(0.0, mu[rows] + rho[rows] * (aim[rows] - f))
            values = 0.5 * (v**2).sum(axis=1) + 0.5 * force**2 / rho[rows]
            return values, v - force[:, None] * slopes

        f, slopes = at(moved, np.arange(len(searched)))
        squares = (slopes**2).sum(axis=1)
        rows = going = np.flatnonzero(squares > 0)
        safe = np.where(squares > 0, squares, 1.0)
        mu = np.maximum(gap / safe, np.sqrt((moved**2).sum(axis=1) / safe))
        rho = mu / np.where(gap > 0, _GAP * gap, 1.0)
        moves, rises = np.zeros((2, _MEMORY, *moved.shape))
        share, before = np.ones(len(searched)), np.full(len(searched), np.inf)
        for step in range(count):
            if step % _ROUND == 0:
                if step:
                    mu = np.maximum(0.0, mu + rho * (aim - f))
                    rho = np.where(f < self.level[searched], _FIRMER * rho, rho)
                    best = self.best_distance[searched]
                    ended = (best > (1.0 - _GAIN) * before) & (f >= self.level[searched])
                    rows, before = rows[~ended[rows]], best
                going, share[rows] = rows, 1.0
            if not len(going):
                tick(1)
                continue
            values, gradient = lagrangian(moved[going], f[going], slopes[going], going)
            direction = -quasi_newton(gradient, moves[:, going], rises[:, going])
            length = np.sqrt((direction**2).sum(axis=1))
            part = share[going] * np.minimum(1.0, longest / np.maximum(length, 1e-300))
            trial = moved[going] + part[:, None] * direction
            new_f, new_slopes = at(trial, going)
            new_values, new_gradient = lagrangian(trial, new_f, new_slopes, going)
            good = new_values <= values + 1e-4 * part * (direction * gradient).sum(axis=1)
            taken = going[good]
            for memory, change in ((moves, trial - moved[going]), (rises, new_gradient - gradient)):
                memory[:, taken] = np.roll(memory[:, taken], 1, axis=0)
                memory[0, taken] = change[good]
            moved[taken], f[taken], slopes[taken] = trial[good], new_f[good], new_slopes[good]
            share[going] = np.where(good, 1.0, 0.3 * share[going])
            going = going[share[going] > _LEAST_STEP]
            tick(1)

    def start_near(self, candidates: np.ndarray) -> None:
        """Start near the nearest of the candidates that have the level."""
        if n := len(candidates):
            decided = self.average.at(candidates)
            decisions = decided.mean()
            for row in np.flatnonzero(~self.reached):
                cases = np.full(n, self.cases[row])
                f = self.answer(decisions, decided.novelty, cases)[0]
                self.keep(candidates, f, np.full(n, row))
        self.draw_near(_FIRST_HALVINGS)

    def draw_near(self, halvings: int) -> None:
        """Halve the ways from X to the best signals, as often as it takes to come to the level."""
        rows = np.flatnonzero(self.reached & (self.best_distance > 0))
        if not len(rows):
            return
        ends = np.ones(len(rows))
        lower, axes = np.zeros(len(rows)), [1] * (self.X.ndim - 1)
        origin, direction = self.X[rows], self.best[rows] - self.X[rows]
        for _ in range(halvings):
            middle = 0.5 * (lower + ends)
            Z = origin + middle.reshape(-1, *axes) * direction
            f = self.values(Z, self.cases[rows])
            good = f >= self.level[rows]
            self.keep(Z, f, rows)
            ends, lower = np.where(good, middle, ends), np.where(good, lower, middle)
