"""The steps of a network, layer by layer, and how compiled engines rewrite them.

A layer is, where the network has these parts, ::

    norm → convolution → bias → activation → convolution → bias → skip.

The features of layer l − 1 enter it, and pass the skip connection. Engines do one step after the
other. Compiled engines rely on two things besides: F and A are merged at the end of a layer, and
sums over pixels get the branch's bias before that merge (cpu/results.h, cuda/row_layers.h).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from ...network import Network
from .activation import ActivationStep
from .bias import BiasStep
from .constants import NetworkConstants
from .convolution import ConvolutionStep
from .joined import JoinedStep
from .norm import NormStep
from .skip import SkipStep
from .step import Step
from .taps import taps_of_filter


class LikeLayers(NamedTuple):
    """Layers that follow one another and have equal steps."""

    n_layers: int
    steps: tuple[Step, ...]


NetworkSteps: TypeAlias = tuple[LikeLayers, ...]
"""The steps of all layers. The first ones are those of the input filter."""


def steps_of(network: Network, depth: int, n_axes: int) -> NetworkSteps:
    """Return the steps of a network, on signals (`n_axes` 1) or images (2)."""
    constants = NetworkConstants(network, depth)
    firsts: Iterable[int] = range(depth + 1)  # layers that may differ from their predecessor
    if network.is_uniform:
        firsts = sorted({min(number, depth) for number in (0, 1, 2, 3, depth)})
    return tuple(
        LikeLayers(end - first, tuple(_steps(network, constants, first, n_axes)))
        for first, end in pairwise([*firsts, depth + 1])
    )


def _steps(
    network: Network, constants: NetworkConstants, layer_number: int, n_axes: int
) -> Iterator[Step]:
    """Yield the steps of a layer; layer 0 is the input filter."""
    if layer_number == 0:
        for taps in taps_of_filter(network.input_filter._replace(n_axes=n_axes)):
            yield ConvolutionStep(taps)
        return
    bias = network.layer(layer_number).bias
    if network.norm:
        yield NormStep()
    for taps in taps_of_filter(network.inner_filter(layer_number)._replace(n_axes=n_axes)):
        yield ConvolutionStep(taps)
    if bias:
        yield BiasStep(is_branch=False)
    yield ActivationStep(network.homogeneous)
    for taps in taps_of_filter(network.outer_filter(layer_number)._replace(n_axes=n_axes)):
        yield ConvolutionStep(taps, is_branch=True)
    if bias:
        yield BiasStep(is_branch=True)
    # A layer without a skip connection has this step too, with features of weight 0, if another
    # layer has a skip connection, so that results of all layers lie in one place, or if its branch
    # has a weight other than 1.
    if constants.has_identity or constants.of_layer(layer_number).weights.branch != 1:
        yield SkipStep()


# ---------------------------------------------------------------- rewriting


def _activation(steps: tuple[Step, ...]) -> int:
    """Return the place of a layer's activation."""
    return [isinstance(step, ActivationStep) for step in steps].index(True)


def ending_with_activation(network_steps: NetworkSteps) -> NetworkSteps:
    """Return steps whose last layer ends with its activation: sums over pixels need no more."""
    *before, (n_layers, steps) = network_steps
    return (*before, LikeLayers(n_layers, steps[: _activation(steps) + 1]))


def may_have_five_taps(network: Network, constants: NetworkConstants) -> bool:
    """Return whether two convolutions of three taps can be one of five.

    All filters have one size, a power of 3. There are no dilation, bias or normalization. Weights
    of features and branch add up to 1, and layers have skip connections all or none. Inner or outer
    weights are trained, or A is 0: else layers hardly change A, and sums of five taps round alike
    in all of them.
    """
    size = network.filter_size
    if not isinstance(size, int) or isinstance(network.skip, tuple):
        return False
    while size % 3 == 0:
        size //= 3
    alike = network.filter_size == network.outer_filter_size != 1 and network.dilation == 1
    parts = constants.carried_parts
    changes = parts.inner or parts.outer or not parts.initial
    are_means = all(constants.of_layer(k).weights.keeps_means for k in constants.different_layers)
    plain = not (network.has_bias or network.norm) and are_means
    return size == 1 and alike and plain and bool(changes)


def with_five_taps(network_steps: NetworkSteps) -> NetworkSteps:
    """Return steps whose layers lead from pre-activations to pre-activations.

    The inner convolutions of a layer pass the skip connection of the layer before:
    W(f + g) = W f + W g. There they meet equal outer ones, and each pair of three taps becomes five
    taps. Only the inner convolutions of layer 2 stay behind the skip connection: the
    pre-activations of layer 1, which pass it, have none.
    """
    input_filter, first, *later = network_steps
    if not later:
        return network_steps
    inner = later[0].steps[: _activation(later[0].steps)]
    behind = tuple(ConvolutionStep(step.taps, is_branch=True) for step in inner)
    return (
        input_filter,
        LikeLayers(1, first.steps + behind),
        *(
            LikeLayers(n_layers, tuple(_triangles(steps[len(inner) :])))
            for n_layers, steps in later
        ),
    )


def _triangles(steps: tuple[Step, ...]) -> Iterator[Step]:
    """Yield steps with five taps in place of each convolution of three."""
    for step in steps:
        is_convolution = isinstance(step, ConvolutionStep)
        five = step.taps._replace(n_taps=5, is_triangle=True)
        yield ConvolutionStep(five, step.is_branch) if is_convolution else step


def may_join(network: Network, constants: NetworkConstants, n_axes: int) -> bool:
    """Return whether a layer of five taps can be one merge: filters of 3, a plain network.

    The variance of K is the variance of Σ, so that all parts of one pixel make one part.
    """
    plain = network.filter_size == 3 and network.is_relu and n_axes == 1
    return plain and not (constants.carried_parts.inner_minus_readout or constants.has_opposite)


def joined(network_steps: NetworkSteps) -> NetworkSteps:
    """Return steps of five taps whose layers have one merge, with the skip connection in it."""
    input_filter, *layers = network_steps

    def joined_steps(steps: tuple[Step, ...], n_feature_taps: int) -> tuple[Step, ...]:
        activation, *behind = steps
        return (activation, JoinedStep(n_feature_taps)) if behind else steps

    return (
        input_filter,
        *(LikeLayers(n, joined_steps(steps, 1 if k else 3)) for k, (n, steps) in enumerate(layers)),
    )
