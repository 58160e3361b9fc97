"""Kernels with other eigenvalues, from a sample (docs/theory/learning_curves.md, section 8)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...arrays import resolution
from ...decomposition import check_finite, decompose, nonnegative
from ...validation import check_shape


def modified_spectrum(
    K: np.ndarray, function: Callable[[np.ndarray], np.ndarray], left: np.ndarray | None = None,
    right: np.ndarray | None = None,
) -> np.ndarray:  # fmt: skip
    r"""Return a kernel with the eigenfunctions of another one and other eigenvalues, from a sample.

    :math:`\sum_i g(\mu_i)\, \phi_i(x)\, \phi_i(z)` with the eigenvalues :math:`\mu_i` of K/n, and
    :math:`\phi_i(x) = u_i^\top k(x) / (\sqrt n\, \mu_i)`. For signals drawn from one distribution
    it tends to the kernel of the eigenvalues g(λ) as n grows. The idea is of Geifman et al. 2024,
    whose theorems were not checked. Eigenvalues that are rounding errors of K are left out.

    Parameters
    ----------
    K : ndarray, (n, n)
        Kernel matrix of the sample.
    function : callable
        g: takes an array of positive eigenvalues, of K/n, and returns as many of at least 0.
    left, right : ndarray, (a_cases, n) and (b_cases, n), optional
        Kernels of other signals with the sample, by default K.

    Returns
    -------
    ndarray, (a_cases, b_cases)

    Raises
    ------
    ValueError
        If K is 0, or not symmetric and positive semidefinite, an argument has another shape, or
        function is not callable.
    OverflowError
        If the kernel exceeds float64.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.theory import learning
    >>> K = np.array([[2.0, 1.0], [1.0, 2.0]])
    >>> learning.modified_spectrum(K, np.square).round(3)  # the square of K over n
    array([[2.5, 2. ],
           [2. , 2.5]])
    """
    if not callable(function):
        raise ValueError(f"function is {function!r}, expected a function of eigenvalues")
    found = decompose(K)
    n, kept = len(found.eigenvectors), found.eigenvalues > resolution(found.eigenvalues, found.eps)
    if not kept.any():
        raise ValueError("K is 0, expected a kernel matrix that has a positive eigenvalue")
    values, vectors = found.eigenvalues[kept] / n, found.eigenvectors[:, kept]
    wanted = check_shape(function(values.copy()), "the result of function", values.shape)
    wanted = nonnegative(wanted, "the result of function")
    sides = []
    for name, given in (("left", left), ("right", right)):
        rows = K if given is None else given
        shape = f"(m_cases, {n})"
        rows = check_shape(rows, name, shape, lambda s: len(s) == 2 and s[1] == n)
        sides.append(rows @ vectors / (np.sqrt(n) * values))
    with np.errstate(over="ignore", invalid="ignore"):
        return check_finite((sides[0] * wanted) @ sides[1].T)
