r"""Limits of kernels for :math:`\alpha = a L^{-1/2}`: a flow, integrated from time 0 to time 1.

Layer l of L layers is a step of length 1/L of Euler's method for the flow. With
:math:`\Sigma = c_w\,\mathrm{box}\,F` the covariance F and the tangent kernel T of the features
obey

.. math::
    \frac{dF}{dt} = a^2\,\mathrm{box}\,K(\Sigma), \qquad
    \frac{dT}{dt} = a^2\,\mathrm{box}\bigl(o K + \dot K \odot (i \Sigma + c_w\,\mathrm{box}\,T)
    \bigr), \qquad \Theta = T + r F .

The letters i, o, r are 1 where inner, outer, readout weights are trained. The derivation is in
docs/theory/depth_limits.md, section 5.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.integrate import solve_ivp

from ..activations import BY_NAME, DualInput, Pixels, Workspace
from ..kernels.call import correlation
from ..network import Filter, Network, check_one_dilation
from ..rings import circular_mean
from ..validation import check_choice, check_signals
from ..vocabulary import HEADS, KINDS

ERROR = 1e-11
"""Largest error of an entry of `complements`. Larger: small distances count as errors earlier.

Measured by tests/theory/test_flow.py, against half the tolerance and against deep networks."""

_TOLERANCE = 1e-13
"""Relative tolerance of a step of the integration. Smaller: more steps. Chosen by reasoning: a
hundredth of `ERROR` leaves room for some 100 steps."""

_BLOCK = 2**15
"""Pixel pairs that are integrated at once. Larger: more memory, some 20 arrays. Chosen by
reasoning: 20 arrays take 5 MB."""


def complements(
    network: Network, kind: str, X: np.ndarray, head: str, tolerance: float = _TOLERANCE
) -> np.ndarray:
    r"""Return 1 − (normalized kernel) of infinitely deep ResNets with α = a·depth^-½.

    Parameters
    ----------
    network : Network
        Its α is a. Its depth does not matter.
    kind : {"gpk", "ntk"}
    X : ndarray, (n_cases, n_channels, n_timepoints)
        Signals of positive energy.
    head : {"equivariant", "trace", "gap"}
    tolerance : float
        Relative error of a step.

    Returns
    -------
    ndarray, (n_cases, n_cases)
        Symmetric, 0 on the diagonal.

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> from rescntk.theory import flow
    >>> X = np.eye(2)[:, :, None]
    >>> found = flow.complements(rk.Network(1), "gpk", X, "trace")[0, 1]
    >>> deep = rk.ResCGPK(1000, alpha=1000**-0.5, head="trace", normalized=True)(X)[0, 1]
    >>> bool(abs(1 - found - deep) < 1e-3)
    True
    """
    check_one_dilation(network)
    check_choice(kind, "kind", KINDS)
    pooled = check_choice(head, "head", HEADS) == "gap"
    X = check_signals(X, "X").astype(np.float64)
    n, _, d = X.shape
    start = _Start.of(network, X)
    left, right = np.triu_indices(n)
    partners = np.add.outer(np.arange(d), np.arange(d if pooled else 1)) % d
    block = max(1, _BLOCK // partners.size)
    K = np.empty((n, n))
    for first in range(0, len(left), block):
        one, other = left[first : first + block], right[first : first + block]
        pairs = _Pairs(network, start, one, other, partners)
        values = pairs.integrate(kind == "ntk", tolerance)
        K[one, other] = values[0, 0] if head == "equivariant" else values.mean(axis=(0, 1))
        K[other, one] = K[one, other]
    result = 1.0 - correlation(K, K.diagonal(), K.diagonal())
    np.fill_diagonal(result, 0.0)
    return result


class _Start(NamedTuple):
    """The signals as features of layer 0."""

    signals: np.ndarray
    """(n_channels, d, n_cases)."""
    window: Filter
    scale: float
    variances: np.ndarray
    """(d, n_cases)."""

    @classmethod
    def of(cls, network: Network, X: np.ndarray) -> _Start:
        signals = X.transpose(1, 2, 0)
        if BY_NAME[network.activation].homogeneous:  # normalized kernels do not see a factor
            largest = np.abs(signals).max(axis=(0, 1))
            signals = signals / np.where(largest > 0, largest, 1.0)
            energy = np.sqrt((signals**2).mean(axis=(0, 1)))
            signals = signals / np.where(energy > 0, energy, 1.0)
        scale = 1.0 / X.shape[1] if network.input_scale is None else network.input_scale
        window = network.input_filter
        variances = circular_mean(scale * (signals**2).sum(axis=0), *window)
        return cls(signals, window, scale, variances)

    def distances(self, one: np.ndarray, other: np.ndarray, partners: np.ndarray) -> np.ndarray:
        """Return half the squared distances of pixel pairs, (d, n_offsets, n_pairs)."""
        total = np.zeros((*partners.shape, len(one)))
        for channel in self.signals:
            total += (channel[:, None, one] - channel[partners[..., None], other]) ** 2
        return circular_mean(0.5 * self.scale * total, *self.window)


class _Pairs:
    """Some pairs of signals on their way from time 0 to time 1.

    The state has three parts. q, (d, n_cases), are the variances of all signals. Half the
    squared distances D and the tangent kernel T are of the pairs, (d, n_offsets, n_pairs).
    """

    def __init__(
        self,
        network: Network,
        start: _Start,
        one: np.ndarray,
        other: np.ndarray,
        partners: np.ndarray,
    ) -> None:
        self.network, self.one, self.other, self.partners = network, one, other, partners
        self.q, self.D = start.variances, start.distances(one, other, partners)
        # Without filters, parallel pixels stay parallel. Roundings would make them differ.
        self.tied = np.zeros(self.D.shape, dtype=bool)
        if network.filter_size == network.outer_filter_size == 1:
            q1, q2 = self._sides(self.q)
            slack = 64 * np.finfo(np.float64).eps * (q1 + q2)
            self.tied = self.D - 0.5 * (np.sqrt(q1) - np.sqrt(q2)) ** 2 <= slack

    def integrate(self, with_tangent: bool, tolerance: float) -> np.ndarray:
        """Return the kernel at time 1, (d, n_offsets, n_pairs)."""
        parts = self.network.parts
        start = [self.q, self.D]
        if with_tangent:
            start.append(parts.input * self._covariance(self.q, self.D))
        self.splits = np.cumsum([part.size for part in start])[:-1]
        state = np.concatenate([part.ravel() for part in start])
        found = solve_ivp(
            self._velocity,
            (0.0, 1.0),
            state,
            method="DOP853",
            rtol=tolerance,
            atol=tolerance * max(float(np.abs(state).max()), 1e-300),
            t_eval=[1.0],
        )
        q, D, *T = self._unpack(found.y[:, -1])
        F = self._covariance(q, D)
        return T[0] + parts.readout * F if with_tangent else F

    def _velocity(self, _: float, state: np.ndarray) -> np.ndarray:
        network, parts = self.network, self.network.parts
        q, D, *T = self._unpack(state)
        activation, c_w = BY_NAME[network.activation], network.c_w
        inner, outer = network.inner_filter(2), network.outer_filter(2)
        own = c_w * circular_mean(q, *inner)
        D = c_w * circular_mean(D, *inner)
        q1, q2 = self._sides(own)
        covariance = 0.5 * (q1 + q2) - D
        g, z = np.sqrt(q1 * q2), 0.5 * (np.sqrt(q1) - np.sqrt(q2)) ** 2
        w = np.divide(D - z, g, out=np.ones_like(D), where=g > 0)
        w = np.where(self.tied & (g > 0), 0.0, np.clip(w, 0.0, 2.0))
        dual = activation.dual(
            np,
            self._pixels(q1),
            self._pixels(q2),
            DualInput(w, 2.0 - w, 0.5 * g, z, covariance.copy()),
            Workspace(),
            unit=1.0,
            factor=network.c_v,
            with_slope=bool(T),
        )
        branches = [activation.diagonal(np, own, 1.0, network.c_v)[0], dual.branch_distance]
        if T:
            inside = parts.inner * covariance + c_w * circular_mean(T[0], *inner)
            branches.append(parts.outer * dual.K + dual.K_dot * inside)
        boxed = [circular_mean(np.asarray(branch), *outer) for branch in branches]
        return network.alpha**2 * np.concatenate([branch.ravel() for branch in boxed])

    def _pixels(self, q: np.ndarray) -> Pixels:
        root = np.sqrt(q)
        inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
        extra = BY_NAME[self.network.activation].extra(np, q, 1.0)
        return Pixels(root * np.sqrt(0.5), inverse, extra)

    def _sides(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the variances at the left and the right pixel of each pair."""
        return q[:, None, self.one], q[self.partners[..., None], self.other]

    def _covariance(self, q: np.ndarray, D: np.ndarray) -> np.ndarray:
        q1, q2 = self._sides(q)
        return 0.5 * (q1 + q2) - D

    def _unpack(self, state: np.ndarray) -> list[np.ndarray]:
        q, *rest = np.split(state, self.splits)
        return [q.reshape(self.q.shape), *(part.reshape(self.D.shape) for part in rest)]
