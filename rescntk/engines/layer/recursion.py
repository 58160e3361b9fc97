"""`Recursion`: the operations of a layer in their order, for arrays of any module.

Each pixel pair (j, j') of two signals carries, with g = a b the product of both pixels' roots, ::

    U = g (1 − ρ),  U⁺ = g (1 + ρ);     deficits, sums of positive terms (operations.py);
    F, A = T + ι F;                     the two kernels, without the part of the input F⁰.
                                        ι is `NetworkConstants.carried_parts.readout`.

One layer, with w = 1 − ρ = U / g and v = 1 + ρ, is ::

    U, U⁺, A ← n n' / g times them, of the branch alone;          "norm";
    U, U⁺, A ← windows of the inner filter;                       "window", "bias";
    A_g = A + ([inner] − ι) Σ;  K = g κ₁;                         "activation";
    M = κ₀ A_g + ([outer] + ι) K;
    U, U⁺ = g (1 − κ₁), g (1 + κ₁);                               of ReLU;
    U, U⁺, K, M ← windows of the outer filter;                    "window", "bias";
    U, U⁺ ← merged with the features' deficits;                   "skip";
    F, A ← f F + b K, f A + b M.                                  "skip".  (constants.py)

docs/theory/deficits.md derives it. Three subclasses have methods for the kinds of operations:

- `array.pairs.Pairs`: pairs of signals, arrays of NumPy and CuPy, from tables;
- `jax.pairs.PairLayer`: a pair of signals, arrays of JAX, from variances, which are
  differentiated;
- `variances.SignalVariances`: signals alone, whose variances the tables hold. They have no kernels.
  They alone have a method for "joined", which compiled engines compute themselves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from operator import add, mul
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from ...arrays import AnyArray
from ...network.parts import TrainedParts
from .constants import NetworkConstants
from .operations import Operation
from .weights import Form, RoundedWeights
from .window import Window

State = TypeVar("State")
"""What goes through merges beside the kernels: deficits, and variances if there are no tables."""


PairNumbers: TypeAlias = AnyArray
"""A number of each pixel pair: (pairs, *pixels, *pixels') of all pixel pairs, (pairs, *pixels) of
equal pixels, (pairs, *offsets, *pixels) of pooled heads. JAX's arrays have no axis of pairs."""


class Deficits(NamedTuple):
    """The deficits of pixel pairs; U⁺ is None where 2 g − U has its digits."""

    U: PairNumbers
    opposite: PairNumbers | None


class Kernels(NamedTuple):
    """The kernels of pixel pairs. What is not computed is None: A if it is not asked for."""

    F: PairNumbers | None
    """F of the features, K of a branch; None before the activation."""
    A: PairNumbers | None
    """A of the features and of pre-activations, M of a branch."""


NO_KERNELS = Kernels(None, None)

_BRANCH = RoundedWeights(0.0, 1.0, Form.BRANCH_ALONE)
"""The weights of a layer without a skip connection."""

Record = TypeVar("Record", Deficits, Kernels)


def mapped(function: Callable[..., AnyArray], *records: Record) -> Record:
    """Return a record with `function` of the records' fields, and None where one of them is None.

    Examples
    --------
    >>> from rescntk.engines.layer.recursion import Deficits, mapped
    >>> mapped(max, Deficits(1, 4), Deficits(3, None))
    Deficits(U=3, opposite=None)
    """
    results = (
        None if any(value is None for value in values) else function(*values)
        for values in zip(*records, strict=True)
    )
    return type(records[0])(*results)


def by_kind(
    constants: NetworkConstants, kernels: Kernels, input_weight: float
) -> dict[str, tuple[PairNumbers, float]]:
    """Return the kernel of each kind without the part of F⁰, and the weight of F⁰ in it.

    The features hold `input_weight` times F⁰.
    """
    (F, A), parts = kernels, constants.network.parts
    if A is not None and parts.readout != constants.carried_parts.readout:  # ι is 0: A is T
        A = A + F
    return {"gpk": (F, input_weight), "ntk": (A, input_weight * parts.initial)}


class Recursion(ABC, Generic[State]):
    """The recursion over the layers of a pair of signals, or of several pairs.

    `SignalVariances` alone is of single signals, and has no kernels: all its kernels are None.
    """

    trained: TrainedParts
    """Those of the tangent kernel A that the layers carry."""

    def behind_layer(
        self,
        layer_operations: tuple[Operation, ...],
        state: State,
        kernels: Kernels,
        input_weight: AnyArray,
        F0: PairNumbers,
    ) -> tuple[State, Kernels]:
        """Return the state and the kernels behind a layer, from those before it.

        F and A lack F⁰. The features hold `input_weight` times F⁰, `F0`.
        """
        features, weights, A = state, _BRANCH, kernels.A
        if A is not None:
            A = A + self.trained.initial * input_weight * F0
        branch = Kernels(None, A)
        for operation in layer_operations:
            if operation.kind == "norm":
                state, factor = self.norm(operation, state)
                branch = mapped(partial(mul, factor), branch)
            elif operation.kind == "activation":
                state, branch = self.activate(operation, state, branch.A)
            elif operation.kind == "window":
                state = self.window(operation, state)
                branch = mapped(partial(self.mean, operation.window), branch)
            elif operation.kind == "bias":
                state, product = self.bias(operation, state)
                tangent = self.trained.bias_multiple(operation.is_branch) * product
                branch = mapped(add, branch, Kernels(product, tangent))
            elif operation.kind == "skip":
                state, weights = self.skip(operation, features, state)
            elif operation.kind == "joined":
                state = self.joined(operation, state)
            else:
                raise NotImplementedError(f"arrays have no operation {operation.kind!r}")
        return state, mapped(weights.merged, kernels, branch)

    @abstractmethod
    def norm(self, operation: Operation, state: State) -> tuple[State, PairNumbers]:
        """Return the state of normalized features, and n n'/g, the factor on the tangent kernel.

        `SignalVariances`, which has no tangent kernel, returns the variance n² in its place.
        """

    @abstractmethod
    def activate(
        self, operation: Operation, state: State, A: PairNumbers | None
    ) -> tuple[State, Kernels]:
        """Return the branch's state, and K and M, of pre-activations with the kernel A."""

    @abstractmethod
    def window(self, operation: Operation, state: State) -> State:
        """Return the state behind a window."""

    @abstractmethod
    def mean(self, window: Window, values: PairNumbers) -> PairNumbers:
        """Return the means of kernels over the taps of a window, which moves both pixels."""

    @abstractmethod
    def bias(self, operation: Operation, state: State) -> tuple[State, PairNumbers]:
        """Return the state with a bias, and the product of both sides' biases."""

    @abstractmethod
    def skip(
        self, operation: Operation, features: State, branch: State
    ) -> tuple[State, RoundedWeights]:
        """Return the state behind a skip connection, and the weights of features and branch."""

    def joined(self, operation: Operation, state: State) -> State:
        """Return the state behind a joined merge, which compiled engines alone have for kernels."""
        raise NotImplementedError("kernels of arrays have no joined layers")
