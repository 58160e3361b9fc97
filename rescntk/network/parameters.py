"""The parameters of `Network`: checks of their values, and the fields that functions support."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, field, fields
from functools import lru_cache
from typing import Any

from ..checks.messages import shown
from ..checks.values import PARTS, check_choice, check_integer, check_nonnegative, is_sequence
from .parts import BRANCH_POWERS, WEIGHT_VARIANCES, Layer

_MOST_SCALE = 1e300
"""The largest `input_scale`, and the inverse of the smallest positive one. If it were larger, the
energies of ordinary signals could leave the range of float64."""


def check_filter_size(value: object, name: str) -> int:
    """Return `value`, a positive odd integer, as an int."""
    number = check_integer(value, name)
    if number < 1 or number % 2 == 0:
        raise ValueError(f"{name} is {shown(value)}, expected a positive odd integer")
    return number


def check_per_layer(check: Callable[[Any, str], Any], value: Any, name: str, depth: int) -> Any:
    """Return the value that all layers have, or a tuple with one value for each layer."""
    if not is_sequence(value):
        return check(value, name)
    values = tuple(value)
    if len(values) != depth:
        raise ValueError(
            f"{name} is {shown(value)}, expected one value for all layers, or {depth} of them, "
            f"one for each layer"
        )
    return alike(tuple(check(layer_value, name) for layer_value in values))


def alike(values: tuple[Any, ...]) -> Any:
    """Return the values of all layers as one value if they are equal, else as they are."""
    return values[0] if len(set(values)) == 1 else values


def check_trained(trained: Iterable[str], name: str) -> tuple[str, ...]:
    """Return the trained parts of a network, in the order of `values.PARTS`."""
    if isinstance(trained, str):
        trained = (trained,)
    try:
        names = {check_choice(part, name, PARTS) for part in trained}
    except TypeError:
        raise ValueError(f"{name} is {shown(trained)}, expected some of {PARTS}") from None
    return tuple(part for part in PARTS if part in names)


def check_input_scale(value: object, name: str) -> float | None:
    """Return `value`, which must be None, 0 or a number far from the limits of float64."""
    if value is None:
        return None
    number, most = check_nonnegative(value, name), _MOST_SCALE
    if number and not 1.0 / most <= number <= most:
        raise ValueError(f"{name} is {shown(value)}, expected 0 or from {1 / most:g} to {most:g}")
    return number


def check_layer(layer: Layer, input_scale: float | None) -> None:
    """Raise a ValueError if the numbers of a layer cannot be combined."""
    if layer.exact_branch_gain > sys.float_info.max:
        values = ", ".join(map(repr, layer.numbers(BRANCH_POWERS).values()))
        raise ValueError(
            f"{', '.join(BRANCH_POWERS)} are {values}: {branch_product()} is expected to be finite"
        )
    positive = {**layer.numbers(WEIGHT_VARIANCES), "input_scale": input_scale}
    if layer.bias and 0.0 in positive.values():
        raise ValueError(
            f"bias is {layer.bias!r} with {in_words(positive)}, expected bias 0, or positive "
            f"{', '.join(positive)}"
        )


def branch_product() -> str:
    """Return the product of the numbers that multiply a branch, as error messages write it."""
    return " * ".join(
        name if power == 1 else f"{name}**{power}" for name, power in BRANCH_POWERS.items()
    )


def in_words(numbers: Mapping[str, object]) -> str:
    """Return numbers of a layer or a network as error messages write them: "c_v 2.0, c_w 1.0"."""
    return ", ".join(f"{name} {value!r}" for name, value in numbers.items())


def parameter(
    check: Callable[[Any, str], Any],
    default: Any = MISSING,
    *,
    per_layer: bool = False,
    needs_skip: bool = False,
) -> Any:
    """Return a field of `Network`, with the check of its value.

    If `per_layer`, each layer may have its own value. If `needs_skip`, layers without the identity
    path ignore the value, and the default is stored for them.
    """
    metadata = {"check": check, "per_layer": per_layer, "needs_skip": needs_skip}
    return field(default=default, metadata=metadata)


# ---------------------------------------------------------------- known fields

FILTER_FIELDS = frozenset(("filter_size", "outer_filter_size", "dilation"))
"""The fields of filters. They do not change the mean variance after a layer."""

BASIC_FIELDS = frozenset[str]().union(
    ("depth", "filter_size", "outer_filter_size", "input_filter_size", "dilation"),
    ("skip", "alpha", "activation", "negative_slope", "c_v", "c_w"),
    ("input_scale", "readout_scale", "trained"),
)
"""The fields that every function of a network supports, unless it refuses some of them itself.

A new field does not belong to this set. It is added to `KERNEL_FIELDS` when kernels support it. A
function of theory that supports it declares this by ``check_network(network, BASIC_FIELDS |
{"new"})``. All other functions refuse it by name.
"""

LAYER_FORMULA_FIELDS = BASIC_FIELDS | {"bias"}
"""The fields that `Network.branch_gain`, `growth` and `branch_share` allow: those that the same
properties of `Layer` include, and those that do not change them."""

FIELDS_WITHOUT_NORM = BASIC_FIELDS | {"bias"}
"""The fields that functions of theory support that allow biases but no normalization."""

FIELDS_WITH_NORM = FIELDS_WITHOUT_NORM | {"norm"}
"""The fields that functions of theory support that allow biases and normalization."""

KERNEL_FIELDS = FIELDS_WITH_NORM
"""The fields that all engines, JAX and networks of finite width support.

All of these read `Layer`, so that a new number of a layer may have an effect in all of them at
once. An implementation that lacks a field declares ``KERNEL_FIELDS - {"new"}``, and refuses it.
"""

RELU_FIELDS = BASIC_FIELDS - {"activation", "negative_slope"}
"""The fields that functions about ReLU support."""


BASIC_ACTIVATIONS = frozenset(("relu", "erf"))
"""The activations that every function with the field "activation" supports.

A new activation does not belong to this set. Functions that use only the formulas of `Activation`
support all activations: ``check_network(network, BASIC_FIELDS, activations=None)``. All other
functions refuse it by name.
"""


@lru_cache
def _with_defaults(kind: Any, depth: int) -> Any:
    return kind(depth)


def unknown_field(
    network: Any, known_fields: frozenset[str], per_layer: frozenset[str] | None = None
) -> str | None:
    """Return what is wrong with the fields of a `Network`, or None.

    Fields that are not among `known_fields` must have their defaults. If `per_layer` is given, all
    fields but these must have one value for all layers.
    """
    unknown = [field.name for field in fields(network) if field.name not in known_fields]
    kind: Any = type(network)
    default = _with_defaults(kind, network.depth) if unknown else network
    for name in unknown:
        value, expected = getattr(network, name), getattr(default, name)
        if value != expected:
            return f"network has {name} {shown(value)}, expected {expected!r}"
    if per_layer is None:
        return None
    layered = {declared.name for declared in fields(network) if declared.metadata["per_layer"]}
    for name in sorted(layered - per_layer):
        if isinstance(value := getattr(network, name), tuple):
            return f"network has {name} {shown(value)}, expected one value for all layers"
    return None
