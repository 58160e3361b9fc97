r"""Points left out of a regression, one by one or in groups: errors and variances in closed form.

A fit gives :math:`v = M (y - \dots)` from a symmetric matrix M of the points. The errors
:math:`y_g - f_{-g}(x_g)` of points g, left out together, are :math:`M_{gg}^{-1} v_g`
(Cawley and Talbot 2004). Kernels have coefficients v = β and :math:`M = (K + \lambda I)^{-1}`;
features have residuals v, and M is the identity less the hat matrix. An intercept takes
:math:`o o^\top / s` away from both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np


class LeftOutPoints(NamedTuple):
    r"""The matrix :math:`M = \delta I + A \operatorname{diag}(f) A^\top - o o^\top / s`, (n, n).

    f, o and s may have an axis of penalties in front, which M then has, too.
    """

    rows: np.ndarray  # A, (n, k)
    factors: np.ndarray  # f, (..., k)
    ones: np.ndarray | None = None  # o, (..., n); None without an intercept
    total: np.ndarray | float = 1.0  # s, (..., 1)
    identity: float = 0.0  # δ

    def diagonal(self) -> np.ndarray:
        """Return the diagonal of M, (..., n)."""
        diagonal = self.identity + self.factors @ (self.rows**2).T
        return diagonal if self.ones is None else diagonal - self.ones * (self.ones / self.total)

    def block(self, group: np.ndarray) -> np.ndarray:
        """Return M for the k points of a group, (..., k, k)."""
        A = self.rows[group]
        block = self.identity * np.eye(len(group)) + (self.factors[..., None, :] * A) @ A.T
        if self.ones is None:
            return block
        o = self.ones[..., group]
        return np.asarray(block - o[..., :, None] * (o / self.total)[..., None, :])

    def errors(
        self,
        values: np.ndarray,
        groups: Sequence[np.ndarray] | None,
        check: Callable[[float], None] | None = None,
    ) -> np.ndarray:
        """Return the errors from v, both (..., n, n_targets); groups are indices of their points.

        Without groups each point is left out alone. `check` gets the least eigenvalue of each
        block, and refuses blocks that are singular up to rounding errors.
        """
        if groups is None:
            diagonal = self.diagonal()
            if check:
                check(float(diagonal.min()))
            return values / diagonal[..., None]
        errors = np.empty_like(values)
        for group in groups:
            block = self.block(group)
            if check:
                check(float(np.linalg.eigvalsh(block).min()))
            errors[..., group, :] = np.linalg.solve(block, values[..., group, :])
        return errors

    def variances(self, groups: Sequence[np.ndarray] | None) -> np.ndarray:
        """Return the diagonals of the inverse blocks, (n,), for one penalty."""
        if groups is None:
            return 1.0 / self.diagonal()
        variances = np.empty(len(self.rows))
        for group in groups:
            variances[group] = np.linalg.inv(self.block(group)).diagonal()
        return variances
