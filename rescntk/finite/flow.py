r"""Gradient flow of the infinitely wide network, beside the training of a finite one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .. import regression
from ..kernels import gram
from ..network import Network
from ..validation import check_targets


class Flow(NamedTuple):
    """Outputs of the infinitely wide network at T times."""

    outputs: np.ndarray
    """(T, n_cases) or (T, n_cases, n_outputs), of the training signals."""
    test_outputs: np.ndarray | None
    """(T, m_cases) or (T, m_cases, n_outputs), of the test signals."""


def kernel_flow(
    network: Network,
    X: Any,
    y: Any,
    times: Any,
    *,
    head: str = "gap",
    Z: Any = None,
    start: Any = None,
    test_start: Any = None,
) -> Flow:
    r"""Return the outputs of the infinitely wide network under gradient flow.

    :math:`f_t(x) = f_0(x) + \Theta(x, X) \Theta^{-1} (I - e^{-\Theta t}) (y - f_0(X))`, eq. 3 of
    Tirer et al. 2022, with the exact tangent kernel Θ of ``rescntk.gram``. Step s of gradient
    descent with the learning rate η is at the time t = η s.

    Parameters
    ----------
    network : Network
    X : array, (n_cases, n_channels, n_timepoints)
        Training signals.
    y : array, (n_cases,) or (n_cases, n_outputs)
        Targets.
    times : array, (T,)
        Each at least 0; may be infinite, which is kernel regression.
    head : {"equivariant", "trace", "gap"}, default "gap"
    Z : array, (m_cases, n_channels, n_timepoints), optional
        Test signals.
    start : array of the shape of `y`, optional
        f_0(X), a finite network's outputs before training; by default 0.
    test_start : array, (m_cases,) or (m_cases, n_outputs), optional
        f_0(Z), likewise.

    Returns
    -------
    Flow

    Raises
    ------
    ValueError
        For arguments that are not as described, or if the kernel matrix is singular.

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> from rescntk import finite
    >>> X, y = np.random.default_rng(0).standard_normal((4, 2, 8)), np.array([1.0, 0, 0, -1])
    >>> flow = finite.kernel_flow(rk.Network(depth=2), X, y, [0.0, np.inf])
    >>> flow.outputs[0], np.allclose(flow.outputs[1], y)
    (array([0., 0., 0., 0.]), True)
    """
    K = gram(network, X, head=head, kinds=("ntk",))[0]
    y = check_targets(y, len(K))
    begin = np.zeros(y.shape) if start is None else _same_shape(start, y.shape, "start")
    coefficients = regression.decompose(K).flow(y - begin, times)
    outputs = begin + np.matmul(K, coefficients) if y.ndim == 2 else begin + coefficients @ K
    if Z is None:
        return Flow(outputs, None)
    cross = gram(network, Z, X, head=head, kinds=("ntk",))[0]
    shape = (len(cross), *y.shape[1:])
    begin = np.zeros(shape) if test_start is None else _same_shape(test_start, shape, "test_start")
    moved = np.matmul(cross, coefficients) if y.ndim == 2 else coefficients @ cross.T
    return Flow(outputs, begin + moved)


def _same_shape(values: Any, shape: tuple[int, ...], name: str) -> np.ndarray:
    array = np.asarray(values, dtype=np.float64)
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}, expected {shape}")
    return array
