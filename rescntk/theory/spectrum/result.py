"""Eigenvalues with their errors and numbers, and what they tell: tails, dimensions, norms.

Letters are those of ``docs/theory/spectrum.md`` and ``docs/theory/learning_curves.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...checks.values import check_finite, check_positive, check_shape
from .quadrature import harmonics, multiplicities


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenvalues of a kernel on the multi-sphere, with their errors, and how often each occurs."""

    eigenvalues: np.ndarray
    """(max_frequency + 1, ..., max_frequency + 1), an axis for each pixel's frequency."""
    errors: np.ndarray
    """Estimates, in the shape of the eigenvalues: the largest difference from two coarser grids, at
    this frequency and its neighbours, plus rounding errors. NaN if they were not asked for."""
    trace: float
    """K(x, x) of the equivariant kernel: the sum of its eigenvalues, each as often as it occurs."""
    head: str
    """The head of the kernel."""
    n_channels: int
    """C0 of the signals."""

    @cached_property
    def counts(self) -> np.ndarray:
        r"""Numbers of eigenfunctions of each frequency, in the shape of the eigenvalues.

        For the equivariant and trace heads :math:`\prod_i N(C_0, k_i)`, N of `harmonics`. With GAP
        only eigenfunctions that no shift changes have an eigenvalue other than 0. They are divided
        equally among all shifts of a frequency, into fractions if need be.
        """
        top = tuple(n - 1 for n in self.eigenvalues.shape)
        return multiplicities(self.n_channels, top, shift_invariant=self.head == "gap")

    @property
    def resolved(self) -> np.ndarray:
        """True where an eigenvalue exceeds ten times its error, and may enter a fit."""
        return self.eigenvalues > 10.0 * self._known_errors()

    @property
    def significant(self) -> np.ndarray:
        """The eigenvalues, 0 where they do not exceed their errors: of single functions."""
        return np.where(self.eigenvalues > self._known_errors(), self.eigenvalues, 0.0)

    @property
    def estimates(self) -> np.ndarray:
        """The eigenvalues, 0 where errors make them negative: of sums over many functions.

        In a sum an eigenvalue near its error counts more right than 0 would.
        """
        return np.maximum(self.eigenvalues, 0.0)

    @cached_property
    def tail(self) -> float:
        """Part of the trace in eigenvalues that were not computed.

        With GAP it is the part of the equivariant kernel's trace, as `trace` is: `tail_bounds` has
        that of GAP's eigenfunctions.
        """
        counts = self.counts
        if self.head == "gap":
            top = tuple(n - 1 for n in self.eigenvalues.shape)
            counts = multiplicities(self.n_channels, top, shift_invariant=False)
        return max(self.trace - float((counts * self.estimates).sum()), 0.0)

    @property
    def tail_bounds(self) -> tuple[float, float]:
        """Lower and upper bound on the sum of the eigenvalues in `tail`, as often as each occurs.

        They differ for GAP, where a frequency has one in d of the equivariant head's
        eigenfunctions, and more where a shift keeps it.
        """
        if self.head != "gap":
            return self.tail, self.tail
        # d/c pixels of a cycle have one frequency: of those not computed the least counts most.
        d, highest = self.eigenvalues.ndim, min(self.eigenvalues.shape)
        cycles, count = np.gcd(np.arange(1, d), d), float(harmonics(self.n_channels, highest))
        least = self.tail / d
        return least, least * (1.0 + float((count ** (1.0 - d / cycles)).sum()))

    def effective_dimension(self, n: float, penalty: float) -> float:
        r"""Return how many eigenfunctions a penalty leaves, :math:`\sum\lambda/(\lambda+\delta/n)`.

        Over all eigenfunctions of the computed frequencies. Those in `tail` would add between 0 and
        ``tail_bounds[1] * n / penalty``. The dimension of a `learning.curve` is less: there κ is in
        the place of δ/n, and is larger.

        Parameters
        ----------
        n : float
            Number of training signals, positive.
        penalty : float
            δ, positive: what ridge regression adds to the diagonal of the kernel matrix (n, n).

        Returns
        -------
        float

        Raises
        ------
        ValueError
            If an argument is not positive.

        Examples
        --------
        >>> import rescntk as rk
        >>> from rescntk.theory import spectrum
        >>> options = {"kind": "gpk", "head": "trace", "normalized": True}
        >>> found = spectrum.eigenvalues(rk.Network(2), 2, 3, 6, **options)
        >>> round(found.effective_dimension(100, penalty=1.0), 2), round(found.tail, 4)
        (12.72, 0.0003)
        """
        penalty_of_signal = check_positive(penalty, "penalty") / check_positive(n, "n")
        values = self.estimates
        return float((self.counts * (values / (values + penalty_of_signal))).sum())

    def rkhs_norm(self, coefficients: np.ndarray) -> float:
        r"""Return the norm of a function in the kernel's RKHS on the multi-sphere.

        :math:`(\sum_k v_k^2/\lambda_k)^{1/2}` (Barzilai et al. 2022, section 3.2), of functions
        whose frequencies are all among the computed ones. The eigenvalues need their errors
        (``errors=True``): rounding errors in the place of a 0 would make infinite norms finite.

        Parameters
        ----------
        coefficients : ndarray, in the shape of the eigenvalues
            v_k: the root of the sum of squared coefficients of all orthonormal eigenfunctions of
            the frequencies k. GAP's space has shift-invariant functions alone: their v_k are equal
            at all shifts of k. Coefficients do not show whether the parts of equal v_k are shifts
            of each other; with GAP they are taken to be.

        Returns
        -------
        float
            Infinity for functions outside the space: with a part where the eigenvalue is 0, or not
            above its error, and with GAP with different v_k at two shifts of k.

        Raises
        ------
        ValueError
            If there are not as many coefficients as eigenvalues, or these have no errors.
        OverflowError
            If the norm is finite and exceeds float64.

        Examples
        --------
        >>> import rescntk as rk
        >>> from rescntk.theory import spectrum
        >>> options = {"kind": "ntk", "head": "trace", "errors": True}
        >>> found = spectrum.eigenvalues(rk.Network(2), 2, 1, 3, **options)
        >>> round(found.rkhs_norm([0.0, 0.0, 0.0, 1.0]), 3)  # a wave of frequency 3
        3.191
        """
        v = np.abs(check_shape(coefficients, "coefficients", self.eigenvalues.shape))
        values = self.significant[v > 0]
        if not values.all() or (self.head == "gap" and not _shift_invariant(v)):
            return math.inf
        with np.errstate(over="ignore"):
            parts = v[v > 0] / np.sqrt(values)
        return float(check_finite(np.asarray(math.hypot(*parts))))

    def _known_errors(self) -> np.ndarray:
        if np.isnan(self.errors).any():
            raise ValueError("the errors of these eigenvalues were not asked for: errors=True")
        return self.errors


def _shift_invariant(v: np.ndarray) -> bool:
    """Return whether coefficients are equal at all shifts of their frequencies, up to rounding."""
    frequencies = np.argwhere(v)
    for shift in range(1, v.ndim):
        moved = np.roll(frequencies, shift, axis=1)
        if (moved >= v.shape).any():  # frequencies that were not computed
            return False
        if (np.abs(v[tuple(moved.T)] - v[tuple(frequencies.T)]) > 1e-12 * v.max()).any():
            return False
    return True
