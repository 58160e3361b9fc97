"""`Engine`: what every engine declares, and `Plan`: how it computes a request."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Protocol

from .. import memory
from ..arrays import Batch, SignalList, array_module
from ..network.parameters import unknown_field
from .request import Request, ScaledKernel
from .work import Tick, silent

_BLOCK_SHARE = 1 / 8
"""Largest share of the free memory that the tables of one block of signals may take."""


class EngineSignals(Protocol):
    """Checked signals as an engine takes them: a `Batch`, or what `with_tables` has returned."""

    @property
    def nbytes(self) -> int:
        """Bytes of the signals and of all that is held with them."""

    def __len__(self) -> int:
        """Return the number of signals."""


class Engine(ABC):
    """An engine computes kernels. It declares its networks and arrays; others are refused by name.

    Batches are arrays of one length, or both are lists, only for the head "gap".
    """

    name: ClassVar[str]
    """As users give it."""
    known_fields: ClassVar[frozenset[str]]
    """The fields of `Network` that it knows; others must have their defaults."""
    activations: ClassVar[frozenset[str] | None]
    """The names of the activations that it has formulas of its own for. None: it asks the
    activation's object (`activations.Activation`)."""
    arrays: ClassVar[frozenset[str]]
    """The modules of the arrays that it takes by its name: "numpy", "cupy"."""
    auto_arrays: ClassVar[frozenset[str]]
    """Those of them that the name "auto" gives it."""
    lists: ClassVar[bool]
    """Whether it takes signals of different lengths."""
    absence: ClassVar[str | None] = None
    """What "auto" warns of, once in a process, when it passes this engine over because it does not
    work on the machine."""

    def why_not(self) -> str | None:
        """Return the reason why it does not work on this machine, or None."""
        return None

    def refuses(self, request: Request, X: Batch) -> str | None:
        """Return the reason why it cannot compute a request of signals on this machine, or None."""
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

    def with_tables(self, request: Request, X: Batch) -> EngineSignals:
        """Return signals in the form that plans take at least cost, for many calls.

        Kernels have the same bits as with the signals themselves. This returns them unless an
        engine has tables that are worth their memory.
        """
        return X

    @abstractmethod
    def plan(
        self,
        request: Request,
        X: EngineSignals,
        Z: EngineSignals | None = None,
        paired: bool = False,
    ) -> Plan:
        """Return how the engine computes the kernels of each case of `X` with each of `Z`.

        Without Z, of `X` with itself: the kernels are symmetric. If `paired`, of each case of `X`
        with the same case of `Z`, or without Z with itself. Both may be in the form of
        `with_tables`.
        """


class Plan(ABC):
    """A request on signals as an engine will compute it, before tables of signals and kernels.

    Parameters
    ----------
    request : Request
    X, Z, paired
        As for `Engine.plan`.
    lengths : tuple of int
        Pixels of the longest signals of X and of Z.

    Attributes
    ----------
    shape : tuple of int
        Cases of X and of Z; cases and 1 of pairs.
    symmetric : bool
        Whether kernels are computed for the cases k ≥ i alone, and mirrored.
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
    def bytes(self) -> float:
        """Bytes that the computation holds at a time in the host's memory, without results."""

    @property
    def extent(self) -> int:
        """The length of results' axes of pixels. Shares have the pixels of X."""
        return self.lengths[0] if self.request.shares else max(self.lengths)

    @property
    def result_axes(self) -> tuple[int, ...]:
        """The axes of results behind depths: (cases, cases), or (cases,) if paired, and pixels."""
        cases = self.shape[:1] if self.paired else self.shape
        return (*cases, *self.request.pixel_axes(self.extent))

    def room_for_results(self) -> float:
        """Return the free bytes where results belong; infinity where the engine does not know."""
        return memory.free_bytes()

    def compute(self, tick: Tick = silent) -> ScaledKernel:
        """Return the kernels. `tick` is called with numbers of pairs that are done."""
        scaled = self._compute(tick)
        return scaled.mirrored() if self.symmetric else scaled

    @abstractmethod
    def _compute(self, tick: Tick) -> ScaledKernel:
        """Return what `compute` returns; of symmetric kernels only the cases k ≥ i count."""


def room_for_tables(most: float, needed: float) -> float:
    """Return the bytes that tables of one block may take: `most`, or less of a small free memory.

    The free memory is read only if all tables need more than a quarter of `most`.
    """
    return most if needed <= most / 4 else min(most, _BLOCK_SHARE * memory.free_bytes())
