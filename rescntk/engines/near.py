"""Derivatives of normalized Gaussian process kernels of nearly equal signals.

With K̂ = K(x, z)/√(K(x, x) K(z, z)), and ∂₁ the derivative by the first signal, ::

    √(K(x, x) K(z, z)) ∂K̂/∂x = ∂₁K(x, z) − K(x, z)/K(x, x) ∂₁K(x, x)
                              = δ − ε/K(x, x) ∂₁K(x, x),
    δ = ∂₁K(x, z) − ∂₁K(x, x),  ε = K(x, z) − K(x, x).

Near x = z the first line is a difference of nearly equal numbers. Here δ and ε are computed as
changes. z − x at the input changes all quantities of all layers. Each change is a sum of terms as
small as itself (docs/theory/gradients.md). The derivative by z exchanges x and z.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array, Batch
from .adjoint import AdjointRecursion
from .derivatives import Derivatives, GradientRun, Signals
from .exact_sum import mean, pairwise
from .layer import add
from .masses import ExactInput, Split
from .protocol import Request
from .signal_tables import SignalTables


class _Layer(NamedTuple):
    """A layer at the pixel pairs of (x, x), and its changes to (x, z); θ is the windows' angle."""

    root: Any  # √q1
    root2: Any  # √q2
    root2_change: Any
    theta: Any
    theta_change: Any
    sine: Any
    sine_change: Any
    K: Any
    K_change: Any


class ChangeRecursion(AdjointRecursion):
    """The recursion on pairs (x, z), with the changes from pairs (x, x) to it.

    `to_self` is the recursion on (x, x), on the same rows. `x` and `change` = z − x are (channels,
    pixels).
    """

    def __init__(
        self, *arguments: Any, to_self: AdjointRecursion, x: Array, change: Array, **inputs: Any
    ) -> None:
        super().__init__(*arguments, **inputs)
        self._to_self, self._x, self._change = to_self, x, change
        for recursion in (to_self, self):
            for _ in recursion.kernels():  # which keep their layers
                pass
        self._product: Any = 0.0  # β_x²
        self._product_change: Any = 0.0  # β_x (β_z − β_x)
        if self.biased:
            beta, beta2 = (each._root(each.right, each._biases[1]) for each in (to_self, self))
            self._product = 2.0 * beta.rounded * beta.rounded
            self._product_change = 2.0 * beta.rounded * _difference(beta2, beta)
        products = (self.left.axes(a) * self.right.axes(b) for a, b in zip(x, change, strict=True))
        self._F0_change = self._box(pairwise(products), self.scaling.input_filter)
        self._layers: list[_Layer] = []

    def change_of_kernels(self) -> np.ndarray:
        """Return ε of the pairs, (pairs,); without the mean of F⁰ where results get it."""
        linear, branches = self._F0_change, np.zeros_like(self._F0_change)
        for number, constants in enumerate(self.constants[1:], start=1):
            window = self._box(linear + branches, self.scaling.inner_filter(number))
            if self.biased:
                window = window + constants.bias_window * self._product_change
            layer = self._changed(number, window)
            self._layers.append(layer)
            branch = self._box(layer.K_change, self.scaling.outer_filter(number))
            if self.biased:
                branch = branch + constants.bias_branch * self._product_change
            branches = add(branches, branch, constants.skip_scale)
            linear = constants.skip_scale * linear
        kernels = branches if self.scaling.adds_mean else branches + linear
        return self._of_pairs(self._start() * kernels)

    def _changed(self, number: int, window: Array) -> _Layer:
        """Return the quantities of a layer; `window` is the change of Σ."""
        one, two = self._to_self.passed[number - 1], self.passed[number - 1]
        half, share = self.constants[number].half_factor, self.linear_share
        root, root2, _ = one.roots
        right, right2 = (
            recursion._root(recursion.right, passed.right_masses)
            for recursion, passed in ((self._to_self, one), (self, two))
        )
        change = math.sqrt(2.0) * _difference(right2, right)
        turned = _turned(one.pair, two.pair, window, root * change, root * two.roots[1])
        (theta, supplement), (_, supplement2), theta_change, cosine_change, sine_change = turned
        sine, cosine = np.sqrt(one.pair.w * one.pair.v), 1.0 - one.pair.w
        sine2, cosine2 = np.sqrt(two.pair.w * two.pair.v), 1.0 - two.pair.w
        curved = (1.0 - share) / math.pi
        kappa = curved * (sine + supplement * cosine) + share * cosine
        kappa2 = curved * (sine2 + supplement2 * cosine2) + share * cosine2
        kappa_change = sine_change + supplement * cosine_change - theta_change * cosine2
        kappa_change = curved * kappa_change + share * cosine_change
        return _Layer(
            root=root, root2=root2, root2_change=change, theta=theta, theta_change=theta_change,
            sine=sine, sine_change=sine_change, K=half * root * root2 * kappa,
            K_change=half * root * (change * kappa2 + root2 * kappa_change),
        )  # fmt: skip

    def add_to(self, of_self: _Totals, change: _Totals) -> None:
        """Add the derivatives of K(x, x) by its first signal, and δ: `changes_back`."""
        pixels = (self.rows.case * self.rows.left + np.arange(self.rows.left)[:, None]).ravel()

        def add_up(total: np.ndarray, terms: Array) -> None:
            total += np.bincount(pixels, terms[:, 0, :, 0].ravel(), len(total))

        for layer, *terms in self._changes_back(of_self, change):
            for totals, of_layer in zip((of_self, change), terms, strict=True):
                add_up(totals.by_variances[layer], of_layer)
        features, features_change = self.input[:2]
        for channel, (x, x_change) in enumerate(zip(self._x, self._change, strict=True)):
            z, z_change = self.right.axes(x + x_change), self.right.axes(x_change)
            add_up(of_self.by_pixels[channel], features * self.right.axes(x))
            add_up(change.by_pixels[channel], features_change * z + features * z_change)

    def _changes_back(self, of_self: _Totals, change: _Totals) -> Iterator[tuple[int, Any, Any]]:
        """Yield the derivatives by q1 of layers L … 1 at fixed Σ: of K(x, x), and their changes.

        Those by F⁰ are `input` at the end. `numbers` of both totals get their part.
        """
        start, features = self._start(), self.xp.zeros(1)
        changed = features
        for number in range(len(self._layers), 0, -1):
            constants, layer = self.constants[number], self._layers.pop()
            outer, inner = self.scaling.outer_filter(number), self.scaling.inner_filter(number)
            phi = self._box_adjoint(start, outer) + self._box_adjoint(features, outer)
            phi_change = self._box_adjoint(changed, outer)
            phi2 = phi + phi_change
            curved = constants.half_factor * (1.0 - self.linear_share) / math.pi
            slope = constants.half_factor * self.linear_share + curved * (math.pi - layer.theta)
            Sigma = slope * phi
            Sigma_change = slope * phi_change - curved * layer.theta_change * phi2
            g, g_change = layer.sine * phi, layer.sine * phi_change + layer.sine_change * phi2
            of_change = layer.root2_change * (g + g_change) + layer.root2 * g_change
            inverse = 0.5 * curved / self.xp.where(layer.root > 0, layer.root, np.inf)
            yield number, inverse * layer.root2 * g, inverse * of_change
            of_self.numbers[0] += self._of_pairs(phi * layer.K)
            change.numbers[0] += self._of_pairs(phi_change * layer.K + phi2 * layer.K_change)
            if self.biased:
                for adjoint, more, factor, of_alpha in (
                    (start + features, changed, constants.bias_branch, 1.0),
                    (Sigma, Sigma_change, constants.bias_window, 0.0),
                ):
                    part = factor * self._of_pairs(self._product * adjoint)
                    of_self.numbers[:] += np.outer([of_alpha, 2.0], part)
                    part = self._product * more + self._product_change * (adjoint + more)
                    change.numbers[:] += np.outer([of_alpha, 2.0], factor * self._of_pairs(part))
            features = add(features, self._box_adjoint(Sigma, inner), constants.skip_scale)
            changed = add(changed, self._box_adjoint(Sigma_change, inner), constants.skip_scale)
            start = constants.skip_scale * start
        if not self.scaling.adds_mean:
            features = features + start
        window = self.scaling.input_filter
        self.input = self._box(features, window), self._box(changed, window), 0.0, 0.0

    def _of_pairs(self, values: Any) -> np.ndarray:
        """Return sums over the pixel pairs of each pair of signals, (pairs,)."""
        total = self._over_pixels(values)
        shape = np.broadcast_shapes(total.shape, (1, len(self.rows.case), 1))
        return np.asarray(self.rows.total(np.broadcast_to(total, shape))[0])


def _difference(left: Split, right: Split) -> Any:
    """Return left − right of nearly equal numbers, with the digits that rounding would take."""
    return (left.high - right.high) + (left.low - right.low)


def _turned(one: Any, two: Any, Sigma: Any, grown: Any, size: Any) -> tuple[Any, ...]:
    """Return θ and π − θ of two pairs of windows, and the changes of θ, cos θ and sin θ.

    `Sigma` and `grown` are the changes of Σ and of g, and `size` is g of `two`. The change of θ is
    the difference of both angles; or it comes from the change of cos θ, (`Sigma` − ρ `grown`)/g.
    The way with the smaller rounding error counts.
    """
    roots: list[Any] = [[np.sqrt(each) for each in pair[:2]] for pair in (one, two)]
    angles: list[Any] = [(2.0 * np.arctan2(w, v), 2.0 * np.arctan2(v, w)) for w, v in roots]
    acute = one.w < one.v
    angle, angle2 = (np.where(acute, theta, supplement) for theta, supplement in angles)
    sign, middle = np.where(acute, 1.0, -1.0), 0.5 * (angle + angle2)
    sine = size * np.sin(middle)
    known = sine > 0
    cosecant = np.where(known, 1.0 / np.where(known, sine, 1.0), 0.0)
    by_cosine = -0.5 * cosecant * (Sigma - (1.0 - one.w) * grown)
    by_cosine = 2.0 * np.arcsin(np.clip(by_cosine, -1.0, 1.0))
    is_better = known & (cosecant * (abs(Sigma) + abs(grown)) < angle + angle2)
    theta = np.where(is_better, by_cosine, sign * (angle2 - angle))
    chord = 2.0 * np.sin(0.5 * theta)
    return *angles, theta, -chord * np.sin(middle), sign * chord * np.cos(middle)


class _Totals(NamedTuple):
    """Sums over rows of derivatives by the first signals of pairs, as in `Signals`."""

    by_variances: np.ndarray
    by_pixels: np.ndarray
    by_means: np.ndarray
    numbers: np.ndarray  # (2, pairs)


class _Side(NamedTuple):
    """Some signals of X or of Z."""

    signals: Signals
    tables: SignalTables
    inputs: list[ExactInput]
    root: np.ndarray  # √K(x, x)


class _NearRun(GradientRun):
    """The derivatives of pairs of signals of one length."""

    def add_changes(self, cases: np.ndarray, one: _Side, two: _Side) -> None:
        """Add the derivatives by the signals of the side `one`."""
        some, n = slice(int(cases[0]), int(cases[-1]) + 1), len(cases)
        (x, x_rest), (z, z_rest) = (
            side.signals.vectors(side.signals.places(some)) for side in (one, two)
        )
        change = (z - x) + (z_rest - x_rest)
        lengths = np.full(n, x.shape[1] // n)
        to_self, to_other = (
            self._tile(some.start, one.tables, side.tables, lengths, paired=True)
            for side in (one, two)
        )
        scaling, kernels = to_self.scaling, np.zeros(n)
        shapes = (scaling.depth + 1, x.shape[1]), x.shape, (len(x), n), (2, n)
        of_self, changed = (_Totals(*map(np.zeros, shapes)) for _ in range(2))
        for block in to_self.blocks:
            rows = to_self.rows if len(to_self.blocks) == 1 else to_self.rows.some(block)
            recursion = ChangeRecursion(
                self.request, scaling, *to_other.sides(rows), rows, x=x, change=change,
                inputs=(one.inputs, two.inputs), to_self=AdjointRecursion(
                    self.request, scaling, *to_self.sides(rows), rows,
                    inputs=(one.inputs, one.inputs),
                ),
            )  # fmt: skip
            kernels += recursion.change_of_kernels()
            recursion.add_to(of_self, changed)
        if scaling.adds_mean:
            factor = scaling.input_filter.n_taps * math.ldexp(1.0, -scaling.exponents[-1])
            of_self.by_means[:] = factor * one.signals.means[:, some]
            changed.by_means[:] = factor * mean(
                np, change.reshape(len(x), n, -1).transpose(2, 0, 1)
            )
            kernels += (one.signals.means[:, some] * changed.by_means).sum(axis=0)
        squared = one.root * one.root / scaling.correction(scaling.depth)
        ratio = np.divide(kernels, squared, out=np.zeros(n), where=squared > 0)

        def weighted(of_self: np.ndarray, of_change: np.ndarray) -> np.ndarray:
            ratios, weights = (
                np.repeat(each, of_self.shape[1] // n)
                for each in (ratio, self.pairs.factors[0][0][some])
            )
            return np.asarray(weights * (of_change - ratios * of_self))

        of_variances, of_pixels, of_means, numbers = map(weighted, of_self, changed)
        one.signals.add(some, of_variances, of_pixels, 0.5 * numbers)  # half by either side
        one.signals.by_means[:, some] += of_means


def near_pairs(
    request: Request, X: Batch, Z: Batch, weights: np.ndarray, roots: tuple[np.ndarray, np.ndarray]
) -> Derivatives:
    """Return derivatives of the weighted sum of K̂ over pairs of a signal of X and its one of Z.

    All signals have one length. `weights` are (pairs,), and `roots` √K(x, x) and √K(z, z) without
    scales.
    """
    run = _NearRun(request, X, Z, weights, roots)
    places = np.arange(len(weights))
    for cases, _ in run.batches(places, places):
        one, two = (
            _Side(signals, side.tables(cases), side.exact_inputs(cases), root[side.order[cases]])
            for signals, side, root in zip(
                (run.lefts, run.rights), (run.left, run.right), roots, strict=True
            )
        )
        run.add_changes(cases, one, two)
        run.add_changes(cases, two, one)
    return run.pairs.derivatives(run.scaling(int(run.left.lengths[0])))
