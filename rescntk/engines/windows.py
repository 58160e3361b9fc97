"""A network as a list of operations: windows, biases, activations and skip connections.

A *merge* joins parts p with root masses a_p and b_p of two pixels into a² = Σ a_p², b² = Σ b_p².
Part 0 has the most weight. All others have *coordinates* u_p = a_p / (a + a_0) and
v_p = b_p / (b + b_0). The whole has the deficit ::

    U = a b (1 − ρ) = Σ_p U_p + ½ (a + a_0) (b + b_0) Σ_p>0 (u_p − v_p)².

All terms are positive (docs/theory/recursion.md). Roots and coordinates belong to single signals:
they are the rows of tables (tables.py), in the order of operations. Kernels are divided by the
sizes of both signals and by the growth G of each layer: ::

    F ← keep F + share (box(K) + bias);     keep = [skip] / G;  share = β / G.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import chain, repeat
from typing import Any, NamedTuple

import numpy as np

from ..activations import activation_of
from ..arrays import Array
from ..network import Network
from ..network_parts import Filter
from .once import once
from .request import ScaledKernel

MOST_BITS = 500
"""Most bits by which a layer may multiply or divide variances; others are refused. More bits leave
the range of float64."""


def check_growth(network: Network) -> float:
    """Return `Network.growth`, or raise a ValueError if it leaves the range of float64."""
    growth = network.growth
    if network.has_branch and not 2.0**-MOST_BITS <= growth <= 2.0**MOST_BITS:
        raise ValueError(
            f"network multiplies variances by {growth:.3g} at each layer, expected a number "
            f"between 2^-{MOST_BITS} and 2^{MOST_BITS}"
        )
    return growth


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
        return {"activation": 1 + self.has_root, "bias": 3, "skip": 3, "joined": 6}[self.kind]


def windows_of(given: Filter) -> Iterator[Window]:
    """Yield the windows that make a filter; each has a prime number of taps."""
    for axis in reversed(range(given.n_axes)):
        dilation, size = given.dilation, given.size
        while size > 1:
            primes = (p for p in range(3, math.isqrt(size) + 1, 2) if size % p == 0)
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
        if isinstance(self.network.dilation, int):
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
        if not self.joined or (layer == 2 and not self.fused):
            for window in windows_of(net.inner_filter(layer)._replace(n_axes=n_axes)):
                yield "window", window, False
        if net.bias:
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
        if net.bias:
            yield "bias", None, True
        if net.skip or self.share != 1.0:
            yield "skip", None, True

    @property
    def may_join(self) -> bool:
        """True if layers can be joined: both filters have one size, a power of 3; no bias.

        Inner or outer weights are trained too, or A is 0. Else layers hardly change A, and sums of
        five taps round alike in all of them.
        """
        net, size = self.network, self.network.filter_size
        while size % 3 == 0:
            size //= 3
        alike = net.filter_size == net.outer_filter_size > 1 and net.dilation == 1
        parts = net.parts.carried
        changes = parts.inner or parts.outer or not parts.initial
        return size == 1 and alike and not net.bias and bool(changes)

    @property
    def may_fuse(self) -> bool:
        """True if a joined layer can be one merge: filters are of 3, and the network is plain.

        The mass of K is the mass of Σ, so that all parts of one pixel make one part.
        """
        net = self.network
        plain = net.filter_size == 3 and net.is_relu and self.n_axes == 1
        return plain and not net.parts.carried.inner_minus_readout and not self.has_opposite

    def joined_weights(self, layer: int) -> tuple[float, ...]:
        """Return the weights of the taps of a joined merge: share (1 2 3 2 1)/9, and `keep`.

        `keep` is in the middle; in layer 1, whose pre-activations have no window, in the middle
        three taps.
        """
        kept = (0, 1, 1, 1, 0) if layer == 1 else (0, 0, 1, 0, 0)
        pairs = zip((1, 2, 3, 2, 1), kept, strict=True)
        return tuple(self.share * w / 9.0 + self.keep * k / sum(kept) for w, k in pairs)

    # -- constants of all layers

    @once
    def growth(self) -> float:
        """G, by which layers are divided: `Network.growth`, at least 1 with biases.

        It is 1 of activations that are not homogeneous: their layers depend on sizes.
        """
        if not self.network.homogeneous:
            return 1.0
        growth = check_growth(self.network)
        return max(growth, 1.0) if self.network.bias or not growth else growth

    @once
    def share(self) -> float:
        """β / G, the factor on a layer's branch; 1 where activations are not homogeneous."""
        net = self.network
        if not net.homogeneous:
            return 1.0
        return net.branch_share if self.growth == net.growth else net.branch_gain / self.growth

    @once
    def keep(self) -> float:
        """[skip] / G, the factor on the features that pass a layer."""
        if not self.network.homogeneous:
            return float(self.network.skip)
        return 1.0 - self.share if self.network.skip else 0.0

    @once
    def branch_scale(self) -> float:
        """The factor on `Activation.dual`: α² c_v, or 1 if β / G is multiplied afterwards."""
        return 1.0 if self.network.homogeneous else self.network.alpha**2 * self.network.c_v

    @once
    def linear_share(self) -> float:
        """λ = 2s / (1 + s²): a leaky ReLU of slope s has κ = (1 − λ) κ_relu + λ κ_linear."""
        return activation_of(self.network).linear_share

    @property
    def is_weak(self) -> bool:
        """True if layers may add little to the features: what cancels in these decides kernels."""
        return self.share < 2.0**-4 or not self.network.homogeneous

    @once
    def has_opposite(self) -> bool:
        """True if U⁺ = a b (1 + ρ) is carried too, since 2 − w has too few digits of v = 1 + ρ.

        A ReLU layer leaves v ≥ (1 − λ) share / 2 at most pixel pairs. Above 2^-5 rounding errors of
        2 − w cost κ0 less than two units. Other activations may keep pixels opposite.
        """
        least = activation_of(self.network).least_opposite
        return least < 0.1 or (self.network.skip and least * self.share < 2.0**-4)

    @once
    def branch_bias(self) -> float:
        """The ratio of biases' roots after and before the activation, in the units of a layer."""
        net = self.network
        if not net.homogeneous:
            return net.alpha * math.sqrt(net.c_w)
        return 1.0 / math.sqrt(net.c_v * net.activation_gain / 2.0) if net.bias else 0.0

    def bias(self, layer: int, is_branch: bool = False) -> float:
        """Return the root of the mass that a bias 1 adds in a layer, at a signal of size 1.

        It is 0 of a network without biases.
        """
        if not self.network.bias:
            return 0.0
        before = self.growth ** (-0.5 * (layer - 1)) / math.sqrt(self.network.c_w)
        return before * (self.branch_bias if is_branch else 1.0)

    @lru_cache(maxsize=256)  # noqa: B019
    def power(self, layer: int) -> tuple[float, int]:
        """Return G^layer as m · 2^e, with m between ½ and 2, exact but for one rounding."""
        net, two = self.network, decimal.Decimal(2)
        with decimal.localcontext(prec=60, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN):
            alpha, c_v, c_w = map(decimal.Decimal, (net.alpha, net.c_v, net.c_w))
            gain = activation_of(net).gain
            growth = net.skip + alpha**2 * c_v * c_w * gain.numerator / gain.denominator
            if self.growth != net.growth:
                growth = decimal.Decimal(1)
            bits = growth.log10() / two.log10() * layer
            exponent = int(bits.to_integral_value(decimal.ROUND_FLOOR))
            return float(growth**layer / two**exponent), exponent

    def scaled(
        self, depths: tuple[int, ...], values: dict[str, Array], left: Array, right: Array
    ) -> ScaledKernel:
        """Return kernels with the sizes of signals and the growth of layers, changed in place."""
        powers = [(1.0, 0)] * len(depths)
        if self.network.homogeneous:
            powers = [self.power(depth) for depth in depths]
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

    share = Fraction(operations.share)
    keep = Fraction(operations.network.skip)
    if operations.network.homogeneous:
        keep *= 1 - share
    weights = {}
    for operation in chain(operations.input, *operations.layers):
        if operation.kind == "skip":
            weights[operation.row] = rounded(keep, share)
        elif operation.kind == "joined":  # three taps of layer 1 have a third of the features each
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
