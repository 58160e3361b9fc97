"""`Network`: the frozen description of an infinitely wide network, without any arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, MISSING, dataclass, field, fields, replace
from functools import partial
from typing import Any

from .activations import ACTIVATIONS, Relu, activation_of
from .messages import shown
from .network_parts import Filter, TrainedParts
from .validation import (
    PARTS,
    check_choice,
    check_flag,
    check_integer,
    check_nonnegative,
    check_positive_integer,
    is_sequence,
)

_LONGEST_WINDOW = 2**60
"""Pixels that no filter spans: sums of some windows stay within integers of 64 bits."""

_MOST_SCALE = 1e300
"""Largest `input_scale`, and the inverse of the least. Raising it lets energies of ordinary signals
leave the range of float64."""


def _check_filter_size(value: object, name: str) -> int:
    """Return `value`, a positive odd integer, as an int."""
    number = check_integer(value, name)
    if number < 1 or number % 2 == 0:
        raise ValueError(f"{name} is {shown(value)}, expected a positive odd integer")
    return number


def _check_dilation(value: object, depth: int) -> int | tuple[int, ...]:
    """Return the dilation of all layers, or a tuple of one for each of `depth` layers."""
    if not is_sequence(value):
        return check_integer(value, "dilation", at_least=1)
    values = tuple(value)
    if len(values) != depth:
        raise ValueError(
            f"dilation is {shown(value)}, expected an integer of at least 1, or {depth} of them, "
            f"one for each layer"
        )
    dilations = tuple(check_integer(each, "dilation", at_least=1) for each in values)
    return dilations[0] if len(set(dilations)) == 1 else dilations


def _check_trained(trained: Iterable[str], name: str) -> tuple[str, ...]:
    """Return the trained parts of a network, in the order of `validation.PARTS`."""
    if isinstance(trained, str):
        trained = (trained,)
    try:
        names = {check_choice(part, name, PARTS) for part in trained}
    except TypeError:
        raise ValueError(f"{name} is {shown(trained)}, expected some of {PARTS}") from None
    return tuple(part for part in PARTS if part in names)


def _check_input_scale(value: object, name: str) -> float | None:
    if value is None:
        return None
    number, most = check_nonnegative(value, name), _MOST_SCALE
    if number and not 1.0 / most <= number <= most:
        raise ValueError(f"{name} is {shown(value)}, expected 0 or from {1 / most:g} to {most:g}")
    return number


def _parameter(check: Callable[[Any, str], Any], default: Any = MISSING) -> Any:
    """Return a field of `Network`, with the check of its value by value and name."""
    return field(default=default, metadata={"check": check})


@dataclass(frozen=True)
class Network:
    r"""An infinitely wide convolutional network, with or without skip connections.

    With all weights i.i.d. standard normal and the width going to infinity
    (Barzilai et al. 2022, eq. 1-3), layers :math:`l = 1 \dots L` are

    .. math::
        g^l = \sqrt{c_w/(q C)}\, W^l * f^{l-1}, \qquad
        f^l = f^{l-1} + \alpha \sqrt{c_v/(q C)}\, V^l * \sigma(g^l),

    with circular convolutions; :math:`f^0` is a 1x1 convolution of the input, :math:`g^1` of it.
    Without skip connections the identity path and :math:`\alpha` are absent.

    Parameters
    ----------
    depth : int
        Number of residual layers L, at least 1.
    filter_size : int, default 3
        Size q of the inner filters (before the activation), odd; it may exceed the signal.
    outer_filter_size : int, optional
        Size of the outer filters (those after the activation), odd; ``filter_size`` by default.
    input_filter_size : int, default 1
        Number of pixels that the first layer sees, odd; signals of one channel usually need more.
    skip : bool, default True
        Whether the network has the identity path.
    alpha : float, default 1.0
        Weight of the residual branch. Without skip connections it is ignored and stored as 1.0.
    activation : {"relu", "erf", "gelu"}, default "relu"
        The nonlinearity (`rescntk.activations`). ReLU alone has compiled engines.
    negative_slope : float, default 0.0
        Slope s of a ReLU below 0, from 0 to 1: σ(u) = max(u, s u), the leaky ReLU (Maas et al.
        2013). ``c_v = 2 / (1 + s**2)`` keeps variances; near s = 1 the head "gap" loses digits
        of signals of zero mean (``docs/theory/network.md``).
    c_v, c_w : float, default 2.0 and 1.0
        Variances of the outer and the inner weights.
    readout_scale : float, default 1.0
        Variance of the readout weights: a factor on the kernel.
    input_scale : float, optional
        Factor on the inner products of the input's pixels, by default 1/channels.
    trained : iterable of str, default ("inner", "outer", "readout")
        The parts that the tangent kernel sums over, of "input", "inner", "outer", "readout".
    dilation : int or sequence of int, default 1
        Pixels from one tap to the next of the inner and outer filters (Yu and Koltun 2016): one
        number for all layers, or ``depth`` numbers. The input filter is not dilated.
    bias : float, default 0.0
        Standard deviation of the biases, one for each channel of every inner and outer
        convolution. Biases are trained with the weights of their convolution, and α multiplies
        the biases of the branch (``docs/theory/biases.md``).

    Examples
    --------
    >>> from rescntk import Network
    >>> network = Network(depth=5, filter_size=3, alpha=0.5)
    >>> network.replace(depth=7).depth
    7
    >>> Network(depth=3, dilation=(1, 2, 4)).inner_filter(3).offsets
    range(-4, 5, 4)
    """

    depth: int = _parameter(check_positive_integer)
    filter_size: int = _parameter(_check_filter_size, 3)
    _: KW_ONLY
    outer_filter_size: int = _parameter(_check_filter_size, None)
    input_filter_size: int = _parameter(_check_filter_size, 1)
    skip: bool = _parameter(check_flag, True)
    alpha: float = _parameter(check_nonnegative, 1.0)
    activation: str = _parameter(partial(check_choice, choices=tuple(ACTIVATIONS)), "relu")
    c_v: float = _parameter(check_nonnegative, 2.0)
    c_w: float = _parameter(check_nonnegative, 1.0)
    readout_scale: float = _parameter(check_nonnegative, 1.0)
    input_scale: float | None = _parameter(_check_input_scale, None)
    trained: Iterable[str] = _parameter(_check_trained, ("inner", "outer", "readout"))
    dilation: int | Sequence[int] = _parameter(lambda given, name: given, 1)  # needs the depth
    negative_slope: float = _parameter(check_nonnegative, 0.0)
    bias: float = _parameter(check_nonnegative, 0.0)

    def __post_init__(self) -> None:
        if self.outer_filter_size is None:
            object.__setattr__(self, "outer_filter_size", self.filter_size)
        for kept in fields(Network):
            value = kept.metadata["check"](getattr(self, kept.name), kept.name)
            object.__setattr__(self, kept.name, value)
        object.__setattr__(self, "dilation", _check_dilation(self.dilation, self.depth))
        longest = self.dilation if isinstance(self.dilation, int) else max(self.dilation)
        if longest * max(self.filter_size, self.outer_filter_size) >= _LONGEST_WINDOW:
            raise ValueError(
                f"dilation is {shown(self.dilation)}, expected less than 2^60 divided by the "
                f"filter size; dilations count modulo the length of a signal"
            )
        if not self.skip:
            object.__setattr__(self, "alpha", 1.0)
        if self.negative_slope > ACTIVATIONS[self.activation].has_negative_slope:
            raise ValueError(
                f"negative_slope is {self.negative_slope!r} with activation {self.activation!r}, "
                f"expected a number from 0 to 1 for 'relu', and 0 for other activations"
            )
        if not math.isfinite(self.alpha * self.alpha * self.c_v * self.c_w):
            raise ValueError(
                f"alpha, c_v, c_w are {self.alpha!r}, {self.c_v!r}, {self.c_w!r}: "
                f"alpha**2 * c_v * c_w is expected to be finite"
            )
        constants = [self.c_v, self.c_w, 1.0 if self.input_scale is None else self.input_scale]
        if self.bias and not all(constants):
            raise ValueError(
                f"bias is {self.bias!r} with c_v {self.c_v!r}, c_w {self.c_w!r} and input_scale "
                f"{self.input_scale!r}, expected bias 0, or positive c_v, c_w and input_scale"
            )

    @property
    def is_relu(self) -> bool:
        """True for ReLU, False if it leaks."""
        return isinstance(activation_of(self), Relu) and self.negative_slope == 0.0

    @property
    def homogeneous(self) -> bool:
        """True if σ(cu) = c σ(u) for c > 0: signals and layers may be divided by their sizes.

        A signal's biases are divided with it. Signals of one size have the same bounds on their
        kernels in all layers, and rows of float32 keep the digits of small and of deep kernels.
        """
        return activation_of(self).homogeneous

    @property
    def has_branch(self) -> bool:
        """True if a layer's branch depends on the input: α, c_v and c_w are not 0."""
        return bool(self.alpha and self.c_v and self.c_w)

    @property
    def activation_gain(self) -> float:
        """2 E[σ(u)²]/q of a homogeneous activation, 1 + s² of a leaky ReLU; 1 of others."""
        return float(2 * activation_of(self).gain) if self.homogeneous else 1.0

    @property
    def branch_gain(self) -> float:
        """β = α² c_v c_w (1 + s²)/2: a ReLU layer's branch adds β times the mean variance of F.

        Biases add their variance besides.
        """
        check_network(self, KERNEL_FIELDS, activations=None)
        return self.alpha**2 * self.c_v * self.c_w * self.activation_gain / 2.0

    @property
    def growth(self) -> float:
        """1 + β, or β without skips: a ReLU layer multiplies the mean variance of F by 1 + β."""
        return self.skip + self.branch_gain

    @property
    def branch_share(self) -> float:
        """β / (1 + β), or 1 without skips: the branch's part of the variance of a ReLU layer."""
        check_network(self, KERNEL_FIELDS, activations=None)
        if not self.skip:
            return 1.0
        root = self.alpha * math.sqrt(self.c_v * self.c_w * self.activation_gain / 2.0)
        return root / (root + 1.0 / root) if root > 0 else 0.0  # for any alpha: β may overflow

    def factor_of_input(self, n_channels: int) -> float:
        """Return the factor on inner products of pixels: `input_scale`, or 1/n_channels.

        Parameters
        ----------
        n_channels : int
            Channels of the signals, at least 1.

        Returns
        -------
        float
        """
        return 1.0 / n_channels if self.input_scale is None else self.input_scale

    @property
    def parts(self) -> TrainedParts:
        """The trained parts as numbers, 1 (trained) or 0 (frozen)."""
        return TrainedParts(*(float(part in self.trained) for part in PARTS))

    @property
    def input_filter(self) -> Filter:
        """The filter of V⁰, and of W¹ where W¹ reads the signal."""
        return Filter(self.input_filter_size)

    def inner_filter(self, layer: int) -> Filter:
        """Return the filter before the activation of a layer.

        Parameters
        ----------
        layer : int
            From 1 to `depth`. The filter of layer 1 has size 1: g¹ reads f⁰, or the signal through
            `input_filter`.

        Returns
        -------
        Filter
        """
        return Filter(1) if layer == 1 else Filter(self.filter_size, self._dilation_of(layer))

    def outer_filter(self, layer: int) -> Filter:
        """Return the filter after the activation of a layer.

        Parameters
        ----------
        layer : int
            From 1 to `depth`.

        Returns
        -------
        Filter
        """
        return Filter(self.outer_filter_size, self._dilation_of(layer))

    def filters(self) -> Iterator[Filter]:
        """Yield the inner and outer filters of layers 1 … depth, in the order of the network.

        Yields
        ------
        Filter
        """
        for layer in range(1, self.depth + 1):
            yield self.inner_filter(layer)
            yield self.outer_filter(layer)

    def reach(self) -> int:
        """Return the sum of the reaches of all filters: how far an output sees.

        Returns
        -------
        int
            In pixels, on the unbounded line: signals may be shorter.
        """
        of_input = self.input_filter.reach
        if not isinstance(self.dilation, int):
            return of_input + sum(window.reach for window in self.filters())
        inner, outer = self.inner_filter(2).reach, self.outer_filter(1).reach
        return of_input + self.depth * (inner + outer) - inner

    def _dilation_of(self, layer: int) -> int:
        return self.dilation if isinstance(self.dilation, int) else self.dilation[layer - 1]

    def replace(self, **changes: Any) -> Network:
        """Return the same network with some parameters changed.

        An ``outer_filter_size`` that equals ``filter_size`` changes with it. Where each layer has
        its own dilation, a smaller ``depth`` keeps the dilations of the first layers, and a
        larger ``depth`` needs a new ``dilation``.

        Parameters
        ----------
        **changes
            Parameters of `Network` by name.

        Returns
        -------
        Network

        Raises
        ------
        ValueError
            For an unknown name, or a value that `Network` refuses.

        Examples
        --------
        >>> from rescntk import Network
        >>> Network(depth=5).replace(filter_size=7).outer_filter_size
        7
        """
        for name in changes:
            check_choice(name, "replace", [field.name for field in fields(self)])
        if "filter_size" in changes and self.outer_filter_size == self.filter_size:
            changes.setdefault("outer_filter_size", None)
        if "depth" in changes and not isinstance(self.dilation, int):
            changes.setdefault(
                "dilation", self.dilation[: check_positive_integer(changes["depth"], "depth")]
            )
        return replace(self, **changes)


BASIC_FIELDS = frozenset[str]().union(
    ("depth", "filter_size", "outer_filter_size", "input_filter_size", "dilation"),
    ("skip", "alpha", "activation", "negative_slope", "c_v", "c_w"),
    ("input_scale", "readout_scale", "trained"),
)
"""The fields that every function knows, by itself or through another, unless it says otherwise.

A new field stays out of this set. Each function that learns it adds it to its own declaration,
``check_network(network, BASIC_FIELDS | {"new"})``; all others refuse it by name.
"""

KERNEL_FIELDS = BASIC_FIELDS | {"bias"}
"""The fields that all kernels and all engines know, and networks of finite width.

A field that one engine knows stands in the `fields` of that engine (`engines.Engine`) alone, and in
the checks of `kernels.call` and `kernels.kernel`.
"""

RELU_FIELDS = BASIC_FIELDS - {"activation", "negative_slope"}
"""`BASIC_FIELDS` of functions about ReLU."""


BASIC_ACTIVATIONS = frozenset(("relu", "erf"))
"""The activations that every function with the field "activation" knows.

A new activation stays out of this set. Functions that ask the activation's object for all formulas
take any: ``check_network(network, known, activations=None)``. All others refuse it by name.
"""


def check_network(
    network: object, known: frozenset[str], reason: str = ": other values are not supported here",
    *, activations: frozenset[str] | None = BASIC_ACTIVATIONS,
) -> None:  # fmt: skip
    """Raise a ValueError if `network` is not a `Network`, or has fields that are not `known`.

    Each function that takes a network declares the fields that it knows. Its result depends on
    these fields, or by its definition it does not. All other fields must have their defaults. The
    `reason` ends the message. `activations` are the names that the function knows, or None if it
    asks the activation's object.
    """
    if not isinstance(network, Network):
        raise ValueError(f"network is {shown(network)}, expected a rescntk.Network")
    if unknown := unknown_field(network, known):
        raise ValueError(unknown + reason)
    if activations is not None and "activation" in known and network.activation not in activations:
        expected = ", ".join(map(repr, sorted(activations)))
        raise ValueError(
            f"network has activation {network.activation!r}, expected one of {expected}{reason}"
        )


def unknown_field(network: Network, known: frozenset[str]) -> str | None:
    """Return what is wrong with the fields that are not `known`, or None if all have defaults."""
    unknown = [kept.name for kept in fields(network) if kept.name not in known]
    usual = type(network)(network.depth) if unknown else network
    for name in unknown:
        value, expected = getattr(network, name), getattr(usual, name)
        if value != expected:
            return f"network has {name} {shown(value)}, expected {expected!r}"
    return None


def check_one_dilation(
    network: Network, known: frozenset[str], activations: frozenset[str] | None = BASIC_ACTIVATIONS
) -> None:
    """Check the `known` fields, and raise a ValueError if layers have dilations of their own."""
    check_network(network, known, activations=activations)
    if not isinstance(network.dilation, int):
        raise ValueError(
            f"network has the dilations {shown(network.dilation)}, expected one for all layers: "
            f"this is about networks of any depth"
        )
