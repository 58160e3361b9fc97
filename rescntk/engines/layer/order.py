"""The order of a network's steps, layer by layer, and how engines rewrite it.

A layer is, where the network has these parts, ::

    norm → windows → bias → activation → windows → bias → skip.

The features of layer l − 1 enter it, and pass the skip connection. Engines do one step after the
other. They rely on two things besides: F and A are merged at the end of a layer (recursion.py), and
sums over pixels get the branch's bias before that merge (cpu/results.h, cuda/row_layers.h).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from ...network import Network
from .constants import NetworkConstants
from .window import NO_WINDOW, Window, windows_of


class Step(NamedTuple):
    """A step of a layer."""

    kind: str
    """"norm", "window", "bias", "activation", "skip" or "joined"."""
    window: Window = NO_WINDOW
    """The taps of a "window", and the five taps of a "joined" step."""
    is_branch: bool = False
    """Whether the step is the activation of its layer, or comes after it."""


class LikeLayers(NamedTuple):
    """Layers that follow one another and have equal steps."""

    n_layers: int
    steps: tuple[Step, ...]


Order: TypeAlias = tuple[LikeLayers, ...]
"""The steps of all layers. The first ones are those of the input filter."""


def order_of(network: Network, depth: int, n_axes: int) -> Order:
    """Return the order of a network's steps, on signals (`n_axes` 1) or images (2)."""
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
        for window in windows_of(network.input_filter._replace(n_axes=n_axes)):
            yield Step("window", window)
        return
    bias = network.layer(layer_number).bias
    if network.norm:
        yield Step("norm")
    for window in windows_of(network.inner_filter(layer_number)._replace(n_axes=n_axes)):
        yield Step("window", window)
    if bias:
        yield Step("bias")
    yield Step("activation", is_branch=True)
    for window in windows_of(network.outer_filter(layer_number)._replace(n_axes=n_axes)):
        yield Step("window", window, is_branch=True)
    if bias:
        yield Step("bias", is_branch=True)
    # A layer without a skip connection has this step too, with features of weight 0, in two cases.
    # Another layer has a skip connection: results of all layers then lie in one place. Or the
    # branch has a weight other than 1.
    if constants.has_identity or constants.of_layer(layer_number).weights.branch != 1:
        yield Step("skip", is_branch=True)


# ---------------------------------------------------------------- rewriting


def _activation(steps: tuple[Step, ...]) -> int:
    """Return the place of a layer's activation."""
    return [step.kind for step in steps].index("activation")


def ending_with_activation(order: Order) -> Order:
    """Return an order whose last layer ends with its activation: sums over pixels need no more."""
    *before, (n_layers, steps) = order
    return (*before, LikeLayers(n_layers, steps[: _activation(steps) + 1]))


def may_have_five_taps(network: Network, constants: NetworkConstants) -> bool:
    """Return whether two windows of three can be one merge of five taps.

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


def with_five_taps(order: Order) -> Order:
    """Return an order whose layers lead from pre-activations to pre-activations.

    The inner windows of a layer pass the skip connection of the layer before: W(f + g) = W f + W g.
    There they meet equal outer windows, and each pair of windows of three becomes five taps. Only
    the inner windows of layer 2 stay behind the skip connection: the pre-activations of layer 1,
    which pass it, have no windows.
    """
    input_filter, first, *later = order
    if not later:
        return order
    inner = later[0].steps[: _activation(later[0].steps)]
    behind = tuple(step._replace(is_branch=True) for step in inner)
    return (
        input_filter,
        LikeLayers(1, first.steps + behind),
        *(
            LikeLayers(n_layers, tuple(_triangles(steps[len(inner) :])))
            for n_layers, steps in later
        ),
    )


def _triangles(steps: tuple[Step, ...]) -> Iterator[Step]:
    """Yield steps with five taps in place of each window of three."""
    for step in steps:
        is_window = step.kind == "window"
        triangle = step.window._replace(n_taps=5, is_triangle=True)
        yield step._replace(window=triangle) if is_window else step


def may_join(network: Network, constants: NetworkConstants, n_axes: int) -> bool:
    """Return whether a layer of five taps can be one merge: filters of 3, a plain network.

    The variance of K is the variance of Σ, so that all parts of one pixel make one part.
    """
    plain = network.filter_size == 3 and network.is_relu and n_axes == 1
    return plain and not (constants.carried_parts.inner_minus_readout or constants.has_opposite)


def joined(order: Order) -> Order:
    """Return an order of five taps whose layers have one merge, with the skip connection in it."""
    merge = Step("joined", Window(5, 1, 0, is_triangle=True), is_branch=True)

    def joined_steps(steps: tuple[Step, ...]) -> tuple[Step, ...]:
        activation, *behind = steps
        return (activation, merge) if behind else steps

    input_filter, *layers = order
    return (input_filter, *(LikeLayers(n, joined_steps(steps)) for n, steps in layers))
