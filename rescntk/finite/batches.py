"""Batches of signals as finite networks take them: one array for each length."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from ..validation import check_signals


class Group(NamedTuple):
    """Signals of one length."""

    indices: np.ndarray
    """(n_group,), their places in the batch."""
    signals: Any
    """(n_group, n_channels, n_timepoints)"""


class Batch(NamedTuple):
    """A batch of signals, grouped by length."""

    groups: tuple[Group, ...]
    n_cases: int
    n_channels: int

    @property
    def lengths(self) -> list[int]:
        """The lengths that occur."""
        return [group.signals.shape[2] for group in self.groups]

    @property
    def arrays(self) -> tuple[Any, ...]:
        """The signals of each group."""
        return tuple(group.signals for group in self.groups)

    @property
    def places(self) -> np.ndarray:
        """Places (n_cases,) in the batch of the concatenated groups' signals."""
        return np.concatenate([group.indices for group in self.groups])

    def restore(self, parts: Any) -> np.ndarray:
        """Return the rows of all groups in the order of the batch, an array (n_cases, ...)."""
        rows = np.concatenate([np.asarray(part) for part in parts])
        result = np.empty_like(rows)
        result[self.places] = rows
        return result

    @property
    def order(self) -> np.ndarray:
        """Places (n_cases,) of the batch's signals among the concatenated groups."""
        return np.argsort(self.places)


def as_batch(X: Any, name: str, dtype: Any) -> Batch:
    """Return signals of equal or of different lengths, cast to `dtype`, in groups.

    Parameters
    ----------
    X : array (n_cases, n_channels, n_timepoints), or list of arrays (n_channels, n_timepoints_i)
        Of NumPy or of JAX. Values that JAX traces are taken unchecked.
    name : str
        What to call the argument.
    dtype : dtype
        That of the parameters.

    Raises
    ------
    ValueError
        Naming the argument, what came and what was expected.
    """
    if not isinstance(X, list | tuple):
        signals = _checked(X, name, dtype)
        return Batch((Group(np.arange(len(signals)), signals),), len(signals), signals.shape[1])
    if not X:
        raise ValueError(f"{name} is empty, expected arrays (n_channels, n_timepoints)")
    singles = [_checked(_single(x, name, k), f"{name}[{k}]", dtype) for k, x in enumerate(X)]
    channels = sorted({single.shape[1] for single in singles})
    if len(channels) > 1:
        raise ValueError(f"{name} has signals of {channels} channels, expected one number")
    lengths = np.array([single.shape[2] for single in singles])
    groups = []
    for length in np.unique(lengths):
        indices = np.flatnonzero(lengths == length)
        stack = jax.numpy if any(map(_traced, X)) else np
        groups.append(Group(indices, stack.concatenate([singles[k] for k in indices])))
    return Batch(tuple(groups), len(X), channels[0])


def _single(x: Any, name: str, index: int) -> Any:
    if getattr(x, "ndim", None) != 2:
        shape = getattr(x, "shape", None)
        raise ValueError(
            f"{name}[{index}] has shape {shape}, expected an array (n_channels, n_timepoints)"
        )
    return x[None]


def _checked(X: Any, name: str, dtype: Any) -> Any:
    if _traced(X):
        if X.ndim != 3:
            raise ValueError(
                f"{name} has shape {X.shape}, expected (n_cases, n_channels, n_timepoints)"
            )
        return X.astype(dtype)
    return check_signals(np.asarray(X), name).astype(dtype)


def _traced(X: Any) -> bool:
    return isinstance(X, jax.core.Tracer)
