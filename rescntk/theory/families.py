"""Families of networks, a network for each depth, with predicted limits (theory/limits.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from .. import literature
from ..network import Network
from ..validation import check_constant, check_depth, check_flag
from . import limits
from .limits import Prediction

Networks = Callable[[int], Network]
"""From a depth to a network."""


@dataclass(frozen=True, eq=False)
class Family:
    """A network for each depth, ``family(depth)``, and the predicted limit of its kernels.

    Parameters
    ----------
    name : str
        The name in tables and pictures.
    network : callable
        From a depth to a `Network`.
    predict : callable
        From a kind, "gpk" or "ntk", to a `Prediction`, or None.
    """

    name: str
    network: Networks
    predict: Callable[[str], Prediction | None]

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise ValueError(f"name is {self.name!r}, expected a string")

    def __call__(self, depth: int) -> Network:
        return self.network(check_depth(depth))


def fixed(network: Network, name: str | None = None) -> Family:
    """Return the family of networks that differ only in depth from `network`, of positive α.

    Parameters
    ----------
    network : Network
    name : str, optional

    Examples
    --------
    >>> import rescntk as rk
    >>> rk.theory.families.fixed(rk.Network(1, alpha=0.5))(7).depth
    7
    """
    limits.fixed(network, "gpk")  # refuses networks without a limit
    if name is None:
        name = _named(f"ResNet, α = {network.alpha:g}" if network.skip else "CNN", network)
    return Family(name, lambda depth: network.replace(depth=depth), partial(limits.fixed, network))


def _named(name: str, network: Network) -> str:
    """Return the name with the network's unusual properties."""
    name += "" if network.activation == "relu" else f", {network.activation}"
    name += f", leaky with {network.negative_slope:g}" if network.negative_slope else ""
    return name + (", readout frozen" if network.parts.initial == 0 else "")


def decaying(network: Network, gamma: float, name: str | None = None) -> Family:
    """Return the family of networks with α = a·depth^-γ, a the α of `network`.

    Parameters
    ----------
    network : Network
        With skip connections.
    gamma : float
        Not negative.
    name : str, optional

    Examples
    --------
    >>> import rescntk as rk
    >>> rk.theory.families.decaying(rk.Network(1, alpha=2.0), gamma=1.0)(4).alpha
    0.5
    """
    gamma = check_constant(gamma, "gamma")
    limits.decaying(network, gamma, "gpk")  # refuses networks without a limit
    if gamma == 0:
        return fixed(network, name)
    if name is None:
        factor = "" if network.alpha == 1 else f"{network.alpha:g} "
        name = _named(f"ResNet, α = {factor}L^-{gamma:g}", network)
    return Family(
        name,
        lambda depth: network.replace(depth=depth, alpha=network.alpha * depth**-gamma),
        partial(limits.decaying, network, gamma),
    )


def resnet(gamma: float, filter_size: int = 3, *, readout: bool = True) -> Family:
    """Return the ResNets of Barzilai et al. 2022 with α = depth^-γ.

    Parameters
    ----------
    gamma : float
        Not negative; theorem 6.1 has γ > ½.
    filter_size : int, default 3
    readout : bool, default True
        Whether the readout is trained. Appendix F of the paper is about a frozen readout.

    Examples
    --------
    >>> from rescntk.theory import families
    >>> families.resnet(0.75, readout=False).name
    'ResNet, α = L^-0.75, readout frozen'
    """
    network = literature.barzilai_resnet(1, filter_size)
    readout = check_flag(readout, "readout")
    return decaying(network if readout else network.replace(trained=("inner", "outer")), gamma)


def resnet_fixed(alpha: float = 1.0, filter_size: int = 3) -> Family:
    """Return the ResNets of Barzilai et al. 2022 with the same α at every depth.

    Parameters
    ----------
    alpha : float, default 1.0
    filter_size : int, default 3

    Examples
    --------
    >>> from rescntk.theory import families
    >>> families.resnet_fixed(0.5).name
    'ResNet, α = 0.5'
    """
    return fixed(literature.barzilai_resnet(1, filter_size, alpha))


def cnn(filter_size: int = 3) -> Family:
    """Return the networks of Barzilai et al. 2022 without skip connections.

    Parameters
    ----------
    filter_size : int, default 3

    Examples
    --------
    >>> from rescntk.theory import families
    >>> families.cnn()(3).skip
    False
    """
    return fixed(literature.barzilai_cnn(1, filter_size))


def huang_resnet(gamma: float = 1.0) -> Family:
    """Return the fully connected ResNets of Huang et al. 2020, α = depth^-γ.

    Parameters
    ----------
    gamma : float, default 1.0

    Examples
    --------
    >>> from rescntk.theory import families
    >>> families.huang_resnet(0.5)(16).alpha
    0.25
    """
    gamma = check_constant(gamma, "gamma")
    name = f"Huang's ResNet, α = L^-{gamma:g}"
    return decaying(literature.huang_resnet(1), gamma, name)


def huang_ffnet() -> Family:
    """Return the fully connected feedforward networks of Huang et al. 2020.

    Examples
    --------
    >>> from rescntk.theory import families
    >>> families.huang_ffnet()(16).filter_size
    1
    """
    return fixed(literature.huang_ffnet(1), "Huang's FFNet")
