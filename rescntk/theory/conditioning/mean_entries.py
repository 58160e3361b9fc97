"""Mean entries of kernel matrices over depth: theorem 6.2 and lemma E.3 of Barzilai et al. 2022.

``docs/theory/conditioning.md``, section 4.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.stats import binom

from ...checks.values import check_depths
from ...network.network import Network, check_like_layers
from ...network.parameters import RELU_FIELDS
from .. import multisphere
from ..tools.argument_checks import check_branch, check_cases, check_resnet
from ..tools.report_table import ReportTable


class MeanEntriesRow(NamedTuple):
    """A row of `MeanEntries`, which documents the columns."""

    depth: int
    resnet: float
    mixture: float
    cnn: float


@dataclass(frozen=True)
class MeanEntries(ReportTable[MeanEntriesRow]):
    """Mean entries off the diagonal of normalized trace kernels; iterating gives a row a depth.

    - ``depth``: L.
    - ``resnet``: b of ResCGPK.
    - ``mixture``: the sum of lemma E.3 over CNNs of depths 0 … L, at least ``resnet``.
    - ``cnn``: b_L of CGPK, at least ``mixture``.
    """

    first_depth: int | None
    """L_0 of theorem 6.2, part 3: the first depth from which on both b are at least 0. None if it
    exceeds the largest depth asked for."""


def mean_entries(network: Network, X: np.ndarray, depths: Iterable[int]) -> MeanEntries:
    r"""Return the mean entries b of ResCGPK and CGPK over depth, and the sum between them.

    For ReLU without biases, the trace head and signals on the multi-sphere (Barzilai et al. 2022,
    lemma E.3): :math:`b_\mathrm{ResCGPK} \le \sum_{k=0}^L \binom Lk p^k (1-p)^{L-k} b_k \le b_L`.
    b_k is the mean entry of the CGPK of depth k, b_0 the mean dot product, and p the
    ``Network.branch_share``. Once both are at least 0, the kernel of the smaller b has the smaller
    lower bound on condition numbers (theorem 6.2, part 3).

    Parameters
    ----------
    network : Network
        Of ReLU, with skip connections, a positive `alpha`, ``input_filter_size`` 1 and one dilation
        for all layers. Its depth does not matter.
    X : ndarray, (n_cases, n_channels, n_timepoints)
        At least two signals on the multi-sphere.
    depths : iterable of int
        Kernels of all depths up to the largest are computed.

    Returns
    -------
    `MeanEntries`
        A row for each depth.

    Raises
    ------
    ValueError
        If the network is another one, or signals are not on the multi-sphere.

    Examples
    --------
    >>> import rescntk as rk
    >>> from rescntk.theory import conditioning
    >>> X = rk.theory.multisphere.sample(8, 4, 10, rng=0)
    >>> table = conditioning.mean_entries(rk.Network(1), X, (5,))
    >>> print(table, "L0:", table.first_depth)
    depth  resnet  mixture     cnn
    ------------------------------
        5  0.5212   0.5404  0.7444 L0: 1
    """
    check_like_layers(network, RELU_FIELDS - {"input_filter_size"})
    check_resnet(network)
    check_branch(network)
    chosen = check_depths(depths)
    X = multisphere.check_on_sphere(X, "X")
    check_cases(X, 2, "a mean over pairs of signals")
    layers, pairs = range(1, max(chosen) + 1), np.triu_indices(len(X), 1)

    def means(skip: bool) -> np.ndarray:
        networks = [network.replace(depth=depth, skip=skip) for depth in layers]
        complements = multisphere.gram_complements(networks, X, kind="gpk", head="trace")
        return np.asarray(complements[:, *pairs].mean(axis=1))

    start = multisphere.dot_products(X, complement=True).mean(axis=2)[pairs].mean()
    resnet, cnn = means(True), np.append(start, means(False))
    rows = []
    for depth in chosen:
        weights = binom.pmf(np.arange(depth + 1), depth, network.branch_share)
        values = resnet[depth - 1], weights @ cnn[: depth + 1], cnn[depth]
        rows.append(MeanEntriesRow(depth, *(1.0 - float(value) for value in values)))
    reached = np.flatnonzero(resnet <= 1.0)  # then b of CGPK is no less than 0, either: lemma E.3
    return MeanEntries(tuple(rows), int(reached[0]) + 1 if len(reached) else None)
