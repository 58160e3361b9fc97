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
from collections.abc import Iterable
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
from .protocol import Request, Tick
from .reference import (
    ReferenceGram,
    keep_freed_memory,
)
from .scaling import Scaling
from .signal_tables import SignalTables, joined_pixels, read_input

_ENTRIES = 400_000
"""Entries (pixel pairs times layers) of a tile.

Each keeps eight numbers until the way back. More entries take more memory; with fewer, the calls of
NumPy cost more than the arithmetic. Chosen by reasoning: 26 MB for a thread.
"""


class Derivatives(NamedTuple):
    """Derivatives of a weighted sum of kernels by the signals and by numbers of the network.

    Of a sum of kernels, not of normalized ones, derivatives have factors to come: 2**power and the
    readout scale; those by numbers of the network the signal's `scale` too.
    """

    sides: list[list[np.ndarray]]
    """(channels, d) of each signal of X, and of Z; of both together if there is no Z."""

    numbers: list[np.ndarray]
    """(2, cases): each signal's part of the derivatives by log α² and by log β, of each side."""

    scales: list[np.ndarray]
    """(cases,) of each side: the numbers by which signals were divided."""

    powers: tuple[int, int]
    """Of each side."""

    def add(self, more: Derivatives, *cases: np.ndarray) -> None:
        """Add the derivatives of a sum over other pairs, of the `cases` of each side."""
        for k, (side, numbers) in enumerate(zip(more.sides, more.numbers, strict=True)):
            at = min(k, len(self.sides) - 1)  # X with itself
            power = more.powers[k] - self.powers[at]
            for case, gradient, number in zip(cases[k], side, numbers.T, strict=True):
                self.sides[at][case] = self.sides[at][case] + np.ldexp(gradient, power)
                self.numbers[at][:, case] += np.ldexp(number, power)


class Signals:
    """The signals of one side: tables (…, pixels) of all signals joined.

    Signals come from the longest to the shortest: `order` are their places in the batch, and
    `lengths` their lengths. A signal is divided by a number such that F⁰ is the sum over channels
    and the input filter of products of its pixels. The number's inverse is a sum of two numbers,
    `root`.

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

    def __init__(
        self, order: np.ndarray, lengths: np.ndarray, signals: Iterable[tuple[Scaling, Array]]
    ) -> None:
        self.order, self.lengths, parts = order, lengths, []
        self.begins = np.concatenate([[0], np.cumsum(lengths)])
        self._scalings: list[Scaling] = []
        for scaling, X in signals:
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
        pixels, (root, rest) = self.pixels[:, places], self.root[:, places]
        product, error = two_product(pixels, root)
        return product, error + pixels * rest

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
            own = table[:, self.places(cases)]
            return own.reshape(len(own), -1, d).swapaxes(-1, -2)

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


def pair_factors(
    weights: np.ndarray, left: np.ndarray, right: np.ndarray, roots: Any
) -> tuple[np.ndarray, np.ndarray, tuple[int, int]]:
    """Return the factors of each pair's derivatives, by the left and by the right signal.

    Signals have been divided by the sizes `left` and `right`. Two powers of two are taken
    out of the factors. With the `roots` of kernels, kernels are normalized.
    """
    pair = weights.ndim == 1
    if roots is not None:
        product = roots[0] * roots[1] if pair else roots[0][:, None] * roots[1]
        known = product > 0
        weights = np.where(known, weights / np.where(known, product, 1.0), 0.0)
        return weights, weights, (0, 0)
    powers = [int(np.frexp(scale)[1].max()) for scale in (right, left)]
    one, other = (np.ldexp(scale, -p) for scale, p in zip((right, left), powers, strict=True))
    if pair:
        return weights * one, weights * other, (powers[0], powers[1])
    return weights * one, weights * other[:, None], (powers[0], powers[1])


def add_means(
    scaling: Scaling, kind: str, lefts: Signals, rights: Signals, of_left: Any, of_right: Any
) -> None:
    """Add the derivatives of the products of means, which are apart (`Scaling.adds_mean`)."""
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


def derivatives(
    scaling: Scaling, lefts: Signals, rights: Signals, powers: tuple[int, int], normalized: bool
) -> Derivatives:
    """Return the results, for which derivatives have been added to both sides."""
    correction, exponent = scaling.correction(scaling.depth), 0
    if not normalized:
        exponent = scaling.exponent(scaling.depth)
    gradients, numbers, scales = [], [], []
    for signals in [lefts] if rights is lefts else [lefts, rights]:
        # K(x, z) is s_x s_z k(x/s_x, z/s_z): the s_x of a kernel that is not normalized cancels.
        scales.append(signals.scale[np.argsort(signals.order)])
        sizes = np.where(normalized & (scales[-1] > 0), scales[-1], 1.0)  # a signal of zeros: 0
        of_signals, of_numbers = signals.derivatives()
        numbers.append(correction * of_numbers)
        gradients.append([
            correction * gradient / size for gradient, size in zip(of_signals, sizes, strict=True)
        ])  # fmt: skip
    return Derivatives(
        gradients, numbers, scales, powers=(powers[0] + exponent, powers[1] + exponent)
    )


class GradientRun(ReferenceGram):
    """The derivatives of one request. `weights` are S's, (left, right case), in the batch's order.

    They are computed in float64 also for float32: windows that are nearly proportional lose eps/θ.
    `roots` are √K(x,x) and √K(z,z) without scales, if kernels are normalized.
    """

    def __init__(
        self,
        request: Request,
        X: Batch,
        Z: Batch | None,
        weights: np.ndarray,
        roots: tuple[np.ndarray, np.ndarray] | None,
    ) -> None:
        super().__init__(replace(request, dtype="float64"), X, Z)
        self.left.windows = self.right.windows = False
        self.lefts = self.rights = Signals(self.left.order, self.left.lengths, self.left.whole)
        if not self.symmetric:
            self.rights = Signals(self.right.order, self.right.lengths, self.right.whole)
        self.pair, self.normalized = weights.ndim == 1, roots is not None
        left, right = self.left.order, self.right.order
        weights = weights[left] if self.pair else weights[np.ix_(left, right)]
        if self.symmetric and not self.pair:  # tiles give both sides of the pairs above it
            weights = np.triu(weights) + np.tril(weights, -1).T
        if roots is not None:
            roots = roots[0][left], roots[1][right]
        factors = pair_factors(weights, self.lefts.scale, self.rights.scale, roots)
        self.of_left, self.of_right, self.powers = factors

    @property
    def tile_entries(self) -> int:
        return max(1, min(super().tile_entries, _ENTRIES // self.request.depths[-1]))

    def derive(
        self, left_cases: slice, right_cases: slice, left: SignalTables, right: SignalTables
    ) -> Any:
        """Return the derivatives of a tile, of both sides."""
        lengths = self.right.lengths[right_cases]
        tile = self._tile(left_cases.start, left, right, lengths, self.pair)
        left_pixels, right_pixels = self.lefts.places(left_cases), self.rights.places(right_cases)
        inputs = tuple(
            side.exact_inputs(np.arange(cases.start, cases.stop))
            for side, cases in ((self.left, left_cases), (self.right, right_cases))
        )
        depth, channels = self.request.depths[-1], len(self.lefts.pixels)
        sums = [
            (np.zeros((depth + 1, n)), np.zeros((channels, n)))
            for n in (left_pixels.stop - left_pixels.start, right_pixels.stop - right_pixels.start)
        ]
        numbers = np.zeros((2, left_cases.stop - left_cases.start))
        weights = self.of_left[left_cases] if self.pair else self.of_left[left_cases, right_cases]
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

    def _adders(self, rows: Rows, left_cases: slice, right_cases: slice) -> list[Any]:
        """Return functions that add (pixel, left case, row, 1), weighted, to pixels of a side."""
        case, d = rows.case, rows.left
        right_pixels = np.asarray(rows.pixels()).ravel()
        if self.pair:
            left_weights, right_weights = (
                self.of_left[left_cases][case],
                self.of_right[left_cases][case],
            )
        else:
            left_weights = self.of_left[left_cases, right_cases][:, case]
            right_weights = self.of_right[left_cases, right_cases][:, case]

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
        scaling, (kind,) = self.scaling(self._longest), self.request.kinds
        add_means(scaling, kind, self.lefts, self.rights, self.of_left, self.of_right)
        return derivatives(scaling, self.lefts, self.rights, self.powers, self.normalized)


def vjp(
    request: Request,
    X: Batch,
    Z: Batch | None,
    weights: np.ndarray,
    roots: tuple[np.ndarray, np.ndarray] | None,
    tick: Tick,
) -> Derivatives:
    """Return the derivatives of the weighted sum of the kernels of `X` with `Z` (None: `X`).

    `roots` are as for `GradientRun`.
    """
    keep_freed_memory()
    run = GradientRun(request, X, Z, weights, roots)
    with run.pool() as pool:
        for tiles in run.tiles():
            for left, right, *of_sides in pool.map(lambda tile: run.derive(*tile), tiles):
                run.add(left, right, *of_sides)
                tick((left.stop - left.start) * (right.stop - right.start))
    return run.derivatives()


def vjp_paired(
    request: Request, X: Batch, weights: np.ndarray, tick: Tick
) -> tuple[list[np.ndarray], np.ndarray]:
    """Return the derivatives of the weighted sum of the kernels k(x, x) of `X` without scales.

    By each signal, and by log α² and log β. `weights` is (cases,).
    """
    ones = np.ones(len(weights))
    sums = vjp_of_pairs(request, X, None, weights, (ones, ones), tick)
    return sums.sides[0], sums.numbers[0].sum(axis=1)


def vjp_of_pairs(
    request: Request,
    X: Batch,
    Z: Batch | None,
    weights: np.ndarray,
    roots: tuple[np.ndarray, np.ndarray] | None,
    tick: Tick,
) -> Derivatives:
    """Return the same as `vjp` for pairs of a case of X and the same case of Z (None: of X)."""
    keep_freed_memory()
    run = GradientRun(request, X, Z, weights, roots)
    places = np.arange(len(weights))
    for lefts, _ in run.batches(places, places):
        cases = slice(int(lefts[0]), int(lefts[-1]) + 1)
        left = run.left.tables(lefts)
        right = left if Z is None else run.right.tables(lefts)
        run.add(*run.derive(cases, cases, left, right))
        tick(len(lefts))
    return run.derivatives()
