"""Which weights a network of finite width has: those that its limits do not tell apart."""

from __future__ import annotations

from .network import Network


def reads_signal(network: Network) -> bool:
    """Return whether g¹ is a convolution of the signal, not of f⁰."""
    return "input" not in network.trained and not network.norm


def has_outer_weights(network: Network) -> bool:
    """Return whether layers have outer weights.

    Without skip connections, frozen outer convolutions of size 1 without biases are left out.
    """
    if any(network.values_of("skip")) or "outer" in network.trained or network.has_bias:
        return True
    return any(network.outer_filter(k).size > 1 for k in range(1, network.depth + 1))
