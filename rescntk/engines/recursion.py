"""`Recursion`: the operations of a layer in their order, for arrays of any module.

Each pixel pair (j, j') of two signals carries, with g = a b the product of both pixels' roots, ::

    U = g (1 − ρ),  U⁺ = g (1 + ρ);     deficits, sums of positive terms (operations.py);
    F, A = T + ι F;                     the two kernels, without the part of the input F⁰.
                                        ι is `Network.carried_parts.readout`.

One layer, with w = 1 − ρ = U / g and v = 1 + ρ, is ::

    U, U⁺, A ← n n' / g times them, of the branch alone;          "norm";
    U, U⁺, A ← windows of the inner filter;                       "window", "bias";
    A_g = A + ([inner] − ι) Σ;  K = g κ₁;                         "activation";
    M = κ₀ A_g + ([outer] + ι) K;
    U, U⁺ = g (1 − κ₁), g (1 + κ₁);                               of ReLU;
    U, U⁺, K, M ← windows of the outer filter;                    "window", "bias";
    U, U⁺ ← merged with the features' deficits;                   "skip";
    F, A ← f F + b K, f A + b M.                                  "skip".  (constants.py)

docs/theory/recursion.md derives it. Subclasses merge deficits: arrays of NumPy and CuPy from tables
of single signals (reference/recursion.py), arrays of JAX from variances, which are differentiated
too (rescntk/jax_recursion.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from ..arrays import AnyArray
from ..network_parts import TrainedParts
from .means import past_skip
from .operations import Operation
from .windows import Window

State = TypeVar("State")
"""What goes through merges beside the kernels: deficits, and variances if there are no tables."""


class Recursion(ABC, Generic[State]):
    """The recursion over the layers of a pair of signals, or of several pairs."""

    parts: TrainedParts
    """Those of the tangent kernel A that the layers carry."""
    linear: AnyArray
    """F⁰, (…, *pixels) or (…, *pixels, *pixels)."""

    def layer(
        self,
        of_layer: tuple[Operation, ...],
        state: State,
        kernels: list[AnyArray],
        input_factor: AnyArray,
    ) -> tuple[State, list[AnyArray]]:
        """Return the state, and F and A, behind a layer; A is left out if it is not asked for.

        F and A lack F⁰, of which the features hold the multiple `input_factor` before the layer.
        """
        before, weights = state, (0.0, 1.0)
        # A before the activation; K, and M if A is asked for, behind it.
        branch = [A + self.parts.initial * input_factor * self.linear for A in kernels[1:]]
        for operation in of_layer:
            if operation.kind == "norm":
                state, factor = self.norm(operation, state)
                branch = [factor * A for A in branch]
            elif operation.kind == "activation":
                state, branch = self.activate(operation, state, branch)
            elif operation.kind == "window":
                state = self.window(operation, state)
                branch = [self.mean(values, operation.window) for values in branch]
            elif operation.kind == "bias":
                state, product = self.bias(operation, state)
                multiples = self.parts.of_bias(operation.is_branch)
                branch = [
                    values + c * product for values, c in zip(branch, multiples, strict=False)
                ]
            elif operation.kind == "skip":
                state, weights = self.skip(operation, before, state)
            else:
                raise NotImplementedError(f"arrays have no operation {operation.kind!r}")
        pairs = zip(kernels, branch, strict=True)
        return state, [self.past_skip(*pair, weights) for pair in pairs]

    def past_skip(
        self, features: AnyArray, branch: AnyArray, weights: tuple[float, float]
    ) -> AnyArray:
        """Return kernels behind a skip connection."""
        return past_skip(features, branch, *weights)

    @abstractmethod
    def norm(self, operation: Operation, state: State) -> tuple[State, AnyArray]:
        """Return the state of normalized features, and the factor on their tangent kernel."""

    @abstractmethod
    def activate(
        self, operation: Operation, state: State, tangent: list[AnyArray]
    ) -> tuple[State, list[AnyArray]]:
        """Return the branch's state, and K and M, of pre-activations with A in `tangent`."""

    @abstractmethod
    def window(self, operation: Operation, state: State) -> State:
        """Return the state behind a window."""

    @abstractmethod
    def mean(self, values: AnyArray, window: Window) -> AnyArray:
        """Return the means of kernels over the taps of a window, which moves both pixels."""

    @abstractmethod
    def bias(self, operation: Operation, state: State) -> tuple[State, AnyArray]:
        """Return the state with a bias, and the product of both sides' biases."""

    @abstractmethod
    def skip(
        self, operation: Operation, features: State, branch: State
    ) -> tuple[State, tuple[float, float]]:
        """Return the state behind a skip connection, and the weights of features and branch."""
