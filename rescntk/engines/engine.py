"""`Engine`, the base class of all engines, and `Plan`, an engine's computation of one request."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

from .. import memory
from ..arrays import Batch, SignalList, array_module
from ..network.parameters import unknown_field
from .request import Request, ScaledKernel
from .work import Tick, silent

_BLOCK_SHARE = 1 / 8
"""The largest fraction of the free memory that the tables of one block of signals may occupy."""


class EngineSignals(Protocol):
    """Checked signals in a form that an engine accepts: a `Batch` or a result of `with_tables`."""

    @property
    def nbytes(self) -> int:
        """Bytes of the signals and of the tables that are kept with them."""

    def __len__(self) -> int:
        """Return the number of signals."""


WithTables = TypeVar("WithTables")
"""The type of the signals that an engine's `with_tables` returns."""


class Engine(ABC, Generic[WithTables]):
    """An engine computes kernels.

    Its class attributes declare which networks and arrays it supports; a request for others is
    refused with a message that names what is not supported. The batches of left and right signals
    are both arrays, each with signals of one length, or both `SignalList`, which only the head
    "gap" allows.
    """

    name: ClassVar[str]
    """The name by which users choose the engine."""
    known_fields: ClassVar[frozenset[str]]
    """The fields of `Network` that the engine supports. All others must have their defaults."""
    activations: ClassVar[frozenset[str] | None]
    """The names of the activations that the engine supports by its own formulas. None means that it
    supports all activations and uses the formulas of `activations.Activation`."""
    arrays: ClassVar[frozenset[str]]
    """The array modules that the engine accepts if it is chosen by name: "numpy", "cupy"."""
    auto_arrays: ClassVar[frozenset[str]]
    """The array modules for which "auto" may choose the engine."""
    lists: ClassVar[bool]
    """Whether the engine accepts signals of different lengths."""
    missing_warning: ClassVar[str | None] = None
    """The beginning of a warning for users of "auto" if the engine does not work on their machine.
    None means that there is no warning."""

    def why_not(self) -> str | None:
        """Return the reason why the engine does not work on this machine, or None if it works."""
        return None

    def refuses(self, request: Request, X: Batch) -> str | None:
        """Return the reason why the engine cannot compute a request for `X` here, or None."""
        activation = request.network.activation
        if (module := array_module(X).__name__) not in self.arrays:
            return (
                f"it requires NumPy arrays, and got {'CuPy' if module == 'cupy' else module} arrays"
            )
        if unknown := unknown_field(request.network, self.known_fields):
            return f"the {unknown} for it"
        if self.activations is not None and activation not in self.activations:
            only = " or ".join(map(repr, sorted(self.activations)))
            more = "; engine='array' takes CuPy arrays too" * ("cupy" in self.arrays)
            return f"it supports only activation={only} (got {activation!r}){more}"
        if isinstance(X, SignalList) and not self.lists:
            return "it takes signals of one length, and these have different lengths"
        return self.why_not()

    def with_tables(self, request: Request, X: Batch) -> Batch | WithTables:
        """Return signals in a form that makes many calls of `plan` with them cheaper.

        The kernels are bitwise equal to those of the signals themselves. By default the signals are
        returned unchanged; an engine overrides this if its tables are worth their memory.
        """
        return X

    @abstractmethod
    def plan(
        self,
        request: Request,
        X: Batch | WithTables,
        Z: Batch | WithTables | None = None,
        paired: bool = False,
    ) -> Plan:
        """Return the plan that computes the kernel of each signal of `X` with each signal of `Z`.

        If `Z` is None, `X` takes its place, and the kernel matrix is symmetric. If `paired`, the
        plan computes only the kernel of each signal of `X` with the signal of the same index in
        `Z`; if `Z` is None, with itself. `X` and `Z` may be results of `with_tables`.
        """


AnyEngine: TypeAlias = Engine[Any]
"""An engine, whatever signals its `with_tables` returns."""


class Plan(ABC):
    """The computation of a request for given signals by one engine.

    A plan is made before tables of signals or kernels are computed; `compute` computes them.

    Parameters
    ----------
    request : Request
    X, Z, paired
        The same as in `Engine.plan`.
    lengths : tuple of int
        The numbers of pixels of the longest signals of X and of Z.

    Attributes
    ----------
    shape : tuple of int
        The numbers of signals of X and of Z. The second number is 1 if `paired`.
    symmetric : bool
        Whether kernels are computed only for the cases i and k with k ≥ i, and then mirrored.
    """

    def __init__(
        self,
        request: Request,
        X: EngineSignals,
        Z: EngineSignals | None,
        paired: bool,
        lengths: tuple[int, int],
    ) -> None:
        self.request, self.paired, self.lengths = request, paired, lengths
        self.symmetric = Z is None and not paired
        self.shape = len(X), 1 if paired else len(X if Z is None else Z)

    @property
    @abstractmethod
    def peak_bytes(self) -> float:
        """The peak memory of the computation in bytes, on the host and without the results."""

    @property
    def extent(self) -> int:
        """The length of the pixel axes of the results. Shares have one axis, of the pixels of X."""
        return self.lengths[0] if self.request.shares else max(self.lengths)

    @property
    def result_shape(self) -> tuple[int, ...]:
        """The shape of the results after the axis of depths.

        It is (cases, cases), or (cases,) if paired, followed by the pixel axes if there are any.
        """
        cases = self.shape[:1] if self.paired else self.shape
        return (*cases, *self.request.result_pixel_shape(self.extent))

    def room_for_results(self) -> float:
        """Return the free bytes of the memory that the results need, or infinity if unknown."""
        return memory.free_bytes()

    def compute(self, tick: Tick = silent) -> ScaledKernel:
        """Compute and return the kernels.

        `tick` is called repeatedly with the number of signal pairs computed since its last call.
        """
        scaled = self._compute(tick)
        return scaled.mirrored() if self.symmetric else scaled

    @abstractmethod
    def _compute(self, tick: Tick) -> ScaledKernel:
        """Return the kernels; if they are symmetric, only those of the cases k ≥ i need be set."""


def room_for_tables(most: float, needed: float) -> float:
    """Return how many bytes the tables of one block of signals may occupy.

    This is `most`, or less if the free memory is small. `needed` are the bytes of the tables of all
    signals. The free memory is not looked up if they are at most a quarter of `most`.
    """
    return most if needed <= most / 4 else min(most, _BLOCK_SHARE * memory.free_bytes())
