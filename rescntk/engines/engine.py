"""`Engine`: what every engine declares and computes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from ..arrays import Batch, SignalList, array_module
from ..network import unknown_field
from .request import Request, ScaledKernel
from .work import Tick


class Engine(ABC):
    """An engine computes kernels. It declares its networks and arrays; others are refused by name.

    Batches are arrays of one length, or both are lists, only for the head "gap".
    """

    name: ClassVar[str]
    """As users give it."""
    fields: ClassVar[frozenset[str]]
    """The fields of `Network` that it knows; others must have their defaults."""
    activations: ClassVar[frozenset[str] | None]
    """The names of the activations that it has formulas of its own for. None: it asks the
    activation's object (`activations.Activation`)."""
    arrays: ClassVar[frozenset[str]]
    """The modules of the arrays that it takes: "numpy", "cupy"."""
    lists: ClassVar[bool]
    """Whether it takes signals of different lengths."""

    def why_not(self) -> str | None:
        """Return the reason why it does not work on this machine, or None."""
        return None

    def refuses(self, request: Request, X: Batch) -> str | None:
        """Return the reason why it does not take a request and signals, or None."""
        activation = request.network.activation
        if (module := array_module(X).__name__) not in self.arrays:
            return (
                f"it requires NumPy arrays, and got {'CuPy' if module == 'cupy' else module} arrays"
            )
        if unknown := unknown_field(request.network, self.fields):
            return f"the {unknown} for it"
        if self.activations is not None and activation not in self.activations:
            only = " or ".join(map(repr, sorted(self.activations)))
            more = "; the reference engine takes CuPy arrays too" * ("cupy" in self.arrays)
            return f"it supports only activation={only} (got {activation!r}){more}"
        if isinstance(X, SignalList) and not self.lists:
            return "it takes signals of one length, and these have different lengths"
        return None

    def is_fast(self, request: Request, n_pixels: int) -> bool:
        """Return whether signals of `n_pixels` pixels are of a size that it is made for."""
        return True

    def prepared(self, request: Request, X: Batch) -> Any:
        """Return signals in the form that `compute` takes at least cost, for many calls.

        It has `nbytes`. Kernels have the same bits as with the signals themselves, which is what
        this returns unless an engine has tables that are worth their memory.
        """
        return X

    @abstractmethod
    def bytes_of_pair(self, request: Request, channels: int, *lengths: int) -> int:
        """Return the bytes that the least piece of work holds at a time, without results.

        It is a pair of signals of two lengths, or of one length a signal with itself.
        """

    def compute(
        self, request: Request, X: Batch, Z: Batch | None, tick: Tick, paired: bool = False
    ) -> ScaledKernel:
        """Return the kernel of each case of `X` with each of `Z` (None: of `X`, symmetric).

        If `paired`, of each case of `X` with the same case of `Z` (None: with itself).
        """
        scaled = self._compute(request, X, Z, tick, paired)
        return scaled.mirrored() if Z is None and not paired else scaled

    @abstractmethod
    def _compute(
        self, request: Request, X: Batch, Z: Batch | None, tick: Tick, paired: bool
    ) -> ScaledKernel:
        """Return what `compute` returns; of a symmetric result only the cases k ≥ i count."""
