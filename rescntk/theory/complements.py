r"""The recursion over layers on the multi-sphere, on complements.

On the multi-sphere the features of layer l have one variance q at every pixel. The recursion
carries two numbers for each pixel pair, in units of q:

.. math:: \delta = 1 - F/q, \qquad \epsilon = \tau - T/q .

:math:`\tau` is T/q on the diagonal (x = z, equal pixels). The means over the inner and the outer
filter are :math:`H_i, H_o`. The branch's share of the next variance is s. A layer is

.. math::
    w &= H_i \delta, \qquad (1 - \kappa,\; \mu_0 - \mu) = \text{dual}(w), \\
    \delta &\leftarrow (1-s)\,\delta + s\, H_o (1 - \kappa), \\
    \epsilon &\leftarrow (1-s)\,\epsilon + s\, H_o \bigl(o\,(1-\kappa)
        + \mu_0 (i\,w + H_i \epsilon) + (\mu_0 - \mu)(i\,(1-w) + \tau - H_i \epsilon)\bigr), \\
    \tau &\leftarrow (1-s)\,\tau + s\,\bigl(o + \mu_0 (i + \tau)\bigr) .

i and o are 1 where inner or outer weights are trained, 0 where they are frozen. The activation
enters by :math:`\kappa = K/K(x,x)` and :math:`\mu = \dot K \Sigma(x,x) / K(x,x)`, with the value
:math:`\mu_0` on the diagonal. ReLU has :math:`\kappa = \kappa_1`, :math:`\mu = \kappa_0` and
:math:`\mu_0 = 1`. No term is a difference of nearly equal numbers where pixels nearly agree.
``docs/theory/multisphere.md`` derives the formulas.

Three callers differ in the filters alone (`Filters`). ``multisphere`` moves windows along rows
of pixel pairs. ``paths`` gives each tap a variable of its own. ``spectrum.dot_grid`` rotates the
axes of a tensor grid.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from ..activations import angle_and_kappa1_excess, one_minus_kappa1
from ..network import TrainedParts

Number = float | np.ndarray
Arrays = tuple[np.ndarray, ...]


class Filters(Protocol):
    """The two filters of a layer, as means over their windows."""

    def around(self, function: Callable[..., Arrays], arrays: Arrays) -> Arrays:
        """Return H_o of ``function`` of H_i of each array, as new arrays."""

    def identity(self, array: np.ndarray) -> np.ndarray:
        """Return the entries that the skip connection carries to the places of `around`."""


class Dual(NamedTuple):
    """The activation's expectations for one layer, relative to their value on the diagonal."""

    function: Callable[[np.ndarray, bool], tuple[np.ndarray, np.ndarray | None]]
    """Takes w = 1 − ρ and a flag; returns 1 − κ, and μ0 − μ if the flag is set, else None."""
    own_slope: float
    """μ0, the value of μ on the diagonal."""


def relu_dual(w: np.ndarray, slope: bool) -> tuple[np.ndarray, np.ndarray | None]:
    """Return 1 − κ1 and 1 − κ0 (None unless `slope`) at correlation 1 − w."""
    if not slope:
        return one_minus_kappa1(w), None
    angle, k1 = angle_and_kappa1_excess(np, w, 2.0 - w)
    return w - k1, angle * (1.0 / math.pi)


RELU = Dual(relu_dual, 1.0)


class State(NamedTuple):
    """δ, and for the tangent kernel ε, of one layer's features."""

    delta: np.ndarray
    epsilon: np.ndarray | None = None
    """None where the tangent kernel is not wanted."""
    left_over: tuple[Number, Number] = (0.0, 0.0)
    """Rounding errors of δ and ε: computed minus exact sums of the last layer, if compensated."""

    @property
    def arrays(self) -> Arrays:
        """δ, and ε if it is there."""
        return (self.delta,) if self.epsilon is None else (self.delta, self.epsilon)

    def first(self, count: int) -> State:
        """Return the state of the first `count` slots of axis 1."""
        epsilon = None if self.epsilon is None else self.epsilon[:, :count].copy()
        left = [r[:, :count] if isinstance(r, np.ndarray) else r for r in self.left_over]
        return State(self.delta[:, :count].copy(), epsilon, (left[0], left[1]))


def initial_state(delta: np.ndarray, parts: TrainedParts, tangent: bool) -> State:
    """Return the state of the input layer: T = t F, hence ε = t δ."""
    return State(delta, delta * parts.input if tangent else None)


def activate(
    parts: TrainedParts,
    tau: Number,
    dual: Dual,
    w: np.ndarray,
    inside: np.ndarray | None = None,
) -> Arrays:
    """Return what one layer's branch has for δ and ε, before the outer filter.

    Parameters
    ----------
    parts : TrainedParts
    tau : float or array
        τ of the features before the layer.
    dual : Dual
    w, inside : ndarray
        H_i δ and, for the tangent kernel, H_i ε.

    Returns
    -------
    tuple of ndarray
        1 − κ; and with `inside` the sum in brackets of the module's formula for ε.
    """
    w = np.minimum(w, 2.0)
    branch, slope = dual.function(w, inside is not None)
    if inside is None or slope is None:
        return (branch,)
    own = dual.own_slope
    epsilon = parts.outer * branch + (own * parts.inner) * w + own * inside
    epsilon += slope * (parts.inner * (1.0 - w) + tau - inside)
    return branch, epsilon


def own_branch(parts: TrainedParts, tau: Number, dual: Dual) -> Number:
    """Return the tangent kernel of a layer's branch on the diagonal: o + μ0 (i + τ)."""
    return parts.outer + dual.own_slope * (parts.inner + tau)


def pass_layer(
    state: State,
    filters: Filters,
    branch_share: Number,
    parts: TrainedParts,
    *,
    tau: Number = 0.0,
    dual: Dual = RELU,
    skip: bool = True,
    compensated: bool = False,
) -> State:
    """Carry δ and ε past one layer.

    Parameters
    ----------
    state : State
    filters : Filters
        The layer's filters. In layer 1 the inner filter has size 1.
    branch_share : float or array
        s, the branch's share of the next variance.
    parts : TrainedParts
        Trained parts as numbers.
    tau : float or array
        τ of the features before the layer.
    dual : Dual
        The activation's expectations at the variance before the layer.
    skip : bool
        Without skip connections the state becomes the branch: s = 1.
    compensated : bool
        Keep the rounding error of the sums for the next layer (Kahan 1965). Where s is small, a
        deep network adds the same little again and again, and rounds it in the same direction.

    Returns
    -------
    State
        Of the features after the layer.
    """

    def function(*arrays: np.ndarray) -> Arrays:
        return activate(parts, tau, dual, *arrays)

    branches = filters.around(function, state.arrays)
    if not skip:
        return State(branches[0], branches[1] if len(branches) > 1 else None)
    left: list[Number] = [0.0, 0.0]
    for k, (old, branch) in enumerate(zip(state.arrays, branches, strict=True)):
        old = filters.identity(old)
        branch -= old  # in place, step by step: a tensor grid may fill the memory
        branch *= branch_share
        if compensated:
            change = branch - state.left_over[k]
            np.add(old, change, out=branch)
            left[k] = (branch - old) - change
        else:
            branch += old
    return State(branches[0], branches[1] if len(branches) > 1 else None, (left[0], left[1]))
