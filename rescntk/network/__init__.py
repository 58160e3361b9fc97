"""`Network` (network.py), its parameters, its parts and its activations."""

from .network import PER_LAYER_FIELDS, Network, check_network

__all__ = ["PER_LAYER_FIELDS", "Network", "check_network"]
