r"""The kernel matrix of weighted cases, decomposed: all of it, or what landmarks explain of it.

The features :math:`\Phi = K(X, S) K(S, S)^{-1/2}` of signals X with landmarks S have the inner
products K between landmarks. Where not all signals are landmarks, these inner products take the
place of the kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from ...regression.decomposition import Decomposition, decompose
from ..reading.signals import Signals, take
from ..views.kernels import KernelOptions, ViewKernel


@dataclass(frozen=True, eq=False)
class CaseKernel:
    """The kernel matrix K of weighted cases, or the part that landmarks explain.

    Its eigenvalues are μ, (rank,), and λ is a penalty.
    """

    decomposition: Decomposition
    """The eigenvalues and eigenvectors of K."""
    root: np.ndarray
    """R √(μ + λ) with R of `ViewRegression`, (n_landmarks, rank): the same for all penalties."""
    unexplained: np.ndarray
    """The diagonal of what landmarks do not explain, (n_cases,)."""
    inverse_root: np.ndarray | None = None
    """K(S, S)^(-1/2) of landmarks S, but for a rotation, (n_landmarks, rank); None if all cases are
    landmarks."""
    features: np.ndarray | None = None
    """K(X, S) times `inverse_root`, (n_cases, rank); None if all cases are landmarks."""

    def at_landmarks(self, beta: np.ndarray) -> np.ndarray:
        """Return coefficients of landmarks, which make the same function as those of cases."""
        if self.inverse_root is None or self.features is None:
            return beta
        return self.inverse_root @ (self.features.T @ beta)


def case_kernel(
    kernel: ViewKernel,
    seen: Signals,
    weights: np.ndarray,
    landmark_indices: np.ndarray | None,
    options: KernelOptions,
) -> CaseKernel:
    """Return the decomposed kernel matrix of cases.

    `seen` are the signals of cases as a view shows them. `landmark_indices` are those of landmarks
    among the cases, or None if all are landmarks.
    """
    if landmark_indices is None:
        return _full_case_kernel(kernel, seen, weights, options)
    return _landmark_case_kernel(kernel, seen, weights, landmark_indices, options)


def _full_case_kernel(
    kernel: ViewKernel, seen: Signals, weights: np.ndarray, options: KernelOptions
) -> CaseKernel:
    """Return the decomposition of the whole kernel matrix."""
    decomposition = decompose(kernel.matrix(seen, None, options), weights, clip=True)
    root = decomposition.sqrt_weights[:, None] * decomposition.eigenvectors
    return CaseKernel(decomposition, root, np.zeros(len(seen)))


def _landmark_case_kernel(
    kernel: ViewKernel,
    seen: Signals,
    weights: np.ndarray,
    landmark_indices: np.ndarray,
    options: KernelOptions,
) -> CaseKernel:
    """Return the decomposition of the inner products of features."""
    landmarks = take(seen, landmark_indices)
    remaining = np.setdiff1d(np.arange(len(seen)), landmark_indices)
    K = np.empty((len(seen), len(landmarks)))
    K[landmark_indices] = kernel.matrix(landmarks, None, options)
    K[remaining] = kernel.matrix(take(seen, remaining), landmarks, options)
    landmark_values, V = scipy.linalg.eigh(K[landmark_indices], driver="evd")
    least = kernel.least_penalty(np.ones(len(landmarks)), options["dtype"])
    resolved = landmark_values > least
    inverse_root = V[:, resolved] / np.sqrt(landmark_values[resolved])
    features, sqrt_weights = K @ inverse_root, np.sqrt(weights)[:, None]
    unexplained = np.maximum(kernel.diag(seen) - (features**2).sum(axis=1), 0.0)
    # The eigenvectors of products take less time than singular vectors. They have fewer digits
    # where eigenvalues are far below the penalty, and there digits do not matter.
    products = (sqrt_weights * features).T @ (sqrt_weights * features)
    values, rotation = scipy.linalg.eigh(products, driver="evd")
    eps = float(np.finfo(np.float64).eps)
    values = np.maximum(values, eps * values[-1])
    inverse_root, features = inverse_root @ rotation, features @ rotation
    eigenvectors = sqrt_weights * features / np.sqrt(values)
    decomposition = Decomposition(values, eigenvectors, eps, sqrt_weights[:, 0])
    root = inverse_root * np.sqrt(values)
    return CaseKernel(decomposition, root, unexplained, inverse_root, features)
