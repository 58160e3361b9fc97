"""Layout of a finite network: the shape and the factor of every weight array, in one place."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ..network import Filter, Network


@dataclass(frozen=True)
class Convolution:
    """Sizes and variance of a convolution y_j = factor · Σ_k W_k x_{j + step·k}."""

    taps: int
    """Filter size q, odd; the taps are k = −(q−1)/2 … (q−1)/2."""
    inputs: int
    """Channels that it reads."""
    outputs: int
    """Channels that it writes."""
    variance: float | None
    """Variance of the output for inputs of unit mean square: c_w, c_v or the input's scale.
    None for weights that carry their scale themselves."""
    step: int = 1
    """Pixels from one tap to the next: 1, more in a dilated filter."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """(taps, inputs, outputs), the shape of the weights."""
        return self.taps, self.inputs, self.outputs

    @property
    def fan_in(self) -> int:
        """Number of weights that an output pixel reads: taps · inputs."""
        return self.taps * self.inputs

    @property
    def factor(self) -> float:
        """√(variance / (taps · inputs)), the factor in front of N(0, 1) weights; 1 for others."""
        return 1.0 if self.variance is None else math.sqrt(self.variance / self.fan_in)


@dataclass(frozen=True)
class Layout:
    """All convolutions of a finite network, in the order of the layers."""

    input: Convolution | None
    """V⁰; None where no layer reads f⁰."""
    inner: tuple[Convolution, ...]
    """W¹ … W^L."""
    outer: tuple[Convolution, ...] | None
    """V¹ … V^L; None in a network whose layers end with the activation."""

    def without_factors(self) -> Layout:
        """Return the same layout for weights that carry their scale themselves."""

        def bare(convolution: Convolution) -> Convolution:
            return replace(convolution, variance=None)

        return Layout(
            input=None if self.input is None else bare(self.input),
            inner=tuple(map(bare, self.inner)),
            outer=None if self.outer is None else tuple(map(bare, self.outer)),
        )


def layout(network: Network, n_channels: int, width: int) -> Layout:
    """Return the convolutions of `network` for signals of `n_channels` and layers of `width`.

    - f⁰ is read by the skip connections, and by g¹ where the input is trained.
    - g¹ reads the signal itself where the input is frozen, with a filter of its own.
    - Frozen 1x1 outer convolutions without skip connections are left out. Their limit is the
      identity, and the papers' networks of one convolution a layer do not have them.
    """
    signal = _InputReader(network, n_channels, width)
    reads_features = first_layer_reads_features(network)
    first = (
        Convolution(1, width, width, network.c_w) if reads_features else signal.read(network.c_w)
    )
    layers = range(1, network.depth + 1)

    def convolution(filter: Filter, variance: float) -> Convolution:
        return Convolution(filter.size, width, width, variance, filter.step)

    inner = (convolution(network.inner_filter(layer), network.c_w) for layer in layers[1:])
    outer = (convolution(network.outer_filter(layer), network.c_v) for layer in layers)
    return Layout(
        input=signal.read(1.0) if network.skip or reads_features else None,
        inner=(first, *inner),
        outer=tuple(outer) if has_outer(network) else None,
    )


def first_layer_reads_features(network: Network) -> bool:
    """Return whether g¹ reads f⁰ (input trained) and not the signal (input frozen)."""
    return "input" in network.trained


def has_outer(network: Network) -> bool:
    """Return whether layers have an outer convolution: all but frozen 1x1 ones without skips."""
    return network.skip or network.outer_filter_size > 1 or "outer" in network.trained


@dataclass(frozen=True)
class _InputReader:
    """Convolutions that read the signal: windows of input_filter_size pixels."""

    network: Network
    n_channels: int
    width: int

    def read(self, variance: float) -> Convolution:
        """Return the convolution; the kernel of its output is variance · F⁰."""
        scale = self.network.input_scale
        relative = 1.0 if scale is None else scale * self.n_channels
        return Convolution(
            self.network.input_filter_size, self.n_channels, self.width, variance * relative
        )
