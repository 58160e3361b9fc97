r"""Changed signals: the nearest signals found to which a model gives another answer.

A model's answer is a number f(x): the logarithm of the odds of a class, or a prediction. Wanted is
the x nearest to a signal x₀ with :math:`f(x) \ge c`. Each step goes to the nearest point where the
linear approximation of f at x is c, within a trust region (Hasofer and Lind 1974, Rackwitz and
Fiessler 1978). All signals take their steps together: a step costs one call of each pass' kernel.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp, softmax
from threadpoolctl import threadpool_limits

from ..progress import progress_bar
from ..validation import check_depth
from .average import FittedPass, mean_at, weights_at, weights_at_slopes
from .drift import DriftWarning
from .views import Signals, by_channel, take

_FIRST_STEP = 0.1
"""Longest first step, in units of √(channels · time points). Raising it reaches other classes in
fewer steps, and passes by near ones. The unit is the length of a signal of deviation 1."""

_LEAST_STEP = 2e-3
"""Step, in the same units, below which a search ends. Raising it ends searches sooner, farther from
the nearest signal."""

_HALVINGS = 14
"""Halvings of the way from a signal to its changed signal. Raising it comes closer to the level."""

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
    answers: Callable[[Any, np.ndarray], np.ndarray]
    """Function of changed signals and their places: the model's own answers."""
    has: Callable[[np.ndarray, np.ndarray], np.ndarray]
    """Function of these answers and the places: which of them have the target."""


def each_case(values: Any, name: str, n: int) -> np.ndarray:
    """Return a value for each of n cases: one for all, or (n,)."""
    found = np.asarray(values)
    if found.shape not in ((), (n,)):
        raise ValueError(f"{name} has shape {found.shape}, expected one value or ({n},)")
    return np.broadcast_to(found, n)


def changed_signals(
    model: Any, X: Signals, goal: Goal, *, max_iterations: int, progress: bool
) -> Counterfactuals:
    """Return the nearest signals found to which a model gives its targets."""
    steps = check_depth(max_iterations, "max_iterations")
    changed, distances = nearest_signals(
        Objective(model, goal.answer),
        X,
        goal.level,
        model._fitted[0].training.signals,
        max_iterations=steps,
        progress=progress,
    )
    answers, found = np.full(len(X), np.nan), np.isfinite(distances)
    rows = np.flatnonzero(found)
    if len(rows):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DriftWarning)  # changed signals are meant to differ
            answers[rows] = goal.answers(take(changed, rows), rows)
        found[rows] = goal.has(answers[rows], rows)
    lost = np.flatnonzero(~found)
    for case in lost:
        changed[case][...] = np.nan
    answers[lost] = distances[lost] = np.nan
    if len(lost):
        warnings.warn(
            f"no signal was found to which the model gives the target, for {len(lost)} of {len(X)} "
            f"cases: {', '.join(map(str, lost[:20]))}{', …' * (len(lost) > 20)}",
            stacklevel=3,
        )
    return Counterfactuals(changed, goal.targets, answers, distances, found)


class Objective:
    """The number f(x) of some signals, and its slopes."""

    def __init__(self, model: Any, answer: Callable[..., tuple[np.ndarray, ...]]) -> None:
        self.model, self.answer, self.options = model, answer, model._options()

    def values(self, X: np.ndarray, cases: np.ndarray) -> np.ndarray:
        """Return f, (n_cases,)."""
        return self.answer(*self.decide(X), cases)[0]

    def decide(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return decisions (n_cases, n_outputs) and novelties: all targets share them."""
        decisions, novelties, weights = self.model._at(X)
        return mean_at(weights, decisions), self.model._mean_novelty(novelties)

    def __call__(self, X: np.ndarray, cases: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return f and its derivatives by X."""
        fitted: list[FittedPass] = self.model._fitted
        matrices = [each.matrix(X, self.options) for each in fitted]
        decisions = np.array([each.decide(K) for each, K in zip(fitted, matrices, strict=True)])
        novelties = np.array([each.novelty(K) for each, K in zip(fitted, matrices, strict=True)])
        usual = self.model._usual
        distances = usual.distances(X)
        weights = weights_at(self.model._weights, novelties, distances, fitted)
        novelty = self.model._mean_novelty(novelties)
        f, by_decision, by_novelty = self.answer(mean_at(weights, decisions), novelty, cases)
        roots = self.model._weights**0.25
        shares = roots / roots.sum()  # of `_mean_novelty`
        by_novelties = shares[:, None] * by_novelty * novelty / novelties
        by_weights = np.einsum("pno,no->pn", decisions, by_decision)
        changes = weights_at_slopes(weights, novelties, distances, by_weights, fitted)
        by_novelties += changes[0]
        slopes = np.zeros(X.shape) + usual.distance_slopes(X, changes[1])
        for k, (each, K) in enumerate(zip(fitted, matrices, strict=True)):
            by_matrix = (weights[k, :, None] * by_decision) @ each.coefficients.T
            by_matrix += by_novelties[k, :, None] * each.novelty_slopes(K)
            source = each.source
            points: Any = source.view(X)
            found = source.vjp(
                points, each.signals, weights=by_matrix, fixed_Z=True, **self.options
            ).X
            slopes += source.view.adjoint(X, np.asarray(found, np.float64))
        return f, slopes


def nearest_signals(
    objective: Objective,
    X: Signals,
    level: np.ndarray,
    starts: Signals,
    *,
    max_iterations: int,
    progress: bool,
) -> tuple[Signals, np.ndarray]:
    """Return the nearest signals found with f ≥ level, and their distances; NaN where none is.

    `starts` are signals that the model knows: where no step reaches the level from X, the search
    starts again at the nearest of them that has it.
    """
    n = len(X)
    changed: list[Any] = [np.full(np.shape(x), np.nan) for x in X]
    distances = np.full(n, np.nan)
    shapes = [np.shape(x) for x in X]
    with (
        progress_bar(progress, 2 * max_iterations, "step", name="counterfactual") as tick,
        threadpool_limits(1, "blas"),
    ):
        for shape in dict.fromkeys(shapes):
            cases = np.array([k for k in range(n) if shapes[k] == shape])
            others = np.array([s for s in starts if np.shape(s) == shape]).reshape(-1, *shape)
            search = _Search(objective, np.array([X[k] for k in cases]), cases, level[cases])
            search.steps(np.arange(len(cases)), max_iterations, tick)
            search.restart(others, max_iterations, tick)
            search.draw_near()
            for place in np.flatnonzero(search.reached):
                changed[cases[place]][...] = search.best[place]
                distances[cases[place]] = search.best_distance[place]
    return (changed if isinstance(X, list) else np.array(changed)), distances


def log_odds(logits: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the logarithm of the odds of some classes, (n,), and its derivatives, (n, n_classes).

    `logits` are logarithms of probabilities up to a constant, `places` columns of the classes.
    """
    rows = np.arange(len(places))
    others = logits.copy()
    others[rows, places] = -np.inf
    slopes = -softmax(others, axis=1)
    slopes[rows, places] = 1.0
    return logits[rows, places] - logsumexp(others, axis=1), slopes


class _Search:
    """Signals of one length on their ways; the best so far of each."""

    def __init__(
        self, objective: Objective, X: np.ndarray, cases: np.ndarray, level: np.ndarray
    ) -> None:
        self.objective, self.X, self.cases, self.level = objective, X, cases, level
        self.scale = by_channel(objective.model._channel_scale, X)
        self.unit = np.sqrt(X[0].size)
        self.best = X.copy()
        self.best_distance = np.full(len(X), np.inf)
        self.first = objective.values(X, cases)
        self.best_distance[self.first >= level] = 0.0

    @property
    def reached(self) -> np.ndarray:
        return np.isfinite(self.best_distance)

    def distances(self, Z: np.ndarray, places: Any = slice(None)) -> np.ndarray:
        parts = (Z - self.X[places]) / self.scale
        return np.sqrt((parts**2).sum(axis=tuple(range(1, Z.ndim))))

    def keep(self, Z: np.ndarray, f: np.ndarray, places: np.ndarray) -> None:
        """Keep signals Z that have the level, and are nearer than the best so far."""
        distance = self.distances(Z, places)
        better = (f >= self.level[places]) & (distance < self.best_distance[places])
        self.best[places[better]] = Z[better]
        self.best_distance[places[better]] = distance[better]

    def steps(
        self, places: np.ndarray, count: int, tick: Callable[[int], None], start: Any = None
    ) -> None:
        """Make steps from X, or from other signals, for the cases at some places."""
        places = places[self.best_distance[places] > 0]
        x = (self.X[places] if start is None else start) / self.scale
        radius = np.full(len(places), _FIRST_STEP * self.unit)
        merit = np.full(len(places), np.inf)
        at, f, slopes = x.copy(), np.zeros(len(places)), np.zeros(x.shape)
        penalty = np.zeros(len(places))
        sums = tuple(range(1, x.ndim))
        for _ in range(count):
            going = np.flatnonzero(radius > _LEAST_STEP * self.unit)
            if not len(going):
                break
            rows = places[going]
            new_f, new_slopes = self.objective(x[going] * self.scale, self.cases[rows])
            new_slopes = new_slopes * self.scale
            self.keep(x[going] * self.scale, new_f, rows)
            origin = self.X[rows] / self.scale
            lacking = np.maximum(self.level[rows] - new_f, 0.0)
            new_merit = 0.5 * ((x[going] - origin) ** 2).sum(axis=sums) + penalty[going] * lacking
            better = ~(new_merit >= merit[going])
            radius[going] *= np.where(better, 1.5, 0.4)
            taken = going[better]
            at[taken], f[taken], slopes[taken] = x[taken], new_f[better], new_slopes[better]
            here, origin, level = at[going], self.X[rows] / self.scale, self.level[rows]
            aim = level + _MARGIN * np.abs(level - self.first[rows])
            g, moved = slopes[going], at[going] - origin
            squares = np.maximum((g**2).sum(axis=sums), np.finfo(float).tiny)
            factor = ((g * moved).sum(axis=sums) + aim - f[going]) / squares
            goal = factor.reshape(-1, *[1] * len(sums)) * g
            way = goal - moved
            length = np.sqrt((way**2).sum(axis=sums))
            short = np.minimum(1.0, radius[going] / np.maximum(length, np.finfo(float).tiny))
            x[going] = here + short.reshape(-1, *[1] * len(sums)) * way
            radius[going] = np.minimum(radius[going], np.maximum(2 * length, 1e-300))
            norm = np.sqrt((goal**2).sum(axis=sums))
            reach = np.sqrt((moved**2).sum(axis=sums))
            penalty[going] = np.maximum(
                penalty[going], 2 * np.maximum(norm, reach) / np.sqrt(squares)
            )
            lacking = np.maximum(level - f[going], 0.0)
            merit[going] = 0.5 * reach**2 + penalty[going] * lacking
            tick(1)

    def restart(self, others: np.ndarray, count: int, tick: Callable[[int], None]) -> None:
        """Search from the nearest of `others` that has the level, where no signal was found."""
        places = np.flatnonzero(~self.reached)
        if not len(places) or not len(others):
            return
        starts, decided = [], self.objective.decide(others)
        for place in places:
            f = self.objective.answer(*decided, np.full(len(others), self.cases[place]))[0]
            good = np.flatnonzero(f >= self.level[place])
            parts = ((others[good] - self.X[place]) / self.scale) ** 2
            nearest = good[parts.reshape(len(good), -1).sum(axis=1).argmin()] if len(good) else -1
            starts.append(nearest)
        known = np.array(starts) >= 0
        places, Z = places[known], others[np.array(starts)[known]]
        if not len(places):
            return
        self.keep(Z, self.level[places], places)
        self.draw_near(places)
        self.steps(places, count, tick, self.best[places])

    def draw_near(self, places: Any = None) -> None:
        """Halve the ways from X to the best signals, as often as it takes to come to the level."""
        places = np.arange(len(self.X)) if places is None else places
        places = places[self.reached[places] & (self.best_distance[places] > 0)]
        if not len(places):
            return
        ends = np.ones(len(places))
        lower, axes = np.zeros(len(places)), [1] * (self.X.ndim - 1)
        origin, way = self.X[places], self.best[places] - self.X[places]
        for _ in range(_HALVINGS):
            middle = 0.5 * (lower + ends)
            Z = origin + middle.reshape(-1, *axes) * way
            f = self.objective.values(Z, self.cases[places])
            good = f >= self.level[places]
            self.keep(Z, f, places)
            ends, lower = np.where(good, middle, ends), np.where(good, lower, middle)
