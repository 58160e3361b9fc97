"""The recursion over layers on the multi-sphere, on complements: docs/theory/multisphere.md.

Circular sums run over windows along axis 0, the pixels of a ring.

Features have one variance Q at every pixel. The recursion carries δ = 1 − F/Q and ε = τ − T/Q for
each pixel pair, τ being T/Q on the diagonal. A caller brings the means over filters, H_i and H_o,
and the activation's dual, κ and μ.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from operator import add

import numpy as np

from ...checks.messages import shown
from ...network import Network
from ...network.activations import angle_and_kappa1_excess
from ...network.parts import Filter, TrainedParts

Arrays = tuple[np.ndarray, ...]
"""δ, and for the tangent kernel ε too."""

Dual = Callable[[np.ndarray, bool], tuple[np.ndarray, np.ndarray | None]]
"""Takes w = 1 − ρ and a flag; returns 1 − κ, and μ0 − μ if the flag is set, else None."""


def circular_sum(pixels: np.ndarray, window: Filter) -> np.ndarray:
    """Return the sum over a filter's window at each pixel."""
    return reduce(add, (np.roll(pixels, -tap, axis=0) for tap in window.offsets))


def circular_mean(pixels: np.ndarray, window: Filter) -> np.ndarray:
    """Return the mean over a filter's window at each pixel."""
    return circular_sum(pixels, window) / window.size if window.size > 1 else pixels


def relu_dual(w: np.ndarray, slope: bool) -> tuple[np.ndarray, np.ndarray | None]:
    """Return 1 − κ1 and 1 − κ0 (None unless `slope`) at correlation 1 − w, to their last digits."""
    angle, k1 = angle_and_kappa1_excess(np, w, 2.0 - w)
    return w - k1, angle * (1.0 / math.pi) if slope else None


def arc_cosines(t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return κ0 and κ1 at correlations t."""
    rho = t.reshape(-1)
    angle, excess = angle_and_kappa1_excess(np, 1.0 - rho, 1.0 + rho)
    return (1.0 - angle / math.pi).reshape(t.shape), (rho + excess).reshape(t.shape)


def input_state(delta: np.ndarray, parts: TrainedParts, kind: str) -> Arrays:
    """Return δ and ε of the input layer: T = [input] F, hence ε = [input] δ."""
    return (delta, delta * parts.input) if kind == "ntk" else (delta,)


def activate(
    parts: TrainedParts,
    tau: float | np.ndarray,
    w: np.ndarray,
    inside: np.ndarray | None = None,
    *,
    dual: Dual = relu_dual,
    own_slope: float = 1.0,
) -> Arrays:
    """Return what a layer's branch has for δ and ε before the outer filter, as new arrays.

    `tau` is τ before the layer, `w` is H_i δ, `inside` is H_i ε, and `own_slope` is μ0.
    """
    w = np.minimum(w, 2.0)
    branch, slope = dual(w, inside is not None)
    if inside is None or slope is None:
        return (branch,)
    epsilon = parts.outer * branch + (own_slope * parts.inner) * w + own_slope * inside
    epsilon += slope * (parts.inner * (1.0 - w) + tau - inside)
    return branch, epsilon


def add_branch(
    state: Arrays,
    branches: Arrays,
    branch_weight: float | np.ndarray,
    left_over: list[np.ndarray] | None = None,
) -> Arrays:
    """Return δ and ε after a layer, from its branches H_o(…), whose memory they take.

    A deep network adds the same little again and again. `left_over`, one entry for each array,
    therefore keeps the sums' rounding errors for the next layer (Kahan 1965).
    """
    if np.all(branch_weight == 1.0):
        return branches
    for k, (old, new) in enumerate(zip(state, branches, strict=True)):
        new -= old  # in place, step by step: a tensor grid may fill the memory
        new *= branch_weight
        if left_over is None:
            new += old
        else:
            change = new - left_over[k]
            np.add(old, change, out=new)
            left_over[k] = (new - old) - change
    return branches


def normalize_complements(complements: np.ndarray) -> np.ndarray:
    """Return 1 − A(x,z)/√(A(x,x) A(z,z)) of matrices given as 1 − A, without cancellation.

    `complements`, (..., n, n), are symmetric and below 1 on the diagonal; the result is 0 there.
    """
    diagonal = np.diagonal(complements, axis1=-2, axis2=-1)
    rows, columns = diagonal[..., :, None], diagonal[..., None, :]
    product = rows + columns - rows * columns  # 1 − A(x,x) A(z,z)
    root = np.sqrt((1.0 - rows) * (1.0 - columns))  # 1 − product would lose the digits of small A
    result = (complements - product / (1.0 + root)) / root
    index = np.arange(complements.shape[-1])
    result[..., index, index] = 0.0
    return result


def check_nonzero(network: Network, kind: str) -> None:
    """Raise ValueError if the kernel of a ReLU network is 0 for every signal."""
    parts, branches = network.parts, network.depth * network.branch_share
    count = parts.initial + (parts.inner + parts.outer) * branches if kind == "ntk" else 1.0
    if 0 in (network.growth, network.input_scale, count):
        raise ValueError(
            f"network is {shown(network)}, whose {kind} is 0 for every signal, expected a kernel "
            f"that sees its signals"
        )
