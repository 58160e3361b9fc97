"""The exponent of learning curves, from the law of decay (docs/theory/sample_complexity.md)."""

from __future__ import annotations

from ...network import Network
from ..spectrum.constants import check_ring
from ..spectrum.exponents import decay_law
from ..spectrum.grid import windows
from ..tools.argument_checks import check_branch
from ..tools.complements import check_nonzero


def error_exponent(network: Network, n_channels: int, n_timepoints: int, *, kind: str) -> float:
    r"""Return the exponent of the law by which errors of kernel regression fall, by a conjecture.

    For targets from the kernel's own Gaussian process, without noise or penalty, and signals drawn
    uniformly from the multi-sphere. It rests on the conjectured law of decay
    (``spectrum.decay_law``). Errors fall like :math:`n^{-3/(W (C_0-1))}` (GPK) and
    :math:`n^{-1/(W (C_0-1))}` (NTK with weights trained below the last activation). W is the number
    of pixels in a window of the last layer. All heads have the same exponent.

    Parameters
    ----------
    network : Network
        Of ReLU without biases, with a branch.
    n_channels : int
        C0, at least 2.
    n_timepoints : int
        Number d of pixels, at most 32.
    kind : {"gpk", "ntk"}

    Returns
    -------
    float
        Positive.

    Raises
    ------
    ValueError
        If the network is another one, its kernel is 0 for every signal, or an argument is out of
        range.

    Examples
    --------
    >>> from rescntk import literature
    >>> from rescntk.theory import learning
    >>> learning.error_exponent(literature.geifman_cnn(2, 3), 2, 5, kind="gpk")
    1.0
    """
    C, d = check_ring(network, n_channels, n_timepoints, kind, "equivariant")
    check_branch(network)
    check_nonzero(network, kind)
    window = windows(network, d)[0][-1]
    law = decay_law(network, C, d, sorted(window), kind=kind, head="equivariant")
    # Up to the frequency k there are k^M eigenvalues, each at least of order k^−law. The error
    # is the sum of those after the first n.
    M = len(window) * (C - 1)
    return (law - M) / M
