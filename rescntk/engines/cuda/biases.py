"""Biases of convolutions: their constants in each layer, and their part of results.

Signals x and z are divided by their own sizes, and so have biases β_x and β_z of their own
(docs/theory/biases.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...arrays import Array, array_module
from ...network import Network

if TYPE_CHECKING:
    from .scaling import Scaling

NAMES = (
    "bias_window",  # of Σ, in its unit.
    "bias_branch",  # of F.
    "bias_distance",  # of all biases so far, in the sum of D over the inner window.
    "bias_tangent",  # of all biases so far, in K̇'s factor A_g.
    "bias_gpk",
    "bias_ntk",  # of all biases so far, in F and in A: added to results
)
"""Constants of layers with biases. Two signals' biases add `bias_window` β_x β_z to Σ.

The biases of F and A pass boxes and skip connections unchanged, and are added to results. D gets
(β_x − β_z)²/2 where F gets β_x β_z.
"""


def energy(network: Network) -> float:
    """Return H: a signal is divided by the root of its mean energy plus H β².

    Without skip connections biases bring H times the energy 1 in the first layer, with skip
    connections in all layers.
    """
    gain = network.c_v * network.activation_gain
    return network.bias and (1.0 + 2.0 / gain) / network.c_w


def constants(scaling: Scaling) -> list[dict[str, float]]:
    """Return the constants `NAMES` of layers 0 … L."""
    network, layers = scaling.network, [dict.fromkeys(NAMES, 0.0)]
    parts = network.parts
    for layer in range(1, scaling.depth + 1):
        before, taps = layers[-1], scaling.inner_filter(layer).n_taps
        skip_scale = scaling.step(layer) * network.skip
        window = scaling.stored(layer - 1) / scaling.unit(layer)
        branch = network.alpha**2 * scaling.stored(layer)
        gpk, ntk = (skip_scale * before[name] for name in ("bias_gpk", "bias_ntk"))
        layers.append({
            "bias_window": window,
            "bias_branch": branch,
            "bias_distance": taps * before["bias_gpk"] + window,
            "bias_tangent": taps * before["bias_ntk"] + parts.readout * window,
            "bias_gpk": gpk + branch,
            "bias_ntk": ntk + parts.outer_plus_readout * branch,
        })  # fmt: skip
    return layers


def add_to_results(
    scaling: Scaling, values: Mapping[str, Array], left: Array, right: Array, lengths: Any
) -> None:
    """Add the biases of F and of A to finished results, as `Scaling.scaled` takes them."""
    more = {"pixels": 2}.get(scaling.request_head, int(scaling.shares))
    xp = array_module(left)
    beta_x, beta_z = (xp.divide(scaling.network.bias, scale) for scale in (left, right))
    for kind, value in values.items():
        of_pairs = value.ndim == 2
        product = beta_x * beta_z if of_pairs else beta_x[:, None] * beta_z
        product = product[(..., *[None] * more)]
        if scaling.shares:  # a part at each pixel of the left signal
            pixels = xp.broadcast_to(xp.asarray(lengths), left.shape)[:, None, None]
            product = product / pixels * (xp.arange(value.shape[-1]) < pixels)
        for t, depth in enumerate(scaling.depths):
            factor = scaling.biases[depth][f"bias_{kind}"] * scaling.correction(depth)
            value[t] += factor * product
