"""`Network`: an immutable description of an infinitely wide network, without any arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from fractions import Fraction
from functools import partial
from typing import Any

from ..checks.messages import shown
from ..checks.values import (
    PARTS,
    check_choice,
    check_flag,
    check_nonnegative,
    check_positive,
    check_positive_integer,
)
from .activations import ACTIVATIONS, Relu, activation_of
from .parameters import (
    BASIC_ACTIVATIONS,
    FILTER_FIELDS,
    LAYER_FORMULA_FIELDS,
    alike,
    check_filter_size,
    check_input_scale,
    check_layer,
    check_per_layer,
    check_trained,
    parameter,
    unknown_field,
)
from .parts import Filter, Layer, TrainedParts

_LONGEST_FILTER = 2**60
"""A filter must reach over fewer pixels than this, from its first tap to its last one. Then the sum
over several filters is a 64-bit integer."""


@dataclass(frozen=True)
class Network:
    r"""An infinitely wide convolutional network, with or without skip connections.

    With all weights i.i.d. standard normal and the width n going to infinity
    (Barzilai et al. 2022, eq. 1-3), layers :math:`l = 1 \dots L` are

    .. math::
        g^l = \sqrt{c_w/(q n)}\, W^l * f^{l-1}, \qquad
        f^l = f^{l-1} + \alpha \sqrt{c_v/(q n)}\, V^l * \sigma(g^l),

    with circular convolutions; :math:`f^0` is a convolution of the input, 1x1 unless there is an
    input filter, and :math:`g^1` is a 1x1 convolution of the input or of :math:`f^0`. Outer filters
    may have another size than inner filters. Without skip connections the identity path and
    :math:`\alpha` are absent. With ``norm``, :math:`f^{l-1}` is divided by its root mean square
    over channels before it enters :math:`g^l`.

    Parameters "of each layer" may be one value for all layers, or a sequence of ``depth`` values.

    Parameters
    ----------
    depth : int
        The number of residual layers L, at least 1.
    filter_size : int or sequence of int, default 3
        The size q of the inner filter (before the activation) of each layer. It is odd, and may
        exceed the length of the signal. Layer 1 has no inner filter; its value is only the default
        of its outer filter.
    outer_filter_size : int or sequence of int, optional
        The size of the outer filter (after the activation) of each layer. It is odd, and by default
        equal to ``filter_size``.
    input_filter_size : int, default 1
        The size of the filter of the first layer. It is odd. For signals of one channel, kernels
        are usually better if it is larger than 1.
    skip : bool or sequence of bool, default True
        Whether each layer has the identity path. For example, in a network with
        ``(False, True, True)`` layer 1 is an ordinary layer.
    alpha : float or sequence of float, default 1.0
        The factor on the residual branch of each layer. Without the identity path it is ignored and
        stored as 1.0.
    activation : {"relu", "erf", "gelu"}, default "relu"
        The nonlinearity (`rescntk.network.activations`). Compiled engines support only ReLU.
    negative_slope : float, default 0.0
        The slope s of a ReLU below 0, from 0 to 1: σ(u) = max(u, s u) is the leaky ReLU (Maas et
        al. 2013). With ``c_v = 2 / (1 + s**2)`` and c_w = 1 a layer without skip connection
        keeps the mean variance. Near s = 1 kernels with the head "gap" lose digits if signals have
        zero mean (``docs/theory/activations.md``).
    c_v, c_w : float or sequence of float, default 2.0 and 1.0
        The variances of the outer and of the inner weights of each layer.
    readout_scale : float, default 1.0
        The variance of the readout weights, which multiplies the kernel. It is positive.
    input_scale : float, optional
        The factor on the inner products of the input's pixels. By default it is 1/channels.
    trained : iterable of str, default ("inner", "outer", "readout")
        The trained parts, whose tangent kernels are added: "input", "inner", "outer", "readout".
    dilation : int or sequence of int, default 1
        The number of pixels from one tap to the next in the inner and outer filter of each layer
        (Yu and Koltun 2016). The input filter is not dilated.
    bias : float or sequence of float, default 0.0
        The standard deviation of the biases of each layer. The inner and the outer convolution have
        one bias for each channel. Biases are trained if the weights of their convolution are, and
        α multiplies the biases of the branch too (``docs/theory/biases.md``).
    norm : bool, default False
        Whether features are normalized before they enter a branch: at each pixel they are divided
        by their root mean square over channels (Ba et al. 2016; the normalization precedes the
        convolution, and the mean over channels is 0 in the limit of infinite width). Where all
        features are 0, the normalized ones are 0 too. The identity path and the readout are not
        normalized (``docs/theory/network.md``).

    Examples
    --------
    >>> from rescntk import Network
    >>> network = Network(depth=5, filter_size=3, alpha=0.5)
    >>> network.replace(depth=7).depth
    7
    >>> Network(depth=3, dilation=(1, 2, 4)).inner_filter(3).offsets
    range(-4, 5, 4)
    >>> Network(depth=3, skip=(False, True, True), alpha=0.5).layer(3).alpha
    0.5
    """

    depth: int = parameter(check_positive_integer)
    filter_size: int | Sequence[int] = parameter(check_filter_size, 3, per_layer=True)
    _: KW_ONLY
    outer_filter_size: int | Sequence[int] = parameter(check_filter_size, None, per_layer=True)
    input_filter_size: int = parameter(check_filter_size, 1)
    skip: bool | Sequence[bool] = parameter(check_flag, True, per_layer=True)
    alpha: float | Sequence[float] = parameter(
        check_nonnegative, 1.0, per_layer=True, needs_skip=True
    )
    activation: str = parameter(partial(check_choice, choices=tuple(ACTIVATIONS)), "relu")
    c_v: float | Sequence[float] = parameter(check_nonnegative, 2.0, per_layer=True)
    c_w: float | Sequence[float] = parameter(check_nonnegative, 1.0, per_layer=True)
    readout_scale: float = parameter(check_positive, 1.0)
    input_scale: float | None = parameter(check_input_scale, None)
    trained: Iterable[str] = parameter(check_trained, ("inner", "outer", "readout"))
    dilation: int | Sequence[int] = parameter(check_positive_integer, 1, per_layer=True)
    negative_slope: float = parameter(check_nonnegative, 0.0)
    bias: float | Sequence[float] = parameter(check_nonnegative, 0.0, per_layer=True)
    norm: bool = parameter(check_flag, False)

    def __post_init__(self) -> None:
        if self.outer_filter_size is None:
            object.__setattr__(self, "outer_filter_size", self.filter_size)
        for declared in fields(Network):  # the depth first
            name, check = declared.name, declared.metadata["check"]
            value = getattr(self, name)
            if declared.metadata["per_layer"]:
                value = check_per_layer(check, value, name, self.depth)
            else:
                value = check(value, name)
            object.__setattr__(self, name, value)
        self._drop_what_no_layer_reads()
        sizes = *self.values_of("filter_size"), *self.values_of("outer_filter_size")
        if max(self.values_of("dilation")) * max(sizes) >= _LONGEST_FILTER:
            raise ValueError(
                f"dilation is {shown(self.dilation)}, expected less than 2^60 divided by the "
                f"filter size; dilations count modulo the length of a signal"
            )
        most = 1.0 if ACTIVATIONS[self.activation].has_negative_slope else 0.0
        if self.negative_slope > most:
            raise ValueError(
                f"negative_slope is {self.negative_slope!r} with activation {self.activation!r}, "
                f"expected a number from 0 to 1 for 'relu', and 0 for other activations"
            )
        for layer in self.different_layers():
            check_layer(layer, self.input_scale)

    def _drop_what_no_layer_reads(self) -> None:
        """Replace values that no layer uses, so that equal networks have equal fields.

        These are α in layers without the identity path, and the inner filter of layer 1.
        """
        skips = self.values_of("skip")
        unread_fields = {} if all(skips) else NEED_SKIP
        for name, default in unread_fields.items():
            n_layers = max(len(skips), len(self.values_of(name)))
            values = (
                self._layer_value(name, number) if self._layer_value("skip", number) else default
                for number in range(1, n_layers + 1)
            )
            object.__setattr__(self, name, alike(tuple(values)))
        if isinstance(sizes := self.filter_size, tuple):
            object.__setattr__(self, "filter_size", alike((sizes[1], *sizes[1:])))

    @property
    def is_uniform(self) -> bool:
        """True if each parameter has one value for all layers."""
        return not any(isinstance(getattr(self, name), tuple) for name in PER_LAYER_FIELDS)

    def values_of(self, name: str) -> tuple[Any, ...]:
        """Return the value of a parameter in each layer, or one value if all layers have the same.

        Parameters
        ----------
        name : str
            The name of a parameter, such as "alpha".

        Returns
        -------
        tuple
        """
        value = getattr(self, name)
        return value if isinstance(value, tuple) else (value,)

    def layer(self, number: int) -> Layer:
        """Return the numbers of a layer.

        Parameters
        ----------
        number : int
            The number of the layer, from 1 to `depth`. If all parameters have one value for all
            layers, it may also be larger.

        Returns
        -------
        Layer
            The filters, ``skip``, ``alpha``, ``c_v``, ``c_w`` and ``bias`` of the layer, and
            numbers computed from them.

        Examples
        --------
        >>> from rescntk import Network
        >>> Network(depth=2, alpha=(1.0, 0.5)).layer(2).branch_gain
        0.25
        """
        values = {
            name: self._layer_value(name, number) for name in PER_LAYER_FIELDS - FILTER_FIELDS
        }
        gain = activation_of(self).dual_divisor if self.homogeneous else Fraction(1, 2)
        inner, outer = self.inner_filter(number), self.outer_filter(number)
        return Layer(inner, outer, activation_gain=gain, **values)

    def different_layers(self) -> Iterator[Layer]:
        """Yield the numbers of all layers, or of uniform networks only those of layers 1 and 2.

        Yields
        ------
        Layer
        """
        for number in range(1, (min(self.depth, 2) if self.is_uniform else self.depth) + 1):
            yield self.layer(number)

    def _layer_value(self, name: str, number: int) -> Any:
        """Return the value of a parameter in a layer; the first layer has the number 1."""
        value = getattr(self, name)
        return value[number - 1] if isinstance(value, tuple) else value

    @property
    def is_relu(self) -> bool:
        """True if the activation is ReLU without a negative slope."""
        return isinstance(activation_of(self), Relu) and self.negative_slope == 0.0

    @property
    def homogeneous(self) -> bool:
        """True if σ(cu) = c σ(u) for c > 0, so that signals and layers may be divided by sizes.

        The biases are then divided by the size of the signal too. Among signals of one size all
        kernels have the same bounds, and float32 keeps the digits of small signals and deep
        networks.
        """
        return activation_of(self).homogeneous

    @property
    def has_bias(self) -> bool:
        """True if some layer has biases."""
        return any(layer.bias for layer in self.different_layers())

    @property
    def branch_gain(self) -> float:
        """β = α² c_v c_w (1 + s²)/2: a ReLU branch adds β times the mean variance of the features.

        Biases add their variance too. If layers have different numbers, `branch_gain`, `growth` and
        `branch_share` raise a ValueError. The result of `layer` has them for each layer.
        """
        return self._common_layer().branch_gain

    @property
    def growth(self) -> float:
        """1 + β, or β without skip connections: the factor of a ReLU layer on the mean variance."""
        return self._common_layer().growth

    @property
    def branch_share(self) -> float:
        """β / (1 + β), the share of a ReLU branch in the variance; 1 without skip connections."""
        return self._common_layer().branch_share

    def _common_layer(self) -> Layer:
        """Return the numbers of all layers, or raise a ValueError if these differ."""
        check_network(self, LAYER_FORMULA_FIELDS, activations=None, per_layer=FILTER_FIELDS)
        return self.layer(1)

    def factor_of_input(self, n_channels: int) -> float:
        """Return the factor on inner products of pixels: `input_scale`, or 1/n_channels.

        Parameters
        ----------
        n_channels : int
            The number of channels of the signals, at least 1.

        Returns
        -------
        float
        """
        return 1.0 / n_channels if self.input_scale is None else self.input_scale

    @property
    def parts(self) -> TrainedParts:
        """The trained parts as numbers: 1 if the part is trained, 0 if it is not."""
        return TrainedParts(*(float(part in self.trained) for part in PARTS))

    @property
    def input_filter(self) -> Filter:
        """The input filter: that of V⁰, or of W¹ if there is no V⁰ and W¹ reads the signal."""
        return Filter(self.input_filter_size)

    def inner_filter(self, number: int) -> Filter:
        """Return the filter before the activation of a layer.

        Parameters
        ----------
        number : int
            The number of the layer, from 1 to `depth`. The filter of layer 1 has the size 1.

        Returns
        -------
        Filter
        """
        return Filter(1) if number == 1 else self._filter("filter_size", number)

    def outer_filter(self, number: int) -> Filter:
        """Return the filter after the activation of a layer.

        Parameters
        ----------
        number : int
            The number of the layer, from 1 to `depth`.

        Returns
        -------
        Filter
        """
        return self._filter("outer_filter_size", number)

    def _filter(self, size: str, number: int) -> Filter:
        return Filter(self._layer_value(size, number), self._layer_value("dilation", number))

    def filters(self) -> Iterator[Filter]:
        """Yield the inner and outer filters of layers 1 … depth, in the order of the network.

        Yields
        ------
        Filter
        """
        for number in range(1, self.depth + 1):
            yield self.inner_filter(number)
            yield self.outer_filter(number)

    def reach(self) -> int:
        """Return how many pixels to each side influence an output: the sum of all filters' reaches.

        Returns
        -------
        int
            The number of pixels on an infinite line. Signals may be shorter.
        """
        reach = self.input_filter.reach
        if not self.is_uniform:
            return reach + sum(taps.reach for taps in self.filters())
        inner, outer = self.inner_filter(2).reach, self.outer_filter(1).reach
        return reach + self.depth * (inner + outer) - inner

    def replace(self, **changes: Any) -> Network:
        """Return the same network with some parameters changed.

        If outer filters have the sizes of the inner ones, a new ``filter_size`` changes them too.
        Layer 1 does not count here, because it has no inner filter. If layers have values of their
        own, a smaller ``depth`` keeps those of the first layers, and a larger ``depth`` needs new
        values.

        Parameters
        ----------
        **changes
            New values of parameters of `Network`, by name.

        Returns
        -------
        Network

        Raises
        ------
        ValueError
            If there is no parameter with a name, or if `Network` refuses a value.

        Examples
        --------
        >>> from rescntk import Network
        >>> Network(depth=5).replace(filter_size=7).outer_filter_size
        7
        """
        for name in changes:
            check_choice(name, "replace", [field.name for field in fields(self)])
        if "filter_size" in changes and self._outer_sizes_follow():
            changes.setdefault("outer_filter_size", None)
        if "depth" in changes:
            depth = check_positive_integer(changes["depth"], "depth")
            for name in PER_LAYER_FIELDS:
                if isinstance(value := getattr(self, name), tuple):
                    changes.setdefault(name, value[:depth])
        return replace(self, **changes)

    def _outer_sizes_follow(self) -> bool:
        """Return whether the outer filters have the sizes that ``filter_size`` alone gives them."""
        numbers = range(min(2, self.depth), self.depth + 1)
        if self.is_uniform:
            return self.outer_filter_size == self.filter_size
        return all(
            self._layer_value("outer_filter_size", k) == self._layer_value("filter_size", k)
            for k in numbers
        )


PER_LAYER_FIELDS = frozenset(f.name for f in fields(Network) if f.metadata["per_layer"])
"""The fields that may have a value for each layer."""

NEED_SKIP = {f.name: f.default for f in fields(Network) if f.metadata["needs_skip"]}
"""The fields that layers without the identity path ignore, with the values that are stored then."""


def check_network(
    network: object,
    known_fields: frozenset[str],
    reason: str = ": other values are not supported here",
    *,
    activations: frozenset[str] | None = BASIC_ACTIVATIONS,
    per_layer: frozenset[str] = frozenset(("dilation",)),
) -> None:
    """Raise a ValueError if `network` is not a `Network` that a function supports.

    Each function of a network declares the fields that it supports, `known_fields`. All other
    fields must have their defaults. Only the fields `per_layer` may have a value for each layer.
    `activations` are the names of the supported activations, or None if the function uses only the
    formulas of `Activation`. The message ends with `reason`.
    """
    if not isinstance(network, Network):
        raise ValueError(f"network is {shown(network)}, expected a rescntk.Network")
    if unknown := unknown_field(network, known_fields, per_layer):
        raise ValueError(unknown + reason)
    if activations is None or "activation" not in known_fields:
        return
    if network.activation not in activations:
        expected = ", ".join(map(repr, sorted(activations)))
        raise ValueError(
            f"network has activation {network.activation!r}, expected one of {expected}{reason}"
        )


def check_like_layers(
    network: Network,
    known_fields: frozenset[str],
    activations: frozenset[str] | None = BASIC_ACTIVATIONS,
) -> None:
    """Check a network as `check_network` does, for a function about networks of any depth.

    All layers must be alike.
    """
    reason = ": this is about networks of any depth"
    check_network(network, known_fields, reason, activations=activations, per_layer=frozenset())
