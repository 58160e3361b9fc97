"""`Network` (network.py), its parameters, its parts and its activations."""

from .network import OF_LAYERS, Network, check_network

__all__ = ["OF_LAYERS", "Network", "check_network"]
