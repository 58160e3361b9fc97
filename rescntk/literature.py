"""The systems of the papers: each function returns a `Network`.

A `Network` has two kernels: ``Kernel(literature.barzilai_resnet(5), "ntk")`` is the `Kernel` that
``ResCNTK(5)`` returns. The systems differ only in the parameters of `Network`.
"""

from __future__ import annotations

import math

from .checks.messages import shown
from .checks.values import PARTS, check_nonnegative, check_positive_integer
from .network import Network


def barzilai_resnet(depth: int, filter_size: int = 3, alpha: float = 1.0) -> Network:
    """ResCGPK and ResCNTK: Barzilai et al. 2022, eq. 1-3, two convolutions a layer.

    Parameters
    ----------
    depth : int
        Number of layers L.
    filter_size : int, default 3
        q, odd.
    alpha : float, default 1.0
        Weight α of the residual branches, at least 0.

    Returns
    -------
    `Network`

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from rescntk import literature
    >>> literature.barzilai_resnet(depth=4, alpha=0.5).skip
    True
    """
    return Network(depth, filter_size, alpha=alpha)


def barzilai_cnn(depth: int, filter_size: int = 3) -> Network:
    """CGPK and CNTK of the network of `barzilai_resnet` without its skip connections.

    Parameters
    ----------
    depth : int
        Number of layers L.
    filter_size : int, default 3
        q, odd.

    Returns
    -------
    `Network`

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from rescntk import literature
    >>> literature.barzilai_cnn(depth=4).skip
    False
    """
    return Network(depth, filter_size, skip=False)


def geifman_cnn(depth: int, filter_size: int = 3) -> Network:
    """CGPK and CNTK with one convolution a layer: Geifman et al. 2022.

    Also the CGPK of Barzilai et al. 2022, appendix G (their figure 1).

    Parameters
    ----------
    depth : int
        Number of layers L.
    filter_size : int, default 3
        q, odd.

    Returns
    -------
    `Network`

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from rescntk import literature
    >>> literature.geifman_cnn(depth=4, filter_size=5).outer_filter_size
    1
    """
    return Network(
        depth, filter_size, outer_filter_size=1, skip=False, trained=("inner", "readout")
    )


def one_convolution_resnet(depth: int, filter_size: int = 3, alpha: float = 1.0) -> Network:
    """ResCGPK with one convolution a layer: Barzilai et al. 2022, appendix G.

    Parameters
    ----------
    depth : int
        Number of layers L.
    filter_size : int, default 3
        q, odd.
    alpha : float, default 1.0
        Weight α of the residual branches, at least 0.

    Returns
    -------
    `Network`

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from rescntk import literature
    >>> literature.one_convolution_resnet(depth=4).trained
    ('inner', 'readout')
    """
    return Network(
        depth, filter_size, outer_filter_size=1, alpha=alpha, trained=("inner", "readout")
    )


def tirer_resnet(depth: int, alpha: float, sigma_v: float = 1.0, sigma_w: float = 1.0) -> Network:
    """Fully connected ResNet GPK and NTK: Tirer et al. 2022, theorems 1 and 2.

    All layers are trained, even the first. For signals of length 1.

    Parameters
    ----------
    depth : int
        Number of layers L.
    alpha : float
        Weight α of the residual branches, at least 0.
    sigma_v : float, default 1.0
        Standard deviation σ_v of the outer weights.
    sigma_w : float, default 1.0
        Standard deviation σ_w of the inner weights and the readout.

    Returns
    -------
    `Network`

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from rescntk import literature
    >>> literature.tirer_resnet(depth=5, alpha=0.1).c_v
    1.0
    """
    c_v, c_w = _variance(sigma_v, "sigma_v"), _variance(sigma_w, "sigma_w")
    return Network(depth, 1, alpha=alpha, c_v=c_v, c_w=c_w, readout_scale=c_w, trained=PARTS)


def tirer_mlp(depth: int, sigma_w: float = 1.0) -> Network:
    """Multi-layer perceptron GPK and NTK: Tirer et al. 2022, eq. 2 and 5.

    For signals of length 1.

    Parameters
    ----------
    depth : int
        Number of layers L.
    sigma_w : float, default 1.0
        Standard deviation σ_w of the inner weights and the readout.

    Returns
    -------
    `Network`

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from rescntk import literature
    >>> literature.tirer_mlp(depth=5, sigma_w=2.0).readout_scale
    4.0
    """
    c_w = _variance(sigma_w, "sigma_w")
    trained = ("inner", "readout")
    return Network(depth, 1, skip=False, c_v=1.0, c_w=c_w, readout_scale=c_w, trained=trained)


def huang_resnet(depth: int, gamma: float = 1.0) -> Network:
    """Fully connected ResNet NTK with alpha = depth^-gamma: Huang et al. 2020.

    The first and the last layer are frozen. For signals of length 1.

    Parameters
    ----------
    depth : int
        Number of layers L.
    gamma : float, default 1.0
        Exponent γ of the weight of the residual branches, depth^-γ.

    Returns
    -------
    `Network`

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from rescntk import literature
    >>> literature.huang_resnet(depth=4, gamma=0.5).alpha
    0.5
    """
    depth, gamma = check_positive_integer(depth, "depth"), check_nonnegative(gamma, "gamma")
    return Network(depth, 1, alpha=depth**-gamma, input_scale=1.0, trained=("inner", "outer"))


def huang_ffnet(depth: int) -> Network:
    """Fully connected feedforward NTK: Huang et al. 2020.

    Only the hidden layers are trained. For signals of length 1.

    Parameters
    ----------
    depth : int
        Number of layers L.

    Returns
    -------
    `Network`

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from rescntk import literature
    >>> literature.huang_ffnet(depth=4).trained
    ('inner',)
    """
    return Network(depth, 1, skip=False, input_scale=1.0, trained=("inner",))


def _variance(deviation: float, name: str) -> float:
    """Return σ² of a standard deviation σ; σ and σ² have to be finite."""
    number = check_nonnegative(deviation, name)
    if number * number == math.inf:
        raise ValueError(f"{name} is {shown(deviation)}, expected a number whose square is finite")
    return number * number
