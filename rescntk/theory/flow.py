r"""Limits of kernels for :math:`\alpha = a L^{-1/2}`: a flow, integrated from time 0 to time 1.

A layer is a step of length 1/L of Euler's method. The differential equations for the covariance F
and the tangent kernel T of the features are in docs/theory/depth_limits.md, section 5.
"""

from __future__ import annotations

import numpy as np
from scipy.integrate import solve_ivp

from ..activations import DualInput, Pixels, activation_of
from ..engines.boxes import circular_mean
from ..kernels.call import correlation
from ..network import BASIC_FIELDS, Network, check_one_dilation
from ..validation import check_signals
from .argument_checks import check_head, check_kind

ERROR = 1e-11
"""Largest error of an entry of `complements`, measured by tests/theory/test_flow.py."""

_TOLERANCE = 1e-13
"""Relative tolerance of a step of the integration: `ERROR` has room for some 100 steps."""

_LARGEST = 1e70
"""Largest amplitude of erf's signals; tiny ones are raised to its inverse. Raising it takes more.
Chosen: fourth powers, of products of variances, stay within float64."""

_BLOCK = 2**15
"""Pixel pairs that are integrated at once: some 20 arrays, 5 MB."""


def complements(
    network: Network, kind: str, X: np.ndarray, head: str, tolerance: float = _TOLERANCE
) -> np.ndarray:
    """Return 1 − (normalized kernel) of infinitely deep ResNets with α = a·depth^-½, (n, n).

    The network's α is a, and its depth does not matter. X has signals of positive energy.
    """
    check_one_dilation(network, BASIC_FIELDS - {"skip"})  # without it a layer is not a step
    check_kind(kind)
    pooled = check_head(head) == "gap"
    X = check_signals(X, "X").astype(np.float64)
    n, channels, d = X.shape
    X = of_unit_energy(network, X)
    signals, window = X.transpose(1, 2, 0), network.input_filter
    scale = 1.0 / channels if network.input_scale is None else network.input_scale
    variances = circular_mean(scale * (signals**2).sum(axis=0), *window)  # (d, n_cases)
    rows, columns = np.triu_indices(n)
    pixels = np.arange(d)[:, None, None]
    partners = (pixels + np.arange(d if pooled else 1)[:, None]) % d  # (d, n_offsets, 1)
    block = max(1, _BLOCK // partners.size)
    K = np.empty((n, n))
    for first in range(0, len(rows), block):
        cases, others = rows[first : first + block], columns[first : first + block]
        left, right = (pixels, cases), (partners, others)
        squares = sum((channel[left] - channel[right]) ** 2 for channel in signals)
        distances = circular_mean(0.5 * scale * squares, *window)
        values = _integrate(network, kind, variances, distances, left, right, tolerance=tolerance)
        K[cases, others] = values[0, 0] if head == "equivariant" else values.mean(axis=(0, 1))
        K[others, cases] = K[cases, others]
    result = 1.0 - correlation(K, K.diagonal(), K.diagonal())
    np.fill_diagonal(result, 0.0)
    return result


def of_unit_energy(network: Network, X: np.ndarray) -> np.ndarray:
    """Return signals times factors that normalized kernels do not see: for erf, of tiny signals.

    A network with the activation erf is linear on tiny signals.
    """
    if not network.homogeneous:
        peak = np.abs(X).max(axis=(1, 2), keepdims=True)
        if peak.max() > _LARGEST:
            raise OverflowError(
                f"X has values up to {peak.max():.3g}, expected at most {_LARGEST:g}: the network "
                f"{network.activation} squares variances"
            )
        return X * np.where(peak * _LARGEST < 1.0, 1.0 / _LARGEST / _or_one(peak), 1.0)
    X = X / _or_one(np.abs(X).max(axis=(1, 2), keepdims=True))
    return X / _or_one(np.sqrt((X**2).mean(axis=(1, 2), keepdims=True)))


def _or_one(values: np.ndarray) -> np.ndarray:
    return np.where(values > 0, values, 1.0)


def _integrate(
    network: Network,
    kind: str,
    q: np.ndarray,
    D: np.ndarray,
    left: tuple[np.ndarray, np.ndarray],
    right: tuple[np.ndarray, np.ndarray],
    tolerance: float,
) -> np.ndarray:
    """Return the kernel of some pairs of signals at time 1, (d, n_offsets, n_pairs), to a factor.

    q, (d, n_cases), are variances at time 0, which `left` and `right` index for pairs. D, (d,
    n_offsets, n_pairs), are half the squared distances.
    """
    parts, activation, c_w = network.parts, activation_of(network), network.c_w
    decay = network.branch_gain if network.homogeneous else 0.0  # ReLU: e^βt is the unit
    inner, outer = network.inner_filter(2), network.outer_filter(2)

    def covariance(q: np.ndarray, D: np.ndarray) -> np.ndarray:
        return 0.5 * (q[left] + q[right]) - D

    def pack(parts: list[np.ndarray]) -> np.ndarray:
        return np.concatenate([part.ravel() for part in parts])

    def unpack(state: np.ndarray) -> tuple[np.ndarray, ...]:
        return state[: q.size].reshape(q.shape), *state[q.size :].reshape(-1, *D.shape)

    # Without filters ReLU leaves parallel pixels parallel. Roundings would make them differ.
    tied = np.zeros(D.shape, dtype=bool)
    if network.homogeneous and network.filter_size == network.outer_filter_size == 1:
        q1, q2 = q[left], q[right]
        slack = 64 * np.finfo(np.float64).eps * (q1 + q2)
        tied = D - 0.5 * (np.sqrt(q1) - np.sqrt(q2)) ** 2 <= slack

    def pixels(q: np.ndarray) -> Pixels:
        root = np.sqrt(q)
        inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
        return Pixels(root * np.sqrt(0.5), inverse, activation.extra(np, q, 1.0))

    def velocity(_: float, state: np.ndarray) -> np.ndarray:
        q, D, *T = unpack(state)
        variances, D = (c_w * circular_mean(part, *inner) for part in (q, D))
        q1, q2 = variances[left], variances[right]
        S = 0.5 * (q1 + q2) - D
        root1, root2 = np.sqrt(q1), np.sqrt(q2)
        g, z = root1 * root2, 0.5 * (root1 - root2) ** 2
        w = np.divide(D - z, g, out=np.ones_like(D), where=g > 0)
        w = np.where(tied & (g > 0), 0.0, np.clip(w, 0.0, 2.0))
        given = pixels(q1), pixels(q2), DualInput(w, 2.0 - w, 0.5 * g, z, S.copy())
        dual = activation.dual(*given, unit=1.0, factor=network.c_v)
        branches = [activation.diagonal(np, variances, 1.0, network.c_v)[0], dual.branch_distance]
        if T:
            inside = parts.inner * S + c_w * circular_mean(T[0], *inner)
            branches.append(parts.outer * dual.K + dual.times_slope(1.0) * inside)
        boxed = [circular_mean(np.asarray(branch), *outer) for branch in branches]
        return network.alpha**2 * pack(boxed) - decay * state

    state = pack([q, D, *([parts.input * covariance(q, D)] if kind == "ntk" else [])])
    errors = {"rtol": tolerance, "atol": tolerance * max(float(np.abs(state).max()), 1e-300)}
    solution = solve_ivp(velocity, (0.0, 1.0), state, method="DOP853", t_eval=[1.0], **errors)
    q, D, *T = unpack(solution.y[:, -1])
    F = covariance(q, D)
    return T[0] + parts.readout * F if T else F
