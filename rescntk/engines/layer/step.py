"""`Step`: what one step of a layer does to signals alone, and to the pixel pairs of two signals.

A layer is a list of steps (network_steps.py), each a class in a file of its own: norm.py,
convolution.py, bias.py, activation.py, skip.py and joined.py. A step says

- what becomes of the variances of a signal's pixels, F at x = z and j = j' (`Step.variances`);
- which numbers of a signal its pixel pairs need: its *rows* in the signal's table;
- what becomes of the pixel pairs of two signals, given the rows of both (`Step.pairs`).

Arrays of NumPy and CuPy write the rows of each signal to a table and read them for all pairs. JAX
computes the rows of both sides when a pair needs them, so that they are differentiated. What a step
asks of either is in `OneSide` and `BothSides`. Compiled engines read the rows from the same tables
and have the formulas of pixel pairs in formulas.h.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias, TypeVar

from ...arrays import AnyArray
from ...network.activations import Activation
from .constants import LayerConstants, NetworkConstants
from .taps import NO_TAPS, Taps
from .weights import RoundedWeights, Weights

PixelValues: TypeAlias = AnyArray
"""A number of each pixel of some signals, (n, *pixels); in JAX of one signal, (*pixels)."""

PairValues: TypeAlias = AnyArray
"""A number of each pixel pair: (pairs, *pixels, *pixels') of all pixel pairs, (pairs, *pixels) of
equal pixels, (pairs, *offsets, *pixels) of pooled heads. JAX's arrays have no axis of pairs."""


class Variances(NamedTuple):
    """The variances of the pixels of signals."""

    variance: PixelValues
    rounding_error: PixelValues | None
    """What variances with biases have lost by rounding, or None in networks without biases. The
    next bias adds it: the losses have the same sign in all layers."""
    root: PixelValues
    """The root of the variance."""


class Deficits(NamedTuple):
    """The deficits of pixel pairs; U⁺ is None where 2 g − U has its digits."""

    U: PairValues
    U_plus: PairValues | None


class Kernels(NamedTuple):
    """The kernels of pixel pairs, without the part of F⁰."""

    F: PairValues | None
    """F of the features, K of a branch; None before the activation."""
    A: PairValues | None
    """A of the features and of pre-activations, M of a branch; None if no tangent kernel is asked
    for."""


class PairState(NamedTuple):
    """What goes from step to step of pixel pairs."""

    deficits: Deficits
    kernels: Kernels
    variances: tuple[Variances, ...] = ()
    """Those of both signals; empty where tables have what follows of them."""


Record = TypeVar("Record", Deficits, Kernels)


def mapped(function: Callable[..., AnyArray], *records: Record) -> Record:
    """Return a record with `function` of the records' fields, and None where one of them is None.

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


class OneSide(Protocol):
    """What a step asks about signals alone: functions of their arrays, and numbers of its layer."""

    @property
    def xp(self) -> Any:
        """The module of the arrays: numpy, cupy or jax.numpy."""

    @property
    def least_root(self) -> float:
        """Least root of a variance that divides in the precision of tables."""

    @property
    def activation(self) -> Activation:
        """The activation of all layers."""

    @property
    def layer_constants(self) -> LayerConstants:
        """The constants of the layer."""

    @property
    def weights(self) -> RoundedWeights:
        """The weights of features and branch behind the layer."""

    def root(self, values: PixelValues) -> PixelValues:
        """Return √values; its derivative at 0 is 0."""

    def positive(self, values: PixelValues) -> PixelValues:
        """Return values that are safe to divide by.

        Where `values` are 0 the numerators are 0 too, so that any positive number serves.
        """

    def at_taps(self, values: PixelValues, taps: Taps) -> list[PixelValues]:
        """Return the values at some taps, the middle one first."""

    def bias_variance(self, is_branch: bool) -> PixelValues:
        """Return the variance that biases add, before or behind the activation."""

    def norm_root(self) -> PixelValues:
        """Return the root of the variance of normalized features."""

    def state(self, variance: PixelValues) -> Variances:
        """Return variances that have no rounding errors yet."""

    def check_features(self, features: Variances) -> None:
        """Raise an OverflowError if features have no digits that could be normalized."""

    def check_preactivations(self, variance: PixelValues) -> None:
        """Raise an OverflowError if the activation's formulas lose digits of pre-activations."""

    def check_activated(self, variance: PixelValues) -> None:
        """Raise an OverflowError if variances behind the activation left the range of float64."""


class DualPairs(NamedTuple):
    """The dual activations of pixel pairs, before a layer's weights."""

    K: PairValues
    deficits: Deficits
    times_slope: Callable[[PairValues], PairValues]
    """Multiplies numbers by E[σ'(u)σ'(v)]."""
    covariance: Callable[[], PairValues]
    """Returns Σ, the covariance of the pre-activations."""


class BothSides(Protocol):
    """What a step asks about the pixel pairs of two signals, from the rows of both."""

    @property
    def constants(self) -> NetworkConstants:
        """The constants of all layers."""

    @property
    def variances(self) -> tuple[Variances, ...]:
        """The variances of both signals behind the step, as `PairState` has them."""

    @property
    def layer_constants(self) -> LayerConstants:
        """The constants of the layer."""

    @property
    def weights(self) -> RoundedWeights:
        """The weights of features and branch behind the layer, in the working precision."""

    def row(self, place: int) -> tuple[PairValues, PairValues]:
        """Return one of the step's rows, of both sides; they broadcast to the pixel pairs."""

    def mean(self, taps: Taps, values: PairValues) -> PairValues:
        """Return the means over some taps, which move both pixels."""

    def bias_product(self, is_branch: bool) -> PairValues:
        """Return the product of both sides' biases, before or behind the activation."""

    def dual(self, deficits: Deficits, inner_variance: float | None) -> DualPairs:
        """Return the dual activations of pixel pairs, of `inner_variance` times their variances.

        None stands for 1.
        """

    def by_pieces(
        self, function: Callable[[BothSides, PairState], PairState], state: PairState
    ) -> PairState:
        """Return `function` of the sides and the state, which takes each pixel pair alone."""


class Step(ABC):
    """A step of a layer. Like layers share their steps, so that steps know no layer's numbers."""

    kind: ClassVar[str]
    """Its name in `OperationKind` of compiled/records.h."""
    taps: Taps = NO_TAPS
    """The taps whose pixels it reads."""
    is_branch: bool
    """Whether it is the activation of its layer, or comes after it."""

    @property
    def root_place(self) -> int | None:
        """The place, among its rows, of the roots behind it. None if roots do not change."""
        return 0

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """The number of its rows."""

    @abstractmethod
    def variances(
        self, at: OneSide, before: Variances, features: Variances
    ) -> tuple[Variances, Iterator[PixelValues]]:
        """Return the variances behind the step, and its rows, which are computed when asked for.

        `features` are the variances with which the layer begins.
        """

    @abstractmethod
    def pairs(self, at: BothSides, before: PairState, features: PairState) -> PairState:
        """Return the pixel pairs behind the step.

        `features` are those with which the layer begins.
        """

    def weights(self, layer: LayerConstants) -> Weights | None:
        """Return the weights by which it merges a part of features and of the branch, or None."""
        return None

    def bias_root(self, constants: NetworkConstants, layer_number: int) -> float:
        """Return the root of the variance of biases that it adds, as `NetworkConstants` has it."""
        return 0.0
