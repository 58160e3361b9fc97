"""The steps of a network, layer by layer, and the rewritten steps of compiled engines.

A layer consists of the following steps, as far as the network has them, ::

    norm → convolution → bias → activation → convolution → bias → skip.

The features of layer l − 1 enter the first step of layer l and the skip connection. Engines take
the steps in this order. Compiled engines rely on two more facts: F and A are merged only at the end
of a layer, and if they compute only sums over pixels, they add the branch's bias before this merge
(cpu/results.h, cuda/layers.h).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from ...network import Network
from .activation import ActivationStep
from .bias import BiasStep
from .convolution import ConvolutionStep
from .joined import JoinedStep
from .network_constants import NetworkConstants
from .norm import NormStep
from .skip import SkipStep
from .step import Step
from .taps import taps_of_filter


class RepeatedLayer(NamedTuple):
    """Consecutive layers with equal steps, which are listed once."""

    n_layers: int
    steps: tuple[Step, ...]


NetworkSteps: TypeAlias = tuple[RepeatedLayer, ...]
"""The steps of all layers, from layer 0 on, which is the input filter."""


def steps_of(network: Network, depth: int, n_axes: int) -> NetworkSteps:
    """Return the steps of a network for signals (`n_axes` 1) or images (`n_axes` 2)."""
    constants = NetworkConstants(network, depth)
    # The layers that may differ from the one before. In uniform networks these are layer 1, whose
    # inner filter is that of the input, layer 2, and the last layer, which a compiled engine cuts.
    firsts: Iterable[int] = range(depth + 1)
    if network.is_uniform:
        firsts = sorted({0, 1, min(2, depth), depth})
    return tuple(
        RepeatedLayer(end - first, tuple(_steps(network, constants, first, n_axes)))
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
        yield BiasStep(after_activation=False)
    yield ActivationStep(network.homogeneous)
    for taps in taps_of_filter(network.outer_filter(layer_number)._replace(n_axes=n_axes)):
        yield ConvolutionStep(taps, after_activation=True)
    if bias:
        yield BiasStep(after_activation=True)
    # A layer without a skip connection has this step too, with the weight 0 for the features, in
    # two cases: if another layer has a skip connection, so that the results of all layers are at
    # the same place, and if the weight of the layer's branch is not 1.
    if constants.has_identity or constants.of_layer(layer_number).weights.branch != 1:
        yield SkipStep()


# ---------------------------------------------------------------- rewriting


def _index_of_activation(steps: tuple[Step, ...]) -> int:
    """Return the index of the activation among the steps of a layer."""
    return [isinstance(step, ActivationStep) for step in steps].index(True)


def ending_with_activation(network_steps: NetworkSteps) -> NetworkSteps:
    """Return the steps without those after the last activation.

    Heads that sum over pixels need no more: convolutions do not change such sums, and compiled
    engines apply the biases and the skip connection of every layer to the sums (cpu/results.h). If
    other steps follow an activation, a NotImplementedError is raised.
    """
    _, *layers = network_steps
    for _, steps in layers:
        for step in steps[_index_of_activation(steps) + 1 :]:
            if not isinstance(step, ConvolutionStep | BiasStep | SkipStep):
                raise NotImplementedError(
                    f"compiled engines cannot apply the step {step.kind!r}, which follows an "
                    f"activation, to sums over pixels"
                )
    *before, (n_layers, steps) = network_steps
    return (*before, RepeatedLayer(n_layers, steps[: _index_of_activation(steps) + 1]))


def may_have_five_taps(
    network: Network, constants: NetworkConstants, network_steps: NetworkSteps
) -> bool:
    """Return whether two convolutions of three taps can be replaced by one of five taps.

    The conditions are that layers have no other steps than convolutions, an activation and a skip
    connection; that all filters have the same size, a power of 3, and no dilation; that the weights
    of features and branch add up to 1; that all layers have a skip connection or none has; and that
    inner or outer weights are trained, or A is 0. If neither were trained, layers would hardly
    change A, and sums over five taps would make the same rounding error in each layer.
    """
    every_step = (step for repeated in network_steps for step in repeated.steps)
    if not all(
        isinstance(step, ConvolutionStep | ActivationStep | SkipStep) for step in every_step
    ):
        return False
    size = network.filter_size
    if not isinstance(size, int) or isinstance(network.skip, tuple):
        return False
    while size % 3 == 0:
        size //= 3
    alike = network.filter_size == network.outer_filter_size != 1 and network.dilation == 1
    parts = constants.carried_parts
    changes = parts.inner or parts.outer or not parts.initial
    are_means = all(layer_constants.weights.keeps_means for layer_constants in constants.distinct)
    return size == 1 and alike and are_means and bool(changes)


def with_five_taps(network_steps: NetworkSteps) -> NetworkSteps:
    """Return steps in which each layer leads from its pre-activations to those of the next layer.

    `may_have_five_taps` has the conditions. An inner convolution W can be applied to both paths of
    the layer before, since W(f + g) = W f + W g. On the branch it follows an equal outer
    convolution, and both, of three taps each, become one of five taps. On the identity path it
    turns features into pre-activations. Only the inner convolutions of layer 2 stay after the skip
    connection of layer 1, because the pre-activations of layer 1 have no convolution that its
    identity path could use.
    """
    input_filter, first, *later = network_steps
    if not later:
        return network_steps
    inner = later[0].steps[: _index_of_activation(later[0].steps)]
    convolutions = tuple(ConvolutionStep(step.taps, after_activation=True) for step in inner)
    return (
        input_filter,
        RepeatedLayer(1, first.steps + convolutions),
        *(
            RepeatedLayer(n_layers, tuple(_with_triangles(steps[len(inner) :])))
            for n_layers, steps in later
        ),
    )


def _with_triangles(steps: tuple[Step, ...]) -> Iterator[Step]:
    """Yield steps in which each convolution of three taps is replaced by one of five taps."""
    for step in steps:
        if isinstance(step, ConvolutionStep):
            step = replace(step, taps=step.taps._replace(n_taps=5, is_triangle=True))
        yield step


def may_join(network: Network, constants: NetworkConstants, n_axes: int) -> bool:
    """Return whether the merges of a layer with convolutions of five taps can be one merge.

    The conditions are filters of three taps, the activation ReLU, signals and not images,
    A without a multiple of Σ (`inner_minus_iota`), and no U⁺. K has the same variance as Σ, so
    that the features and the branch at a tap can be one part.
    """
    plain = network.filter_size == 3 and network.is_relu and n_axes == 1
    return plain and not (constants.carried_parts.inner_minus_iota or constants.has_U_plus)


def joined(network_steps: NetworkSteps) -> NetworkSteps:
    """Return steps in which each layer is an activation and one merge of five taps.

    The merge includes the skip connection. `network_steps` are those of `with_five_taps`, and
    `may_join` has the further conditions.
    """
    input_filter, *layers = network_steps

    def joined_steps(steps: tuple[Step, ...], n_feature_taps: int) -> tuple[Step, ...]:
        activation, *later_steps = steps
        return (activation, JoinedStep(n_feature_taps)) if later_steps else steps

    return (
        input_filter,
        *(
            RepeatedLayer(n, joined_steps(steps, 1 if k else 3))
            for k, (n, steps) in enumerate(layers)
        ),
    )
