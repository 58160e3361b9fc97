"""Checks of networks, of families of networks, and of kernels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def check_network(network: Any) -> None:
    """Raise a ValueError if `network` is not a `Network`."""
    from ..network import Network  # network.py imports this package

    if not isinstance(network, Network):
        raise ValueError(f"network is {network!r}, expected a rescntk.Network")


def check_kernel(kernel: Any) -> None:
    """Raise a ValueError if `kernel` cannot be called: a `Network`, say."""
    if not callable(kernel):
        raise ValueError(f"kernel is {kernel!r}, expected a rescntk.Kernel or another callable")


def check_library_kernel(kernel: Any) -> None:
    """Raise ValueError unless `kernel` is a rescntk.Kernel, whose network is known."""
    from ..kernels import Kernel  # kernels.py imports this package

    if not isinstance(kernel, Kernel):
        raise ValueError(f"kernel is {kernel!r}, expected a rescntk.Kernel")


def check_relu(network: Any, reason: str) -> None:
    """Raise a ValueError, with the `reason`, if the activation of `network` is not ReLU."""
    check_network(network)
    if network.activation != "relu":
        raise ValueError(f"network has activation {network.activation!r}{reason}")


def check_multisphere_networks(networks: Iterable[Any], kind: str) -> tuple[Any, ...]:
    """Return the networks if ``multisphere.gram_complements`` can take them together.

    They are ReLU networks with an input filter of size 1, differ in depth and α alone, and have
    kernels that are not 0 for every signal.
    """
    networks = tuple(networks)
    if not networks:
        raise ValueError("networks is empty, expected at least one")
    for network in networks:
        check_network(network)
    deepest = max(networks, key=lambda network: network.depth)
    for network in networks:
        if network.activation != "relu" or network.input_filter_size != 1:
            raise ValueError(
                f"network is {network!r}: kernels depend on dot products alone for activation "
                f"'relu' and input_filter_size 1, expected these"
            )
        nothing = not network.skip and network.branch_gain == 0
        if nothing or network.input_scale == 0:
            raise ValueError(f"network is {network!r}: its kernels are 0, no correlations")
        if not _alike(network, deepest):
            raise ValueError("networks differ in more than depth and alpha, expected them alike")
        parts = network.parts
        moves = network.branch_share > 0 and parts.inner + parts.outer > 0
        if kind == "ntk" and parts.initial == 0 and not moves:
            raise ValueError(
                f"network is {network!r}: its tangent kernel is 0, and has no correlations"
            )
    return networks


def _alike(one: Any, other: Any) -> bool:
    """Return whether networks differ in depth and α alone, the dilations of common layers alike."""
    depth = min(one.depth, other.depth)
    return bool(one.replace(depth=depth, alpha=1.0) == other.replace(depth=depth, alpha=1.0))


def check_one_dilation(network: Any) -> None:
    """Raise a ValueError if the layers of `network` have dilations of their own."""
    check_network(network)
    if not isinstance(network.dilation, int):
        raise ValueError(
            f"network has the dilations {network.dilation!r}, expected one for all layers: this "
            f"is about networks of any depth"
        )


def check_family(family: Any, depths: Iterable[int]) -> list[Any]:
    """Return the networks of a family at `depths`: a Network, or a function from depth to one."""
    from ..network import Network

    if isinstance(family, Network):
        return [family.replace(depth=depth) for depth in depths]
    if not callable(family):
        raise ValueError(f"family is {family!r}, expected a Network or a function that returns one")
    networks = []
    for depth in depths:
        network = family(depth)
        if not isinstance(network, Network):
            raise ValueError(f"family returned {network!r} for depth {depth}, expected a Network")
        networks.append(network)
    return networks
