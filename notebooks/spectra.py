"""A ResNet's spectrum as a mixture of the spectra of CNNs: the idea behind theorem 5.2.

Barzilai et al. 2022, section 5. ``docs/theory/decay.md`` says what it shows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import nnls

from rescntk import Network
from rescntk.theory.spectrum import eigenvalues


class Mixture(NamedTuple):
    """A ResNet's eigenvalues as a weighted sum of the eigenvalues of CNNs of its depths.

    ``depths`` are 0 (the dot product, which only the skip connections carry), 1 … L, ``weights``
    theirs. Three arrays have the shape of ``spectrum.eigenvalues``: the ResNet's ``eigenvalues`` λ
    of K/K(x, x), the sum ``mixed``, and ``alone``, the deepest CNN's times the weight that fits
    best. ``rms`` and ``rms_alone`` are root mean squares of log λ − log of the two.
    """

    depths: tuple[int, ...]
    weights: np.ndarray
    eigenvalues: np.ndarray
    mixed: np.ndarray
    alone: np.ndarray
    rms: float
    rms_alone: float


def mixture(network: Network, n_channels: int, d: int, max_frequency: int, kind: str) -> Mixture:
    """Fit a ResNet's spectrum by a sum of spectra of CNNs, the network of less depth, no skips.

    Weights are at least 0 and minimize relative errors.
    """
    options: dict[str, Any] = {"kind": kind, "head": "equivariant", "normalized": True}
    of_resnet = eigenvalues(network, n_channels, d, max_frequency, errors=True, **options)
    target, resolved = of_resnet.eigenvalues, of_resnet.resolved
    dot, pixels = np.zeros_like(target), np.eye(d, dtype=int)
    for tap in network.input_filter.offsets:
        dot[tuple(pixels[tap % d])] += 1 / (network.input_filter_size * n_channels)
    depths = tuple(range(network.depth + 1))
    cnns = (network.replace(depth=depth, skip=False) for depth in depths[1:])
    spectra = (eigenvalues(cnn, n_channels, d, max_frequency, **options) for cnn in cnns)
    parts = np.array([dot, *(spectrum.eigenvalues for spectrum in spectra)])

    def fit(chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        relative = (chosen[:, resolved] / target[resolved]).T
        weights, _ = nnls(relative, np.ones(len(relative)))
        rms = float(np.sqrt((np.log(relative @ weights) ** 2).mean()))
        return weights, np.tensordot(weights, chosen, 1), rms

    (weights, mixed, rms), (_, alone, rms_alone) = fit(parts), fit(parts[-1:])
    return Mixture(depths, weights, target, mixed, alone, rms, rms_alone)
