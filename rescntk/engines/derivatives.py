"""Derivatives of S = Σ W_ab K(x_a, z_b) in the signals: the sums over pairs, reference engine.

For each pair of signals, adjoint.py has the derivatives of K by the variances of both signals in
each layer, and by their pixels at fixed variances. Here they are multiplied by W_ab and added up
over pairs. The recursion of variances is linear: it goes back once for each signal, at the end
(`Signals.derivatives`).

Signal x is divided by its size s_x, so that K(x, z) = s_x s_z k(x/s_x, z/s_z). The product does not
depend on s_x, which therefore counts as a constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array, Batch
from .adjoint import AdjointRecursion
from .boxes import circular_sum
from .exact_sum import mean
from .geometry import Rows
from .masses import Mass, two_product
from .ordered import OrderedSignals
from .protocol import Request, Tick, silent
from .reference import ReferenceGram, keep_freed_memory
from .scaling import Scaling
from .signal_tables import SignalTables, joined_pixels, read_input

_ENTRIES = 400_000
"""Entries (pixel pairs times layers) of a tile.

Each keeps eight numbers until the way back. More entries take more memory; with fewer, the calls of
NumPy cost more than the arithmetic. Chosen by reasoning: 26 MB for a thread.
"""


class Derivatives(NamedTuple):
    """Derivatives of a weighted sum of kernels."""

    sides: list[list[np.ndarray]]
    """By the signals, (channels, d) each, of X and of Z; of both together if there is no Z."""

    numbers: np.ndarray
    """(2,), by log α² and by log β."""

    def add(self, more: Derivatives, *cases: Iterable[int]) -> None:
        """Add the derivatives of another sum, by the `cases` of each side; X may be both sides.

        Without `cases`, they are all.
        """
        of_sides = cases or [range(len(side)) for side in self.sides]
        for k, (gradients, of_side) in enumerate(zip(more.sides, of_sides, strict=False)):
            side = self.sides[min(k, len(self.sides) - 1)]
            for case, gradient in zip(of_side, gradients, strict=True):
                side[case] = side[case] + gradient
        self.numbers[:] += more.numbers


class Signals:
    """The signals of one side: tables (…, pixels) of all signals joined.

    `order`, `lengths` and `begins` are as in `OrderedSignals`. A signal is divided by a number such
    that F⁰ is the sum over channels and the input filter of products of its pixels. The number's
    inverse is a sum of two numbers, `root`.

    Attributes
    ----------
    scale : array (cases,)
        The sizes by which kernels are multiplied.
    pixels : array (channels, pixels)
        The signals, divided by powers of two.
    root : array (2, pixels)
        The factor of each pixel, as the sum of two numbers.
    variance : array (1, pixels)
        F⁰ at x = z.
    bias : array (cases,)
        The variance of each signal's biases.
    means : array (channels, cases)
        Means over pixels.
    by_variances : array (L + 1, pixels)
        Derivatives of the sum by the variances q of layers 1 … L; of layer 0 by the square of each
        pixel. 0 at first, like the next two.
    by_pixels : array (channels, pixels)
        Its derivatives by the pixels, at fixed variances.
    by_means : array (channels, cases)
        Its derivatives by the means, of the part that is the product of means.
    by_numbers : array (2, cases)
        Its derivatives by log α² and by log β at fixed variances, of kernels with left signals.
    """

    def __init__(self, side: OrderedSignals, scaling_of: Callable[[int], Scaling]) -> None:
        self.order, self.lengths, self.begins, parts = side.order, side.lengths, side.begins, []
        self._scalings: list[Scaling] = []
        for scaling, X in side.of_each_length(slice(None), scaling_of):
            pixels: Any = read_input(scaling, X, windows=False)
            unit = np.broadcast_to(pixels.unit, pixels.variance.shape)
            roots: Any = Mass(unit, np.zeros_like(unit)).exact_root()
            root = np.stack(roots)
            bias = np.broadcast_to(pixels.bias * pixels.bias * pixels.unit, pixels.scale.shape)
            means = root[0, 0] * mean(np, pixels.pixels.swapaxes(0, 1))
            parts.append((pixels.scale, bias, means, pixels.pixels, root, pixels.variance[None]))
            self._scalings.append(scaling)
        columns: list[Any] = [*zip(*parts, strict=True)]
        self.scale, self.bias, self.means = (np.concatenate(c, axis=-1) for c in columns[:3])
        self.pixels, self.root, self.variance = (joined_pixels(c) for c in columns[3:])
        self.by_variances = np.zeros((scaling.depth + 1, self.pixels.shape[1]))
        self.by_numbers = np.zeros((2, len(self.scale)))
        self.by_pixels, self.by_means = np.zeros_like(self.pixels), np.zeros_like(self.means)

    def places(self, cases: slice) -> slice:
        """Return the places of the pixels of some cases."""
        start, stop = self.begins[[cases.start, cases.stop]]
        return slice(int(start), int(stop))

    def vectors(self, places: slice) -> tuple[np.ndarray, np.ndarray]:
        """Return pixels times `root` as a sum of two numbers, (channels, pixels)."""
        pixels, (root, root_lost) = self.pixels[:, places], self.root[:, places]
        product, error = two_product(pixels, root)
        return product, error + pixels * root_lost

    def add(
        self, cases: slice, by_variances: np.ndarray, by_pixels: np.ndarray, by_numbers: Any = 0.0
    ) -> None:
        """Add the derivatives of a tile."""
        self.by_numbers[:, cases] += by_numbers
        self.by_variances[:, self.places(cases)] += by_variances
        self.by_pixels[:, self.places(cases)] += by_pixels

    def derivatives(self) -> tuple[list[np.ndarray], np.ndarray]:
        """Return the derivatives by the signals divided by `scale`, in the batch's order.

        And by log α² and by log β, (2, cases).
        """
        by_signals: list[Any] = [None] * len(self.order)
        numbers, first = np.zeros((2, len(by_signals))), 0
        for scaling in self._scalings:
            stop = first + int((self.lengths == scaling.d).sum())
            cases, first = slice(first, stop), stop
            order = self.order[cases]
            gradients, of_variances = self._of_length(scaling, cases)
            numbers[:, order] = self.by_numbers[:, cases] + of_variances
            for place, gradient in zip(order, gradients, strict=True):
                by_signals[place] = gradient
        return by_signals, numbers

    def _of_length(self, scaling: Scaling, cases: slice) -> tuple[np.ndarray, np.ndarray]:
        """Return `derivatives` of signals of one length; by log α² and log β through variances."""
        d = scaling.d

        def apart(table: Any) -> np.ndarray:  # (…, pixels) as (…, d, cases)
            of_cases = table[:, self.places(cases)]
            return of_cases.reshape(len(of_cases), -1, d).swapaxes(-1, -2)

        (features,), branches, biases = apart(self.variance), [], []
        for layer in range(1, scaling.depth + 1):
            biases.append((0.0, 0.0))
            if scaling.network.bias:
                factors = scaling.biases[layer]
                biases[-1] = factors["bias_window"], factors["bias_branch"]
            of_window, of_branch = (factor * self.bias[cases] for factor in biases[-1])
            branch = circular_sum(features, *scaling.inner_filter(layer)) + of_window
            branch = circular_sum(branch, *scaling.outer_filter(layer))
            branches.append(scaling.layers[layer].half_factor * branch + of_branch)
            features = scaling.layers[layer].skip_scale * features + branches[-1]
        by_windows, numbers = apart(self.by_variances), np.zeros((2, features.shape[1]))
        state = np.zeros_like(features)
        for layer in range(scaling.depth, 0, -1):
            constants, (of_window, of_branch) = scaling.layers[layer], biases.pop()
            window = constants.half_factor * circular_sum(state, *scaling.outer_filter(layer))
            window = window + by_windows[layer]
            numbers[0] += (state * branches.pop()).sum(axis=0)
            numbers[1] += 2.0 * (of_window * window + of_branch * state).sum(axis=0)
            inner = circular_sum(window, *scaling.inner_filter(layer))
            state = constants.skip_scale * state + inner
        numbers[1] *= self.bias[cases]
        squares = circular_sum(state, *scaling.input_filter) + by_windows[0]
        pixels = apart(self.root)[0] * apart(self.pixels)
        gradient = 2.0 * squares * pixels + apart(self.by_pixels)
        gradient += self.by_means[:, None, cases] / d
        gradient *= math.sqrt(scaling.input_scale / scaling.input_filter.n_taps)
        return np.ascontiguousarray(gradient.transpose(2, 0, 1)), numbers


class WeightedPairs:
    """The weights of pairs in a sum of kernels, and the sum's derivatives by both sides' signals.

    `sides` are one or two, and `scaling` gives the constants of a length. `weights`, of each kind
    of kernels, are (left case, right case) or (pairs,), in the order of the batch. With the `roots`
    √K(x,x) and √K(z,z) of each kind, without scales, kernels are normalized.

    Attributes
    ----------
    lefts, rights : Signals
        One object if X is with itself. Tiles then give both sides of the pairs above the diagonal.
    weights, roots
        In the order of the signals.
    factors : list of two arrays (kinds, …)
        The factors of each pair's derivatives, by the left and by the right signal.
    """

    def __init__(
        self,
        sides: Sequence[OrderedSignals],
        scaling: Callable[[int], Scaling],
        weights: Sequence[np.ndarray],
        roots: Any,
    ) -> None:
        self.lefts = self.rights = Signals(sides[0], scaling)
        if len(sides) > 1:
            self.rights = Signals(sides[1], scaling)
        left, right = self.lefts.order, self.rights.order
        pair = weights[0].ndim == 1
        ordered = [w[left] if pair else w[np.ix_(left, right)] for w in weights]
        if len(sides) == 1 and not pair:
            ordered = [np.triu(w) + np.tril(w, -1).T for w in ordered]
        self.weights, self.roots, self._powers = np.stack(ordered), None, [0, 0]
        if roots is not None:
            self.roots = [(of_left[left], of_right[right]) for of_left, of_right in roots]
            product = np.array([x * z if pair else x[:, None] * z for x, z in self.roots])
            known = product > 0
            factor = np.where(known, self.weights / np.where(known, product, 1.0), 0.0)
            self.factors = [factor, factor]
            return
        # K(x, z) is s_x s_z k(x/s_x, z/s_z): the s_x of the derivative by x cancels.
        scales = self.rights.scale, self.lefts.scale
        self._powers = [int(np.frexp(scale)[1].max()) for scale in scales]
        s_z, s_x = (np.ldexp(s, -p) for s, p in zip(scales, self._powers, strict=True))
        self.factors = [self.weights * s_z, self.weights * (s_x if pair else s_x[:, None])]

    def leave_out(self, pairs: np.ndarray) -> None:
        """Set the factors of some pairs to 0."""
        self.factors = [np.where(pairs, 0.0, factor) for factor in self.factors]

    def add_means(self, scaling: Scaling, kinds: Sequence[str]) -> None:
        """Add the derivatives of the products of means, which are apart (`Scaling.adds_mean`)."""
        lefts, rights = self.lefts, self.rights
        for kind, of_left, of_right in zip(kinds, *self.factors, strict=True):
            if not scaling.adds_mean:
                return
            initial = scaling.network.parts.initial if kind == "ntk" else 1.0
            factor = initial * scaling.input_filter.n_taps * math.ldexp(1.0, -scaling.exponents[-1])
            if of_left.ndim == 1:
                left, right = rights.means * of_left, lefts.means * of_right
            else:
                left, right = rights.means @ of_left.T, lefts.means @ of_right
            lefts.by_means += factor * left
            rights.by_means += factor * right

    def derivatives(self, scaling: Scaling) -> Derivatives:
        """Return the results, for which derivatives have been added to both sides."""
        factor, exponent = scaling.correction(scaling.depth), 0
        if self.roots is None:
            factor = factor * scaling.network.readout_scale
            exponent = scaling.exponent(scaling.depth)
        gradients, numbers = [], np.zeros(2)
        sides = [self.lefts] if self.rights is self.lefts else [self.lefts, self.rights]
        for signals, power in zip(sides, self._powers, strict=False):
            scale, power = signals.scale[np.argsort(signals.order)], power + exponent
            of_signals, of_numbers = signals.derivatives()
            sizes = np.ones(len(scale))
            if self.roots is None:
                of_numbers = np.ldexp(scale, power) * of_numbers
            else:
                sizes[scale > 0] = scale[scale > 0]  # a signal of zeros has 0
            numbers += factor * of_numbers.sum(axis=1)
            gradients.append([
                np.ldexp(factor * gradient / size, power)
                for gradient, size in zip(of_signals, sizes, strict=True)
            ])  # fmt: skip
        return Derivatives(gradients, numbers)


class GradientRun(ReferenceGram):
    """The derivatives of a kernel of one kind, of its `weights` and `roots` (`WeightedPairs`).

    They are computed in float64 also for float32: windows that are nearly proportional lose eps/θ.
    """

    def __init__(
        self, request: Request, X: Batch, Z: Batch | None, weights: np.ndarray, roots: Any
    ) -> None:
        super().__init__(replace(request, dtype="float64"), X, Z)
        self.tile_entries = max(1, min(self.tile_entries, _ENTRIES // request.depths[-1]))
        self.left.windows = self.right.windows = False
        sides = [self.left] if self.symmetric else [self.left, self.right]
        self.pairs = WeightedPairs(sides, self.scaling, [weights], roots and [roots])
        self.pair = weights.ndim == 1
        self.lefts, self.rights = self.pairs.lefts, self.pairs.rights

    def derive(
        self, left_cases: slice, right_cases: slice, left: SignalTables, right: SignalTables
    ) -> Any:
        """Return the derivatives of a tile, of both sides."""
        lengths = self.right.lengths[right_cases]
        tile = self._tile(left_cases.start, left, right, lengths, self.pair)
        left_pixels, right_pixels = self.lefts.places(left_cases), self.rights.places(right_cases)
        inputs = tuple(
            side.exact_inputs(cases)
            for side, cases in ((self.left, left_cases), (self.right, right_cases))
        )
        depth, channels = self.request.depths[-1], len(self.lefts.pixels)
        sums = [
            (np.zeros((depth + 1, n)), np.zeros((channels, n)))
            for n in (left_pixels.stop - left_pixels.start, right_pixels.stop - right_pixels.start)
        ]
        numbers = np.zeros((2, left_cases.stop - left_cases.start))
        weights = self._weights(left_cases, right_cases)[0]
        for block in tile.blocks:
            rows = tile.rows if len(tile.blocks) == 1 else tile.rows.some(block)
            sides = tile.sides(rows)
            recursion = AdjointRecursion(self.request, tile.scaling, *sides, rows, inputs=inputs)
            for _ in recursion.kernels():
                pass
            adders = self._adders(rows, left_cases, right_cases)
            for layer, *of_sides in recursion.adjoints():
                for k, (adjoint, add) in enumerate(zip(of_sides, adders, strict=True)):
                    add(sums[k][0][layer], adjoint)
            vectors: list[list[Any]]
            if recursion.turns:
                vectors = [
                    [joined_pixels(getattr(each, name) for each in of_side) for of_side in inputs]
                    for name in ("unit_vectors", "rests")
                ]
            else:
                both = self.lefts.vectors(left_pixels), self.rights.vectors(right_pixels)
                vectors = [list(pair) for pair in zip(*both, strict=True)]
            a, b, other_a, other_b = recursion.input
            for channel in range(channels):
                (x, z), (x_rest, z_rest) = (
                    [side.axes(table[channel]) for side, table in zip(sides, tables, strict=True)]
                    for tables in vectors
                )
                delta = (x - recursion.sign * z) + (x_rest - recursion.sign * z_rest)
                adders[0](sums[0][1][channel], -(a * delta + b * x))
                adders[1](sums[1][1][channel], other_a * delta + other_b * x)
            for k, value in enumerate((recursion.by_alpha, recursion.by_bias)):
                if np.ndim(value):
                    each = weights * rows.total(value)
                    numbers[k] += each[0] if self.pair else each.sum(axis=1)
        return left_cases, right_cases, (*sums[0], numbers), sums[1]

    def _weights(self, left_cases: slice, right_cases: slice) -> list[np.ndarray]:
        """Return the factors of a tile's pairs, by either side."""
        cases: Any = left_cases if self.pair else (left_cases, right_cases)
        return [factor[cases] for (factor,) in self.pairs.factors]

    def _adders(self, rows: Rows, left_cases: slice, right_cases: slice) -> list[Any]:
        """Return functions that add (pixel, left case, row, 1), weighted, to pixels of a side."""
        case, d = rows.case, rows.left
        right_pixels = np.asarray(rows.pixels()).ravel()
        weights = self._weights(left_cases, right_cases)
        left_weights, right_weights = (each[..., case] for each in weights)

        def scatter(places: np.ndarray, weights: np.ndarray, out: np.ndarray, term: Array) -> None:
            weighted = (term[..., 0] * weights).sum(axis=1)
            out += np.bincount(places, weighted.ravel(), len(out))

        def to_left(out: np.ndarray, term: Array) -> None:
            out += (term[..., 0] * left_weights).sum(axis=2).T.ravel()

        to_right = partial(scatter, right_pixels, right_weights)
        if not self.pair:
            return [to_left, to_right]
        left_pixels = (case * d + np.arange(d)[:, None]).ravel()
        return [partial(scatter, left_pixels, left_weights), to_right]

    def add(self, left_cases: slice, right_cases: slice, of_left: Any, of_right: Any) -> None:
        """Add the derivatives of a tile to both sides."""
        self.lefts.add(left_cases, *of_left)
        self.rights.add(right_cases, *of_right)

    def derivatives(self) -> Derivatives:
        """Return the results, after all tiles."""
        scaling = self.scaling(self._longest)
        self.pairs.add_means(scaling, self.request.kinds)
        return self.pairs.derivatives(scaling)


def vjp(
    request: Request, X: Batch, Z: Batch | None, weights: Sequence[np.ndarray], roots: Any,
    tick: Tick,
) -> Derivatives:  # fmt: skip
    """Return the derivatives of the weighted sum of the kernels of `X` with `Z` (None: `X`).

    `weights` and `roots`, of each of the request's kinds, are as for `WeightedPairs`. Weights of
    pairs are of a case of X and the same case of Z.
    """
    keep_freed_memory()
    first, *others = (
        _of_kind(replace(request, kinds=(kind,)), X, Z, of_kind, roots and roots[k], tick)
        for k, (kind, of_kind) in enumerate(zip(request.kinds, weights, strict=True))
    )
    for sums in others:
        first.add(sums)
    return first


def _of_kind(
    request: Request, X: Batch, Z: Batch | None, weights: np.ndarray, roots: Any, tick: Tick
) -> Derivatives:
    """Return the derivatives of kernels of one kind."""
    run = GradientRun(request, X, Z, weights, roots)
    if run.pair:
        places = np.arange(len(weights))
        for lefts, _ in run.batches(places, places):
            cases = slice(int(lefts[0]), int(lefts[-1]) + 1)
            left = run.left.tables(lefts)
            right = left if Z is None else run.right.tables(lefts)
            run.add(*run.derive(cases, cases, left, right))
            tick(len(lefts))
        return run.derivatives()
    with run.pool() as pool:
        for tiles in run.tiles():
            for left, right, *of_sides in pool.map(lambda tile: run.derive(*tile), tiles):
                run.add(left, right, *of_sides)
                tick((left.stop - left.start) * (right.stop - right.start))
    return run.derivatives()


def vjp_paired(request: Request, X: Batch, weights: Sequence[np.ndarray]) -> Derivatives:
    """Return the derivatives of the weighted sum of the kernels k(x, x) of `X` without scales."""
    ones = np.ones(len(X))
    return vjp(request, X, None, weights, [(ones, ones)] * len(weights), silent)
