"""Coefficients from a kernel matrix that is only multiplied: conjugate gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import LinearOperator, cg

from ..checks.messages import warn
from ..checks.values import (
    check_finite,
    check_nonnegative,
    check_positive,
    check_positive_integer,
    check_shape,
    check_symmetric,
    check_targets,
)
from .landmarks import LowRank


class Matrix(Protocol):
    """A matrix for `solve`, such as a stored one: a shape, and products."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, n)"""

    def __matmul__(self, other: np.ndarray) -> np.ndarray:
        """Return the product with (n, n_targets) columns."""


def solve(
    K: Matrix | np.ndarray,
    Y: np.ndarray,
    penalty: float = 0.0,
    *,
    preconditioner: LowRank | np.ndarray | None = None,
    tolerance: float = 1e-6,
    max_iterations: int = 1000,
) -> np.ndarray:
    r"""Return A = (K + λI)⁻¹ Y by SciPy's conjugate gradients: K is only multiplied.

    All targets share the iterations, so each iteration reads K once.

    Parameters
    ----------
    K : ndarray (n, n), a stored matrix, or another object with ``shape`` and ``K @ v``
        Symmetric, positive semidefinite.
    Y : ndarray, (n,) or (n, n_targets)
    penalty : float, default 0.0
        λ, at least 0; above 0 with a preconditioner.
    preconditioner : LowRank or ndarray (n, rank), optional
        The result of `pivoted_cholesky`, or its factor F.
    tolerance : float, default 1e-6
        Bound on ‖Y − (K + λI) A‖ / ‖Y‖ of each target.
    max_iterations : int, default 1000
        Maximum number of iterations. A LinAlgWarning follows if ten times the bound is exceeded.

    Returns
    -------
    ndarray, in the shape of Y

    Raises
    ------
    ValueError
        If K is not square, Y has another length, or a preconditioner comes without a penalty.
    OverflowError
        If coefficients exceed float64.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk import regression
    >>> regression.solve(2.0 * np.eye(3), [3.0, 0.0, 6.0], penalty=1.0)
    array([1., 0., 2.])
    """
    shape = tuple(getattr(K, "shape", ()))
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] == 0 or not hasattr(K, "__matmul__"):
        raise ValueError(f"K is a {type(K).__name__} of shape {shape}, expected (n, n) with K @ v")
    n, Y = int(shape[0]), check_targets(Y, int(shape[0]))
    penalty, tolerance = (
        check_nonnegative(penalty, "penalty"),
        check_positive(tolerance, "tolerance"),
    )
    check_positive_integer(max_iterations, "max_iterations")
    K = check_symmetric(K, "K") if isinstance(K, np.ndarray) else K
    columns = Y.reshape(n, -1)
    norms = np.array([scipy.linalg.norm(column) for column in columns.T])
    columns = columns / np.where(norms > 0, norms, 1.0)

    def operator(multiply: Callable[[np.ndarray], np.ndarray]) -> LinearOperator:
        """Return a linear map of all columns, one below the other."""
        return LinearOperator(
            (columns.size,) * 2, lambda v: multiply(v.reshape(columns.shape)).ravel(), dtype=float
        )

    system = operator(lambda V: check_shape(K @ V, "K @ v", V.shape) + penalty * V)
    inverse = None
    if preconditioner is not None:
        F = getattr(preconditioner, "factor", preconditioner)
        F = check_shape(F, "preconditioner", f"({n}, rank)", lambda s: len(s) == 2 and s[0] == n)
        U, S, _ = scipy.linalg.svd(F, full_matrices=False)
        explained = np.square(S / np.hypot(S, math.sqrt(check_positive(penalty, "penalty"))))[
            :, None
        ]
        inverse = operator(lambda V: V - U @ (explained * (U.T @ V)))  # λ (F Fᵀ + λI)⁻¹ V
    options = {"rtol": 0.0, "atol": tolerance, "maxiter": max_iterations, "M": inverse}
    A = cg(system, columns.ravel(), **options)[0]
    residuals = columns - system.matvec(A).reshape(columns.shape)
    left = float(np.linalg.norm(residuals, axis=0).max())
    if not left <= 10 * tolerance:  # rounding errors of the recursion are smaller
        warn(
            f"conjugate gradients ended at a residual of {left:.2g}, expected {tolerance:.2g}: a "
            f"larger penalty, a preconditioner of higher rank or more iterations help, if K is "
            f"positive semidefinite",
            scipy.linalg.LinAlgWarning,
        )
    with np.errstate(over="ignore", invalid="ignore"):
        A = A.reshape(columns.shape) * norms
    return np.asarray(check_finite(A.reshape(Y.shape)))
