"""Kernel matrices: their normalization, and the resolution of their eigenvalues."""

from __future__ import annotations

import numpy as np


def normalize_complements(complements: np.ndarray) -> np.ndarray:
    r"""Return 1 − A(x,z)/√(A(x,x) A(z,z)) of matrices given as 1 − A, without cancellation.

    Parameters
    ----------
    complements : ndarray, (..., n, n)
        1 − A: symmetric, below 1 on the diagonal.

    Returns
    -------
    ndarray of the same shape
        0 on the diagonal.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.matrices import normalize_complements
    >>> normalize_complements(1 - np.array([[0.5, 0.2], [0.2, 0.5]])).round(12)
    array([[0. , 0.6],
           [0.6, 0. ]])
    """
    diagonal = np.diagonal(complements, axis1=-2, axis2=-1)
    own, other = diagonal[..., :, None], diagonal[..., None, :]
    product = own + other - own * other  # 1 − A(x,x) A(z,z)
    root = np.sqrt(1.0 - product)
    result = (complements - product / (1.0 + root)) / root
    index = np.arange(complements.shape[-1])
    result[..., index, index] = 0.0
    return result
