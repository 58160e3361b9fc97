"""Passes: each is a view of the signals and a network, whose kernels come from one recursion.

One pass of the recursion gives the GPK and the NTK at all depths. `MeanKernel` is their mean.
`plan` lists the passes that an estimator averages over, in the order of their value for time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from ..kernels import gram
from ..network import Network
from .batches import Signals, lengths
from .views import ONLY, View, block_size

PLAN: tuple[dict[str, Any], ...] = (
    {"first_differences": True, "block_statistics": True},
    {"block_statistics": True, "time_scale": 1.0, "max_length": 64},
    {"first_differences": ONLY, "filter_size": 3, "input_filter_size": 9, "max_length": 64},
    {"first_differences": ONLY, "head": "trace"},
    {"first_differences": ONLY, "filter_size": 3, "input_filter_size": 9},
    {
        "first_differences": ONLY,
        "block_statistics": True,
        "time_scale": 1.0,
        "max_length": 32,
    },
    {
        "first_differences": ONLY,
        "block_statistics": True,
        "filter_size": 3,
        "max_length": 64,
    },
    {"first_differences": True, "time_scale": 1.0},
    {"first_differences": ONLY, "block_statistics": True, "max_length": 256},
    {"first_differences": True, "block_statistics": True, "max_length": 256},
    {"first_differences": True, "block_statistics": True, "max_length": 512},
    {"first_differences": ONLY, "block_statistics": True, "max_length": 512},
    {"first_differences": ONLY, "time_scale": 1.0},
    {"first_differences": True, "time_scale": 1.0, "input_filter_size": 9, "standardize": False},
    {"block_statistics": True, "time_scale": 1.0},
    {"first_differences": True, "block_statistics": True, "dilation": 2, "filter_size": 3},
    {"first_differences": ONLY, "input_filter_size": 9, "max_length": 512},
)
"""Passes by value for time. Settings that a pass does not name are in `_COMMON`.

Accuracies are means on random parts of the training sets of benchmarks/classification.py, measured
by its option --design (classification_design.md). The first four are the best of 720 combinations
of a pass over at most 128 time points, two over 64 and one with "trace", which costs next to
nothing: .866. The next six were added one by one for the greatest gain for their time: .880. Later
passes were not measured together with these."""

EFFORTS = {"fast": 4, "default": 10, "thorough": len(PLAN)}
"""Number of passes of each effort, from the start of `PLAN`. Raising it takes more time."""

_COMMON: dict[str, Any] = {
    "max_length": 128,
    "block_statistics": False,
    "standardize": True,
    "first_differences": False,
    "constant": True,
    "time_scale": 0.0,
    "filter_size": 9,
    "input_filter_size": 1,
    "dilation": 1,
    "head": "gap",
}
"""Settings of the passes of `PLAN` unless they say otherwise."""


@dataclass(frozen=True)
class MeanKernel:
    """The mean of the normalized kernels of one network, over kinds and depths.

    The mean of kernels is a kernel: the inner product of all their features. Its diagonal is 1.

    Attributes
    ----------
    network : Network
        The deepest network.
    head : str
    kinds : tuple of str
    depths : tuple of int
        Depths of the networks, which are otherwise the same.
    """

    network: Network
    head: str
    kinds: tuple[str, ...]
    depths: tuple[int, ...]

    def __call__(self, X: Signals, Z: Signals | None = None, **options: Any) -> np.ndarray:
        """Return the matrix of X with Z, or of X with itself; options as for a `Kernel`."""
        options |= {"kinds": self.kinds, "depths": self.depths, "head": self.head}
        given: Any = (X, Z)
        matrices = gram(self.network, *given, normalized=True, **options)
        mean = np.mean([matrix.mean(axis=0, dtype=np.float64) for matrix in matrices], axis=0)
        return mean.astype(matrices[0].dtype, copy=False)


class Pass(NamedTuple):
    """A view of the signals and the kernel that sees them."""

    view: View
    kernel: MeanKernel

    def settings(self) -> dict[str, Any]:
        """Return the settings in which the passes of a plan may differ, by name."""
        values = vars(self.view) | vars(self.kernel.network) | vars(self.kernel)
        return {name: values[name] for name in _COMMON}

    def describe(self) -> str:
        """Return the pass in words."""
        view, network = self.view, self.kernel.network
        signals = {False: "signals", True: "signals + differences", ONLY: "differences"}
        parts = [signals[view.first_differences]]
        parts += [f"{view.max_length} points"] * (view.max_length is not None)
        parts += ["block statistics"] * view.block_statistics
        parts += ["not standardized"] * (not view.standardize)
        parts += [f"time {view.time_scale:g}"] * (view.time_scale > 0)
        parts += [f"filters {network.input_filter_size} and {network.filter_size}"]
        parts += [f"dilation {network.dilation}"] * (network.dilation != 1)
        return ", ".join([*parts, self.kernel.head])

    def work(self, n_pairs: float, length: float) -> float:
        """Return the pixel pairs, times layers, of pairs of signals of some length."""
        shortened = -(-length // block_size(int(length), self.view.max_length))
        pixel_pairs = shortened * (shortened if self.kernel.head == "gap" else 1)
        return float(n_pairs) * pixel_pairs * max(self.kernel.depths)


def plan(
    count: int,
    given: Mapping[str, tuple[Any, ...]],
    X: Signals,
    *,
    kinds: tuple[str, ...],
    depths: tuple[int, ...],
    alpha: float,
    shorter: int = 1,
) -> list[Pass]:
    """Return the first `count` passes of `PLAN` for signals X, without repetitions.

    Parameters
    ----------
    count : int
    given : mapping of str to tuple
        Values that take the place of the plan's, by the name of a setting. Each pass is made with
        each combination of the values.
    X : signals
        Passes that do not suit the signals are changed (`_suited`), or left out: the heads
        "trace" and "equivariant" need signals of one length.
    kinds, depths, alpha
        As for `MeanKernel` and `Network`.
    shorter : int, default 1
        Divisor of the plan's `max_length`.
    """
    length, ragged = int(lengths(X).max()), isinstance(X, list)
    found = []
    for row in PLAN[:count]:
        planned = _COMMON | row
        planned["max_length"] = max(1, planned["max_length"] // shorter)
        settings = {name: (value,) for name, value in planned.items()} | dict(given)
        for values in product(*settings.values()):
            one = _suited(dict(zip(settings, values, strict=True)), length)
            if one["head"] == "gap" or not ragged:
                found.append(_pass_of(one, kinds, depths, alpha))
    if not found:
        raise ValueError(
            f"X has signals of different lengths, and head is "
            f"{' or '.join(map(repr, given['head']))}, expected head='gap': the other heads need "
            f"signals of one length"
        )
    return list(dict.fromkeys(found))


def _suited(settings: dict[str, Any], length: int) -> dict[str, Any]:
    """Return the settings of a pass that suits signals of a length.

    * Filters that are longer than the shortened signals are cut to the largest odd size.
    * Without blocks there are no block statistics.
    * Signals of one time point have no first differences.
    """
    block = block_size(length, settings["max_length"])
    shortened = -(-length // block)
    largest = shortened - (shortened % 2 == 0)
    for name in ("filter_size", "input_filter_size"):
        settings[name] = min(settings[name], largest)
    settings["block_statistics"] = settings["block_statistics"] and block > 1
    if shortened == 1:
        settings["first_differences"] = False
    if block == 1:
        settings["max_length"] = None
    return settings


def _pass_of(
    settings: Mapping[str, Any], kinds: tuple[str, ...], depths: tuple[int, ...], alpha: float
) -> Pass:
    """Return the pass with these settings, the fields of `View` and `Network` by name."""

    def own(kind: type[View] | type[Network]) -> dict[str, Any]:
        return {f.name: settings[f.name] for f in fields(kind) if f.name in settings}

    network = Network(max(depths), alpha=alpha, **own(Network))
    return Pass(View(**own(View)), MeanKernel(network, settings["head"], kinds, depths))
