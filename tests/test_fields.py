"""No field of `Network` is ignored: a function uses it, or refuses it by name.

Some results do not depend on a field by their definition: `Room.without` lists these fields.
"""

import importlib
import inspect
import re
import tempfile
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest

import rescntk as rk
from rescntk import engines, literature
from rescntk.derivative import alpha_derivative
from rescntk.engines.protocol import Request, silent
from rescntk.theory import (
    depth,
    flow,
    learning,
    limits,
    locality,
    multisphere,
    smoothness,
    spectrum,
)
from rescntk.validation import KINDS, check_constant
from tests.engine_names import needs_numba

X = multisphere.sample(3, 2, 7, rng=0)

VALUES = {
    "depth": 3,
    "filter_size": 5,
    "outer_filter_size": 5,
    "input_filter_size": 3,
    "skip": False,
    "alpha": 0.5,
    "activation": "erf",
    "c_v": 1.5,
    "c_w": 1.5,
    "readout_scale": 3.0,
    "input_scale": 0.7,
    "trained": ("input", "outer"),
    "dilation": 2,
    "negative_slope": 0.5,
    "bias": 0.5,
}
"""A value of each field that no network of `Room.base` has."""


@dataclass(frozen=True)
class LaterNetwork(rk.Network):
    """A network with a field that no function knows."""

    later: float = field(default=0.0, kw_only=True, metadata={"check": check_constant})


class Room(NamedTuple):
    """A function of a network: its result, and the fields on which that does not depend."""

    call: Callable[[rk.Network], Any]
    without: Set[str] = frozenset()
    base: Mapping[str, Any] = MappingProxyType({})


SCALES = {"readout_scale", "input_scale"}  # normalized kernels do not see them
CONSTANTS = {"alpha", "c_v", "c_w", *SCALES}
SHAPE = {"depth", "filter_size", "outer_filter_size", "input_filter_size", "dilation"}
NOT_SHAPE = {"skip", "activation", "negative_slope", "trained", *CONSTANTS}
TIRER = vars(literature.tirer_resnet(2, 0.3))


def predicted(gamma):
    """Return a function from a network to the predictions for both kinds of kernel."""

    def numbers(network):
        laws = [limits.Family(network, gamma).predict(kind, X) for kind in KINDS]
        return [(law.limit, law.rate, law.onset, law.undefined) for law in laws]

    return numbers


def sampled(name, *more):
    """Return a function from a network to the result of a function of a finite one."""

    def numbers(network):
        params = rk.finite.init(0, network, 2, 4)
        return getattr(rk.finite, name)(network, params, X, *more)

    return numbers


def stored_gram(network):
    with tempfile.TemporaryDirectory() as folder:
        found = rk.stored.gram(f"{folder}/K", network, X, engine="reference", progress=False)
        return found.gpk[...], found.ntk[...]


def engine(name):
    """Return a function from a network to the kernels of the engine of that name."""

    def numbers(network):
        request = Request(network, "gap", KINDS, (network.depth,))
        found = engines.choose(name, request, X).gram(request, X, None, silent)
        return found.values, found.left, found.exponents

    return numbers


def family(n):
    return lambda depth: n.replace(depth=depth)


ROOMS = {
    "Network.branch_gain": Room(
        lambda n: n.branch_gain, SHAPE | SCALES | {"skip", "activation", "trained", "bias"}
    ),
    "Network.branch_share": Room(
        lambda n: n.branch_share, SHAPE | SCALES | {"activation", "trained", "bias"}
    ),
    "Network.growth": Room(lambda n: n.growth, SHAPE | SCALES | {"activation", "trained", "bias"}),
    "Kernel": Room(lambda n: rk.Kernel(n, "ntk").diag(X)),
    "Kernel.vjp": Room(lambda n: rk.Kernel(n, "ntk").vjp(X, weights=np.eye(3))),
    "gram": Room(lambda n: rk.gram(n, X)),
    "pixel_pairs": Room(lambda n: rk.pixel_pairs(n, X)),
    "pixel_shares": Room(lambda n: rk.pixel_shares(n, X)),
    "derivative.alpha_derivative": Room(lambda n: alpha_derivative(rk.Kernel(n, "ntk"), X)),
    "stored.gram": Room(stored_gram),
    "learn.SignalKernel.of": Room(lambda n: rk.learn.SignalKernel.of(rk.Kernel(n, "ntk"))(X)),
    "engines.reference": Room(engine("reference"), {"readout_scale"}),
    "engines.numba": Room(engine("numba"), {"readout_scale"}),
    "finite.apply": Room(sampled("apply")),
    "finite.gpk": Room(lambda n: rk.finite.gpk(0, n, X, 4, 2)),
    "finite.init": Room(
        lambda n: [list(map(np.shape, each)) for each in rk.finite.init(0, n, 2, 4).inner],
        NOT_SHAPE - {"trained"} | {"outer_filter_size", "dilation"},
    ),
    "finite.ntk": Room(sampled("ntk")),
    "finite.train": Room(sampled("train", np.arange(3.0), 0.1, 1)),
    "theory.depth.check": Room(
        lambda n: list(depth.check(family(n), X, depths=[2**k for k in range(6)])),
        {"depth", *SCALES},
    ),
    "theory.flow.complements": Room(
        lambda n: flow.complements(n, "ntk", X, "trace"), {"depth", *SCALES}
    ),
    "theory.smoothness.jacobian_bound": Room(
        lambda n: smoothness.jacobian_bound(n, 8, 2), base=TIRER
    ),
    "theory.limits.Family, γ = 0": Room(predicted(0.0), {"depth", "trained", *SCALES}),
    "theory.limits.Family, γ = 1": Room(
        predicted(1.0),
        {"depth", "outer_filter_size", "alpha", "c_v", *SCALES},
        base={"trained": ("inner", "outer")},
    ),
    "theory.limits.dot_product": Room(
        lambda n: limits.dot_product(n, X, "equivariant"),
        SHAPE - {"input_filter_size"} | NOT_SHAPE - {"input_scale"},
    ),
    "theory.limits.one_layer": Room(
        lambda n: limits.one_layer(n, X, head="equivariant"),
        {"depth", "skip", "alpha", "readout_scale"},
        base={"filter_size": 1, "outer_filter_size": 3},
    ),
    "theory.locality.effective_receptive_field": Room(
        lambda n: locality.effective_receptive_field(n, 9), {"input_scale"}
    ),
    "theory.locality.reach": Room(locality.reach, NOT_SHAPE),
    "theory.locality.width": Room(locality.width, SCALES),
    "theory.multisphere.gram_complements": Room(
        lambda n: multisphere.gram_complements([n], X, kind="ntk"), SCALES
    ),
    "theory.learning.sample_complexity": Room(
        lambda n: [row.n for row in learning.sample_complexity(n, 2, 4, 2, "ntk")], SCALES
    ),
    "theory.spectrum.cost": Room(
        lambda n: spectrum.cost(n, 2, 8, 2, nodes=3), NOT_SHAPE, base={"outer_filter_size": 3}
    ),
    "theory.spectrum.eigenvalues": Room(lambda n: spectrum.eigenvalues(n, 2, 4, 2, "ntk")),
}
"""Functions by their names in `rescntk`."""

SLOW = {f"finite.{name}" for name in ("apply", "gpk", "ntk", "train")}
EXTRAS = {"finite": "optax", "learn": "sklearn", "plots": "matplotlib", "stored": "zarr"}
MARKS = dict.fromkeys(SLOW, pytest.mark.slow) | {"engines.numba": needs_numba}


def leaves(result):
    """Yield the numbers, words and Nones of a result."""
    if isinstance(result, dict):
        result = list(result.values())
    elif isinstance(result, rk.Network):  # a result may hold the network that it is of
        return
    elif hasattr(result, "__dataclass_fields__"):
        result = list(vars(result).values())
    if isinstance(result, (tuple, list)):
        for part in result:
            yield from leaves(part)
    else:
        yield result if result is None or isinstance(result, str) else np.asarray(result, float)


def equal(one, other):
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        # Far above rounding, and far below the changes.
        return one.shape == other.shape and np.allclose(one, other, 1e-9, 1e-13, equal_nan=True)
    return type(one) is type(other) and one == other


def changes(one, other):
    one, other = list(leaves(one)), list(leaves(other))
    return len(one) != len(other) or not all(map(equal, one, other))


def room_of(name):
    """Return a function by its name, or skip the test where its extra is not installed."""
    pytest.importorskip(EXTRAS.get(name.split(".")[0], "numpy"))
    return ROOMS.get(name, Room(engine("cuda")))


def outcome(room, network):
    """Return the result of a function, and the message of its refusal."""
    try:
        return room.call(network), ""
    except ValueError as error:
        return None, str(error)


@pytest.mark.parametrize("name", [pytest.param(name, marks=MARKS.get(name, ())) for name in ROOMS])
@pytest.mark.usefixtures("general_loops")
def test_no_field_is_ignored(name):
    assert VALUES.keys() == {kept.name for kept in fields(rk.Network)}
    room = room_of(name)
    # A later field at its default is no matter; but these name or compare the class `Network`.
    kind = rk.Network if re.search("stored|jacobian", name) else LaterNetwork
    base = kind(**{"depth": 2, "outer_filter_size": 1, **room.base})
    usual, ignored = room.call(base), set()
    for kept, value in VALUES.items():
        network = base.replace(**{kept: value})
        assert network != base
        result, refusal = outcome(room, network)
        if refusal:
            assert re.search(rf"\b{kept}\b", refusal)
        elif not changes(result, usual):
            ignored.add(kept)
    assert ignored == set(room.without)


@pytest.mark.parametrize("name", [*ROOMS, "engines.cuda"])
def test_a_field_that_is_not_known_is_refused(name):
    room = room_of(name)
    network = LaterNetwork(**{"depth": 2, "outer_filter_size": 1, **room.base}, later=0.5)
    with pytest.raises(ValueError, match="network has later 0.5, expected 0.0"):
        room.call(network)


def test_no_function_of_a_network_is_left_out():
    found = set()
    for part in (
        "",
        "finite",
        "stored",
        "plots",
        *(f"theory.{part}" for part in rk.theory.__all__),
    ):
        pytest.importorskip(EXTRAS.get(part, "numpy"))
        module = importlib.import_module(".".join(filter(None, ("rescntk", part))))
        for name in getattr(module, "__all__", vars(module)):
            function = getattr(module, name)
            if not inspect.isfunction(function) or name.startswith("_"):
                continue
            if not (function.__module__ + ".").startswith(module.__name__ + "."):
                continue
            parameters = inspect.signature(function).parameters.values()
            names = {given.name for given in parameters if given.kind is not given.VAR_KEYWORD}
            if {"network", "networks", "family"} & names:
                found.add(".".join(filter(None, (part, name))))
    assert found <= ROOMS.keys()
    assert len(found) > 20
