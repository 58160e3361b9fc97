"""A network as a list of operations: norms, windows, biases, activations, skip connections.

A *merge* joins parts p with root masses a_p and b_p of two pixels into a² = Σ a_p², b² = Σ b_p².
Part 0 has the most weight. All others have *coordinates* u_p = a_p / (a + a_0) and
v_p = b_p / (b + b_0). The whole has the deficit ::

    U = a b (1 − ρ) = Σ_p U_p + ½ (a + a_0) (b + b_0) Σ_p>0 (u_p − v_p)².

All terms are positive (docs/theory/recursion.md). Roots and coordinates belong to single signals:
they are the rows of tables (tables.py), in the order of operations. Weights of parts are in
constants.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import chain, repeat
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array
from ..network import Network
from ..network_parts import Filter
from .constants import AllConstants
from .once import once
from .request import ScaledKernel

_MOST_TAPS = 1 << 20
"""Largest factor of a filter's size that is looked for."""


class Window(NamedTuple):
    """Taps `dilation` pixels apart along an axis, around their own pixel."""

    n_taps: int
    dilation: int
    axis: int
    """0 of signals; of images 0 across lines, 1 along them."""
    is_triangle: bool = False
    """Whether five taps have weights 1 2 3 2 1, as two windows of three; else they are equal."""

    @property
    def weights(self) -> tuple[float, ...]:
        """The weights of the taps, the middle one first; they add up to 1."""
        whole = (3, 1, 2, 2, 1) if self.is_triangle else (1,) * self.n_taps
        return tuple(weight / self.total for weight in whole)

    @property
    def total(self) -> int:
        """The sum of the weights in units of the smallest."""
        return 9 if self.is_triangle else self.n_taps

    @property
    def offsets(self) -> range:
        """The pixels of the taps, counted from the merge's own pixel."""
        reach = self.dilation * (self.n_taps // 2)
        return range(-reach, reach + 1, self.dilation)


class Operation(NamedTuple):
    """An operation of a layer. An "activation" has the table row 1/a, of the root a before it.

    A "norm" has the root n of normalized features, 0 where features are 0, and n/a.

    A merge has, from `row` on, the root a of the whole, (a + a_0) / √2, and the coordinates of all
    other parts. The parts are the taps of a "window"; the state and the bias of a "bias"; features
    and branch of a "skip"; and five taps of a "joined" operation. This is two filters of 3 and the
    skip connection at once, from the pre-activations of a layer to the next layer's.
    """

    kind: str
    layer: int
    row: int
    root: int
    """The row of the roots before the operation."""
    window: Any = None
    """The `Window` of a "window"."""
    is_branch: bool = False
    """Whether the operation is after the activation of its layer."""
    has_root: bool = False
    """Whether an activation has one more row, the root of its branch: not of homogeneous ones,
    whose branch has the roots of the pre-activations."""

    @property
    def n_rows(self) -> int:
        if self.window is not None:
            return 1 + self.window.n_taps
        rows = {"activation": 1 + self.has_root, "norm": 2, "bias": 3, "skip": 3, "joined": 6}
        return rows[self.kind]


def windows_of(given: Filter) -> Iterator[Window]:
    """Yield the windows that make a filter; each has a prime number of taps.

    Factors above `_MOST_TAPS` stay together: no table has a row for each of so many taps.
    """
    for axis in reversed(range(given.n_axes)):
        dilation, size = given.dilation, given.size
        while size > 1:
            most = min(math.isqrt(size), _MOST_TAPS)
            primes = (p for p in range(3, most + 1, 2) if size % p == 0)
            n_taps = next(primes, size)
            yield Window(n_taps, dilation, axis)
            dilation, size = dilation * n_taps, size // n_taps


@dataclass(frozen=True)
class Operations:
    """The operations of a network on signals (`n_axes` 1) or images (2), and their constants.

    Tables begin with `n_channels` rows of unit vectors and the root of each pixel's energy.
    """

    network: Network
    depth: int
    n_channels: int
    n_axes: int = 1
    ends_early: bool = False
    """Whether the last layer ends with its activation: sums over pixels need no more."""
    joined: bool = False
    """Whether layers lead from pre-activations to pre-activations, so that the filters around them
    are one: each pair of windows of three becomes five taps."""
    fused: bool = False
    """Whether such a layer is one merge, with the skip connection in the middle tap."""

    @once
    def input(self) -> tuple[Operation, ...]:
        """The windows of the input filter."""
        return self._numbered[0]

    @once
    def layers(self) -> tuple[tuple[Operation, ...], ...]:
        """The operations of layers 1 … L."""
        return self._numbered[1:]

    @once
    def n_rows(self) -> int:
        """The number of rows of a signal's table, at any depth at no cost."""
        rows, stop = self.n_channels + 1, self.depth + 1
        for layer in reversed(self._different):
            of_layer = (self._operation(*each) for each in self._of_layer(layer))
            rows += (stop - layer) * sum(operation.n_rows for operation in of_layer)
            stop = layer
        return rows

    @property
    def _different(self) -> Sequence[int]:
        """The layers whose operations may differ from those of the layer before, from 0 on."""
        if self.network.is_uniform:
            return sorted({min(layer, self.depth) for layer in (0, 1, 2, 3, self.depth)})
        return range(self.depth + 1)

    @once
    def _numbered(self) -> tuple[tuple[Operation, ...], ...]:
        row, root, layers = self.n_channels + 1, self.n_channels, []
        different, of_layer = {*self._different}, []
        for layer in range(self.depth + 1):
            if layer in different:
                of_layer = [*self._of_layer(layer)]
            operations = []
            for each in of_layer:
                operation = self._operation(*each, layer, row, root)
                operations.append(operation)
                if operation.kind != "activation":
                    root = row
                elif operation.has_root:
                    root = row + 1
                row += operation.n_rows
            layers.append(tuple(operations))
        return tuple(layers)

    def _operation(
        self, kind: str, window: Window | None, is_branch: bool, layer: int = 0, row: int = 0,
        root: int = 0,
    ) -> Operation:  # fmt: skip
        has_root = kind == "activation" and not self.network.homogeneous
        return Operation(kind, layer, row, root, window, is_branch, has_root)

    def _of_layer(self, layer: int) -> Iterator[tuple[str, Window | None, bool]]:
        net, n_axes = self.network, self.n_axes
        if layer == 0:
            for window in windows_of(net.input_filter._replace(n_axes=n_axes)):
                yield "window", window, False
            return
        of_layer = net.layer(layer)
        if net.norm:
            yield "norm", None, False
        if not self.joined or (layer == 2 and not self.fused):
            for window in windows_of(net.inner_filter(layer)._replace(n_axes=n_axes)):
                yield "window", window, False
        if of_layer.bias:
            yield "bias", None, False
        yield "activation", None, True
        if self.ends_early and layer == self.depth:
            return
        if self.fused:
            yield "joined", None, True
            return
        triangles = self.joined and layer > 1
        for window in windows_of(net.outer_filter(layer)._replace(n_axes=n_axes)):
            if triangles:
                window = window._replace(n_taps=5, is_triangle=True)
            yield "window", window, True
        if of_layer.bias:
            yield "bias", None, True
        if any(net.values_of("skip")) or self.constants.of_layer(layer).share != 1.0:
            yield "skip", None, True

    @property
    def may_join(self) -> bool:
        """True if layers can be joined: all filters have one size, a power of 3; no bias or norm.

        Inner or outer weights are trained too, or A is 0. Else layers hardly change A, and sums of
        five taps round alike in all of them.
        """
        net, size = self.network, self.network.filter_size
        if not isinstance(size, int) or isinstance(net.skip, tuple):
            return False
        while size % 3 == 0:
            size //= 3
        alike = net.filter_size == net.outer_filter_size != 1 and net.dilation == 1
        parts = net.parts.carried
        changes = parts.inner or parts.outer or not parts.initial
        return size == 1 and alike and not (net.has_bias or net.norm) and bool(changes)

    @property
    def may_fuse(self) -> bool:
        """True if a joined layer can be one merge: filters are of 3, and the network is plain.

        The mass of K is the mass of Σ, so that all parts of one pixel make one part.
        """
        net = self.network
        plain = net.filter_size == 3 and net.is_relu and self.n_axes == 1
        more = net.parts.carried.inner_minus_readout or self.constants.has_opposite
        return plain and not more

    def joined_weights(self, layer: int) -> tuple[float, ...]:
        """Return the weights of the taps of a joined merge: share (1 2 3 2 1)/9, and `keep`.

        `keep` is in the middle; in layer 1, whose pre-activations have no window, in the middle
        three taps.
        """
        constants = self.constants.of_layer(layer)
        kept = (0, 1, 1, 1, 0) if layer == 1 else (0, 0, 1, 0, 0)
        keep, pairs = constants.keep / sum(kept), zip((1, 2, 3, 2, 1), kept, strict=True)
        return tuple(constants.share * w / 9.0 + keep * k for w, k in pairs)

    @once
    def constants(self) -> AllConstants:
        """The constants of all layers."""
        return AllConstants(self.network, self.depth)

    def scaled(
        self, depths: tuple[int, ...], values: dict[str, Array], left: Array, right: Array
    ) -> ScaledKernel:
        """Return kernels with the sizes of signals and the growth of layers, changed in place."""
        powers = [(1.0, 0)] * len(depths)
        if self.network.homogeneous:
            powers = [self.constants.power(depth) for depth in depths]
        for value in values.values():
            for t, (mantissa, _) in enumerate(powers):
                value[t] *= mantissa
        return ScaledKernel(values, left, right, tuple(exponent for _, exponent in powers))


@lru_cache(maxsize=64)
def rounded_weights(operations: Operations, dtype: str) -> dict[int, tuple[float, float]]:
    """Return the weights of features and branch in a precision, by the row of their merge.

    A weight that were rounded alike in all layers would multiply kernels by (1 + eps)^L. It is
    rounded up in some layers and down in others: products over layers keep their digits.
    """
    known: dict[Fraction, Iterator[float]] = {}

    def rounded(*weights: Fraction) -> tuple[float, float]:
        keep, share = (next(known.setdefault(w, _roundings(w, dtype))) for w in weights)
        return keep, share

    weights = {}
    for operation in chain(operations.input, *operations.layers):
        if operation.kind not in ("skip", "joined"):
            continue
        constants = operations.constants.of_layer(operation.layer)
        share, keep = Fraction(constants.share), Fraction(constants.layer.skip)
        if operations.network.homogeneous:
            keep *= 1 - share
        if operation.kind == "skip":
            weights[operation.row] = rounded(keep, share)
        else:  # three taps of layer 1 have a third of the features each
            weights[operation.row] = rounded(keep / 3 if operation.layer == 1 else keep, share / 9)
    return weights


def _roundings(weight: Fraction, dtype: str) -> Iterator[float]:
    """Yield a weight, rounded up or down so that the product of all that was yielded is nearest."""
    nearest = np.dtype(dtype).type(float(weight))
    if nearest < np.finfo(dtype).tiny:
        yield from repeat(float(nearest))
    near = (nearest, np.nextafter(nearest, np.float32(0)), np.nextafter(nearest, np.float32(2)))
    errors = {float(value): float(Fraction(float(value)) / weight - 1) for value in near}
    total = 0.0
    while True:
        value = min(errors, key=lambda value: abs(total + errors[value]))
        total += errors[value]
        yield value
