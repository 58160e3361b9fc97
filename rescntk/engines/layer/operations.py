"""A network as a list of operations, with the rows of tables that each of them reads.

A *merge* joins parts p of two pixels, with the roots of variances a_p and b_p, into a² = Σ a_p² and
b² = Σ b_p².
Part 0 has the most weight. All others have *coordinates* u_p = a_p / (a + a_0) and
v_p = b_p / (b + b_0). The whole has the deficit ::

    U = a b (1 − ρ) = Σ_p U_p + ½ (a + a_0) (b + b_0) Σ_p>0 (u_p − v_p)².

All terms are positive (docs/theory/deficits.md). Roots and coordinates belong to single signals:
they are the rows of tables (tables.py), in the order of operations. Weights of features and
branch are in constants.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import chain, repeat
from typing import NamedTuple

import numpy as np

from ...arrays import Array
from ...lazy import once
from ...network import Network
from ..request import ScaledKernel
from .constants import NetworkConstants
from .order import Order, Step, order_of
from .weights import RoundedWeights
from .window import NO_WINDOW, Window

_TAP_BYTES = 1500
"""Bytes of a tap of the largest window, an object of Python in a list."""

_OPERATION_BYTES = 220
"""Bytes of an operation, with its numbers and its record."""

_LAYER_BYTES, _UNLIKE_LAYER_BYTES = 270, 3500
"""Bytes of a layer's weights and its record; and of one that has constants of its own, whose exact
fractions with normalization take most."""


class Operation(NamedTuple):
    """A step of a layer, with the rows of tables that it reads.

    An "activation" has the row 1/a, where a is the root before it. A "norm" has the root n of
    normalized features, 0 where features are 0, and n/a.

    A merge has the root a of the whole, (a + a_0) / √2, and the coordinates of all other parts. The
    parts are the taps of a "window"; the state and the bias of a "bias"; features and branch of a
    "skip"; and the taps of a "joined" operation (`order.joined`).
    """

    kind: str
    """As of `Step`."""
    layer_number: int
    """The layer, from 1 on; 0 of the input filter."""
    row: int
    """The first of its rows."""
    root_row: int
    """The row of the roots before the operation, which an earlier one has written."""
    window: Window = NO_WINDOW
    """The taps of a "window" and of a "joined" operation."""
    is_branch: bool = False
    """Whether it is the activation of its layer, or comes after it."""
    has_root: bool = False
    """Whether an activation writes the roots of its branch, in one more row.

    A homogeneous activation writes none: its branch has the roots of the pre-activations.
    """

    @property
    def factor_row(self) -> int:
        """The row of a norm's n/a, or of a merge's (a + a_0) / √2."""
        return self.row + 1

    @property
    def coordinate_rows(self) -> range:
        """The rows of a merge's coordinates."""
        return range(self.row + 2, self.row + self.n_rows)

    @property
    def n_rows(self) -> int:
        """The number of its rows."""
        if self.kind == "window":
            return 1 + self.window.n_taps
        rows = {"activation": 1 + self.has_root, "norm": 2, "bias": 3, "skip": 3, "joined": 6}
        return rows[self.kind]


@dataclass(frozen=True)
class Operations:
    """The operations of a network on signals (`n_axes` 1) or images (2), and their constants.

    Tables begin with `n_channels` rows of unit vectors and the root of each pixel's energy.
    """

    network: Network
    depth: int
    n_channels: int
    n_axes: int = 1
    rewritten: Order | None = None
    """The order of steps, where it is not the network's own."""

    @once
    def order(self) -> Order:
        """The steps of layers, from the input filter on."""
        return self.rewritten or order_of(self.network, self.depth, self.n_axes)

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
        rows = self.n_channels + 1
        for layers in self.order:
            operations = map(self._operation, layers.steps)
            rows += layers.n_layers * sum(operation.n_rows for operation in operations)
        return rows

    @once
    def object_bytes(self) -> float:
        """Bytes of the objects of Python that describe the network, beside arrays."""
        steps = [step for layers in self.order for step in layers.steps]
        most_taps = max((step.window.n_taps for step in steps), default=0)
        n_operations = sum(layers.n_layers * len(layers.steps) for layers in self.order)
        layer_bytes = _LAYER_BYTES if self.constants.has_like_layers else _UNLIKE_LAYER_BYTES
        operation_bytes = _OPERATION_BYTES * n_operations
        return _TAP_BYTES * most_taps + operation_bytes + layer_bytes * self.depth

    @once
    def _numbered(self) -> tuple[tuple[Operation, ...], ...]:
        """The operations of layers 0 … L, with the numbers of their rows."""
        row, root_row, numbered = self.n_channels + 1, self.n_channels, []
        repeated = (repeat(layers.steps, layers.n_layers) for layers in self.order)
        for layer_number, steps in enumerate(chain.from_iterable(repeated)):
            operations = []
            for step in steps:
                operation = self._operation(step, layer_number, row, root_row)
                operations.append(operation)
                if operation.kind != "activation":
                    root_row = row
                elif operation.has_root:
                    root_row = row + 1
                row += operation.n_rows
            numbered.append(tuple(operations))
        return tuple(numbered)

    def _operation(
        self, step: Step, layer_number: int = 0, row: int = 0, root_row: int = 0
    ) -> Operation:
        has_root = step.kind == "activation" and not self.network.homogeneous
        kind, window, is_branch = step
        return Operation(kind, layer_number, row, root_row, window, is_branch, has_root)

    def joined_weights(self, layer_number: int) -> tuple[float, ...]:
        """Return the weights of the taps of a joined merge: b (1 2 3 2 1)/9, and f in the middle.

        b and f are the weights of branch and features. In layer 1, whose pre-activations have no
        window, a third of f is in each of the middle three taps.
        """
        constants = self.constants.of_layer(layer_number)
        taps = (0, 1, 1, 1, 0) if layer_number == 1 else (0, 0, 1, 0, 0)
        weights = constants.weights.rounded
        branch, features = weights.branch, weights.features / sum(taps)
        pairs = zip((1, 2, 3, 2, 1), taps, strict=True)
        return tuple(branch * ninths / 9.0 + features * is_tap for ninths, is_tap in pairs)

    @once
    def constants(self) -> NetworkConstants:
        """The constants of all layers."""
        return NetworkConstants(self.network, self.depth)

    def scaled(
        self, depths: tuple[int, ...], values: dict[str, Array], left: Array, right: Array
    ) -> ScaledKernel:
        """Return kernels with the sizes of signals and the divisors of layers, changed in place."""
        powers = [(1.0, 0)] * len(depths)
        if self.network.homogeneous:
            powers = [self.constants.total_divisor(depth) for depth in depths]
        for value in values.values():
            for t, (mantissa, _) in enumerate(powers):
                value[t] *= mantissa
        return ScaledKernel(values, left, right, tuple(exponent for _, exponent in powers))


@lru_cache(maxsize=64)
def rounded_weights(operations: Operations, dtype: str) -> dict[int, RoundedWeights]:
    """Return the weights of features and branch in a precision, by the row of their merge.

    One rounded weight for all L layers would multiply kernels by up to (1 + eps)^L. So a weight is
    rounded up in some layers and down in others: its product over layers keeps its digits.
    """
    roundings: dict[Fraction, Iterator[float]] = {}

    def rounded(weight: Fraction) -> float:
        return next(roundings.setdefault(weight, _roundings(weight, dtype)))

    weights = {}
    for operation in chain(operations.input, *operations.layers):
        if operation.kind not in ("skip", "joined"):
            continue
        features, branch, form = operations.constants.of_layer(operation.layer_number).weights
        if operation.kind == "joined":  # weights of one tap; in layer 1 three taps have features
            branch, features = branch / 9, features / 3 if operation.layer_number == 1 else features
        weights[operation.row] = RoundedWeights(rounded(features), rounded(branch), form)
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
