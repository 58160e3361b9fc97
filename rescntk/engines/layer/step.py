"""`Step`: one step of a layer, such as a convolution, and what it does to variances and kernels.

A layer is a list of steps (network_steps.py). Each kind of step is a class in a file of its own:
norm.py, convolution.py, bias.py, activation.py, skip.py and joined.py. A step defines

- how it changes the variances of a signal's pixels, which are F at x = z, j = j' (`variances`);
- its *rows*: arrays with one number per pixel of a single signal, which it needs for pixel pairs;
- how it changes the deficits and kernels of the pixel pairs of two signals, given the rows of both
  signals (`pairs`).

The engine "array" computes the rows of each signal once, writes them to the signal's table, and
reads them for all pairs of signals. JAX computes the rows of both signals for each pair, so that it
can differentiate them. A step gets the constants of its layer and the functions of the engine from
a *context*: a `SignalContext` for single signals, and a `PairContext` for pairs. Each engine has a
class for each of both protocols. Compiled engines read their rows from tables too; their formulas
for pixel pairs are in compiled/formulas.h.

The two *sides* are the left and the right signals of pairs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias, TypeVar

from ...arrays import AnyArray
from ...network.activations import Activation
from .constants import LayerConstants
from .network_constants import NetworkConstants
from .taps import NO_TAPS, Taps
from .weights import RoundedWeights, Weights

PixelValues: TypeAlias = AnyArray
"""One number per pixel: (n, *pixels) for n signals; in JAX (*pixels), for one signal."""

PairValues: TypeAlias = AnyArray
"""One number per pixel pair. The shape is (pairs, *pixels, *pixels') if all pixel pairs of each
pair of signals are computed, (pairs, *pixels) if only pairs of equal pixels are, and
(pairs, *offsets, *pixels) for pooled heads. The arrays of JAX have no axis of pairs."""


class Variances(NamedTuple):
    """The variances of the pixels of signals."""

    variance: PixelValues
    rounding_error: PixelValues | None
    """The accumulated rounding error of the variance, or None in networks without biases. The next
    bias step adds it to the variance, since these errors would have the same sign in all layers."""
    std: PixelValues
    """The standard deviation, the square root of the variance."""


class Deficits(NamedTuple):
    """The deficits of pixel pairs. U⁺ is None if 2 g − U is accurate enough in its place."""

    U: PairValues
    U_plus: PairValues | None


class Kernels(NamedTuple):
    """The kernels of pixel pairs, without their multiples of F⁰.

    Which kernels they are depends on the place in the layer. ::

        before the first step, and after the last one  F, A  of the features
        between the first step and the activation      –, A  of the pre-activations
        between the activation and the last step       K, M  of the branch
    """

    F: PairValues | None
    """F or K. It is None between the first step and the activation."""
    A: PairValues | None
    """A or M. It is None if no tangent kernel was requested."""


class PairState(NamedTuple):
    """The numbers of pixel pairs that one step passes on to the next."""

    deficits: Deficits
    kernels: Kernels
    variances: tuple[Variances, ...] = ()
    """The variances of both signals. The tuple is empty if the rows are read from tables."""


Record = TypeVar("Record", Deficits, Kernels)


def mapped(function: Callable[..., AnyArray], *records: Record) -> Record:
    """Return a record whose fields are `function` of the same fields of `records`.

    A field is None if it is None in one of the records.

    Examples
    --------
    >>> from rescntk.engines.layer.step import Deficits, mapped
    >>> mapped(max, Deficits(1, 4), Deficits(3, None))
    Deficits(U=3, U_plus=None)
    """
    results = (
        None if any(value is None for value in values) else function(*values)
        for values in zip(*records, strict=True)
    )
    return type(records[0])(*results)


class SignalContext(Protocol):
    """What a step may ask about single signals: functions of arrays, and constants of its layer."""

    @property
    def xp(self) -> Any:
        """The module of the arrays: numpy, cupy or jax.numpy."""

    @property
    def least_std(self) -> float:
        """The smallest standard deviation by which a step may divide, in the tables' precision."""

    @property
    def activation(self) -> Activation:
        """The activation of all layers."""

    @property
    def layer_constants(self) -> LayerConstants:
        """The constants of the layer."""

    @property
    def layer_weights(self) -> RoundedWeights:
        """The weights f and b of the layer, rounded to float64, for variances of signals.

        `PairContext.weights` may differ from them.
        """

    def sqrt(self, values: PixelValues) -> PixelValues:
        """Return √values. Its derivative at 0 is taken to be 0."""

    def positive(self, values: PixelValues) -> PixelValues:
        """Return `values` with the numbers that are 0 replaced by positive ones, as divisors.

        Steps divide only 0 by a value of 0, so that the replacement does not matter.
        """

    def at_taps(self, values: PixelValues, taps: Taps) -> list[PixelValues]:
        """Return one array for each tap, the middle tap first: the values at this tap."""

    def bias_variance(self, after_activation: bool) -> PixelValues:
        """Return the variance of the biases before the activation, or of those after it."""

    def norm_std(self) -> PixelValues:
        """Return the standard deviation of normalized features."""

    def exact_variances(self, variance: PixelValues) -> Variances:
        """Return `Variances` whose rounding errors are 0, or None in networks without biases."""

    def check_features(self, features: Variances) -> None:
        """Raise an OverflowError if features are too small to be normalized accurately."""

    def check_preactivations(self, variance: PixelValues) -> None:
        """Raise an OverflowError if the activation's formulas are inaccurate for this variance."""

    def check_activated(self, variance: PixelValues) -> None:
        """Raise an OverflowError if a variance after the activation exceeds float64."""


class DualPairs(NamedTuple):
    """The dual activation at pixel pairs, without the constant factors of a layer."""

    K: PairValues
    deficits: Deficits
    times_slope: Callable[[PairValues], PairValues]
    """A function that multiplies its argument by E[σ'(u)σ'(v)]."""
    covariance: Callable[[], PairValues]
    """A function that returns Σ, the covariance of the pre-activations."""


class PairContext(Protocol):
    """What a step may ask about the pixel pairs of a left and a right signal."""

    @property
    def constants(self) -> NetworkConstants:
        """The constants of the network."""

    @property
    def variances(self) -> tuple[Variances, ...]:
        """The variances of both signals after the step, as in `PairState.variances`."""

    @property
    def layer_constants(self) -> LayerConstants:
        """The constants of the layer."""

    @property
    def weights(self) -> RoundedWeights:
        """The weights of the step (`Step.weights`) in the working precision, for pixel pairs.

        They may be rounded up in some layers and down in others (`weights.rounded_in_turn`).
        """

    def row(self, index: int) -> tuple[PairValues, PairValues]:
        """Return the row at an index among the step's rows, of the left and of the right signal.

        Both arrays broadcast to the shape of the pixel pairs.
        """

    def mean(self, taps: Taps, values: PairValues) -> PairValues:
        """Return the weighted means over the taps. A tap moves both pixels of a pair."""

    def bias_product(self, after_activation: bool) -> PairValues:
        """Return the product of the standard deviations of both signals' biases.

        If `after_activation`, the biases are those after the activation, else those before it.
        """

    def dual(self, deficits: Deficits, inner_variance: float | None) -> DualPairs:
        """Return the dual activation at pixel pairs.

        The variances and covariances of the pixels are multiplied by `inner_variance` first; None
        means 1.
        """

    def by_pieces(
        self, function: Callable[[PairContext, PairState], PairState], state: PairState
    ) -> PairState:
        """Return ``function(self, state)``, which may be computed piece by piece.

        `function` must compute each pixel pair independently of the others.
        """


class Step(ABC):
    """A step of a layer.

    Layers with equal steps share the step objects. A step therefore holds no constants of a layer,
    and asks its context for them.
    """

    kind: ClassVar[str]
    """The step's name in `OperationKind` of compiled/records.h."""
    taps: Taps = NO_TAPS
    """The taps at which the step reads pixels."""
    after_activation: bool
    """Whether the step is the activation of its layer, or comes after it."""

    @property
    def std_index(self) -> int | None:
        """The index, among the step's rows, of the square roots of the variances after the step.

        It is None if the step does not change variances.
        """
        return 0

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """The number of the step's rows."""

    @abstractmethod
    def variances(
        self, context: SignalContext, before: Variances, features: Variances
    ) -> tuple[Variances, Iterator[PixelValues]]:
        """Return the variances after the step, and an iterator that computes the step's rows.

        `before` are the variances before the step, and `features` those at the start of the layer.
        """

    @abstractmethod
    def pairs(self, context: PairContext, before: PairState, features: PairState) -> PairState:
        """Return the state of the pixel pairs after the step.

        `before` is the state before the step, and `features` that at the start of the layer.
        """

    def weights(self, layer: LayerConstants) -> Weights | None:
        """Return the weights with which the step adds features and branch.

        None means that it does not add them.
        """
        return None

    def bias_std(self, constants: NetworkConstants, layer_number: int) -> float:
        """Return `NetworkConstants.bias_std` of the biases that the step adds, or 0."""
        return 0.0
