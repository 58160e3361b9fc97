"""A new field of `Network`, activation or head reaches no function that does not name it."""

import inspect
from dataclasses import fields
from functools import partial

import numpy as np
import pytest

pytest.importorskip("jax")
pytest.importorskip("optax")
pytest.importorskip("zarr")
import rescntk as rk
from rescntk import engines, finite, stored
from rescntk import jax as rj
from rescntk.checks.values import HEADS, KINDS
from rescntk.engines import heads
from rescntk.engines.request import Request
from rescntk.finite import parameters
from rescntk.network import activations
from rescntk.network.parameters import BASIC_FIELDS, LAYER_FORMULA_FIELDS
from rescntk.network.parts import Layer
from rescntk.theory import (
    conditioning,
    depth,
    learning,
    locality,
    multisphere,
    paths,
    smoothness,
    spectrum,
)
from rescntk.theory.tools import argument_checks
from tests.helpers import CPU, Wider, parameters_of, supports
from tests.oracles import definition, finite_width, quadruple, strided
from tests.tolerances import KERNEL, ROUTES

SIGNALS = np.random.default_rng(0).standard_normal((3, 2, 3))
PARAMETERS = finite.init(0, rk.Network(2, 1), 2, 4)

CALLS = {
    rk.gram: lambda net, head="gap": rk.gram(net, SIGNALS, head=head),
    rk.Kernel: lambda net, head="gap": rk.Kernel(net, "gpk", head)(SIGNALS),
    rk.pixel_pairs: lambda net: rk.pixel_pairs(net, SIGNALS),
    rk.pixel_shares: lambda net, head="gap": rk.pixel_shares(net, SIGNALS, head=head),
    rj.gram: lambda net, head="gap": rj.gram(net, SIGNALS, head=head),
    stored.gram: lambda net: stored.gram("nowhere", net, SIGNALS),
    finite.init: lambda net: finite.init(0, net, 2, 4),
    finite.apply: lambda net, head="gap": finite.apply(net, PARAMETERS, SIGNALS, head),
    finite.ntk: lambda net, head="gap": finite.ntk(net, PARAMETERS, SIGNALS, head=head),
    finite.mean_gpk: lambda net, head="gap": finite.mean_gpk(0, net, SIGNALS, 4, 2, head=head),
    finite.correction: lambda net, head="gap": finite.correction(net, SIGNALS, 4, head),
    finite.train: lambda net, head="gap": finite.train(
        net, PARAMETERS, SIGNALS, np.zeros(3), 0.1, 1, head=head
    ),
    conditioning.asymptotic_condition_number: lambda net: conditioning.asymptotic_condition_number(
        net, 3, kind="gpk"
    ),
    conditioning.compare: lambda net, head="gap": conditioning.compare(
        net, SIGNALS, depths=(1, 2), kind="gpk", head=head
    ),
    conditioning.mean_entries: lambda net: conditioning.mean_entries(
        net, multisphere.sample(2, 2, 3, 0), (1,)
    ),
    conditioning.separation_bound: lambda net, head="gap": conditioning.separation_bound(
        net, multisphere.sample(2, 2, 3, 0), kind="gpk", head=head
    ),
    depth.Family: lambda net: depth.Family(net, 1.0),
    depth.flow_limit: lambda net, head="gap": depth.flow_limit(net, SIGNALS, kind="gpk", head=head),
    depth.one_layer_kernel: lambda net, head="gap": depth.one_layer_kernel(
        net, SIGNALS, kind="gpk", head=head
    ),
    depth.asymptotic_complement: lambda net: depth.asymptotic_complement(net),
    depth.effective_depth: depth.effective_depth,
    depth.complement_bounds: lambda net: depth.complement_bounds(net, [0.5]),
    depth.without_normalization: depth.without_normalization,
    depth.limit_classifier: lambda net: depth.limit_classifier(net, kind="gpk"),
    depth.mode_scales: lambda net: depth.mode_scales(net, 3),
    depth.relative_variance: lambda net: depth.relative_variance(net, (1, 2)),
    learning.error_exponent: lambda net: learning.error_exponent(net, 2, 2, kind="gpk"),
    learning.sample_complexity: lambda net, head="gap": learning.sample_complexity(
        net, 2, 2, 2, kind="gpk", head=head
    ),
    learning.learned_by_frequency: lambda net, head="gap": learning.learned_by_frequency(
        net, 2, 2, 2, [1.0], kind="gpk", head=head
    ),
    locality.effective_receptive_field: lambda net: locality.effective_receptive_field(
        net, 3, kind="gpk"
    ),
    locality.width: lambda net: locality.width(net, kind="gpk"),
    multisphere.normalized_gpk: lambda net: multisphere.normalized_gpk(net, [[0.5]]),
    multisphere.gram_complements: lambda net, head="gap": multisphere.gram_complements(
        [net], multisphere.sample(2, 2, 3, 0), kind="gpk", head=head
    ),
    paths.path_counts: lambda net: paths.path_counts(net, 3),
    paths.fit_path_counts: lambda net: paths.fit_path_counts(net, 2, 2, 2, kind="gpk"),
    paths.path_pixels: paths.path_pixels,
    paths.stride_kernel: lambda net: paths.stride_kernel(net, [0.5]),
    smoothness.jacobian_bound: lambda net: smoothness.jacobian_bound(net, 4, 2),
    spectrum.decay_constants: lambda net, head="gap": spectrum.decay_constants(
        net, 2, 2, [0, 1], kind="gpk", head=head
    ),
    spectrum.decay_exponents: lambda net: spectrum.decay_exponents(net, 2, 2, 9, kind="gpk"),
    spectrum.decay_law: lambda net, head="gap": spectrum.decay_law(
        net, 2, 2, [0, 1], kind="gpk", head=head
    ),
    spectrum.eigenvalues: lambda net, head="gap": spectrum.eigenvalues(
        net, 2, 2, 2, kind="gpk", head=head
    ),
    spectrum.cost: lambda net: spectrum.cost(net, 2, 2, 2, kind="gpk"),
    spectrum.taylor_coefficients: lambda net: spectrum.taylor_coefficients(net, 1, 3, kind="gpk"),
}
"""Public functions of a network, with arguments that a network of depth 2 is fine for."""

MODULES = (
    rk,
    rj,
    stored,
    finite,
    conditioning,
    depth,
    learning,
    locality,
    multisphere,
    paths,
    smoothness,
    spectrum,
)


def public():
    """Return all public functions and classes that take a network or several, but results."""
    found = set()
    for module in MODULES:
        own = [name for name in vars(module) if name[0] != "_"]
        for name in getattr(module, "__all__", own):
            value = getattr(module, name)
            if callable(value) and getattr(value, "__module__", "").startswith("rescntk"):
                names = set(parameters_of(value))
                found |= {value} if names & {"network", "networks"} else set()
    kinds = {rk.CGPK, rk.CNTK, rk.ResCGPK, rk.ResCNTK}  # whose `network` are parameters
    own = ("rescntk.network", "rescntk.theory.tools.argument_checks")
    checks = {value for value in found if value.__module__ in own}
    return found - kinds - checks - {conditioning.Comparison}


class MadeUp(activations.Erf):
    name = "made up"


def test_all_functions_of_a_network_are_called_here():
    assert CALLS.keys() == public()


@pytest.mark.parametrize("call", CALLS, ids=lambda f: f"{f.__module__}.{f.__qualname__}")
def test_a_made_up_field_is_refused_by_name(call):
    with pytest.raises(ValueError, match=r"^network has made_up 0\.5, expected 0\.0"):
        CALLS[call](Wider(2, 1, made_up=0.5))


IMPLEMENTATIONS = {
    "array": lambda net: rk.gram(net, SIGNALS, engine="array"),
    "jax": lambda net: rj.gram(net, SIGNALS),
    "finite width": lambda net: finite.apply(net, finite.init(0, net, 2, 4), SIGNALS),
}
if "cpu" in CPU:
    IMPLEMENTATIONS["cpu"] = lambda net: rk.gram(net, SIGNALS, engine="cpu")
SLOW = {"jax": pytest.mark.slow}  # it compiles each network
NAMES = [pytest.param(name, marks=SLOW.get(name, ())) for name in IMPLEMENTATIONS]


@pytest.mark.parametrize("implementation", NAMES)
@pytest.mark.parametrize(
    ("of_layer", "field"),
    [("branch_factor", "alpha"), ("inner_variance", "c_w"), ("outer_variance", "c_v")],
)
def test_a_factor_of_a_layer_reaches_kernels(implementation, of_layer, field, monkeypatch):
    """Half of a number, in the property that formulas read, is half of it in the network."""
    compute = IMPLEMENTATIONS[implementation]
    activations = ("relu", "erf") if implementation == "array" else ("relu",)
    # Without the skip connection there is no α. JAX would compile a second network.
    skips = (True,) if field == "alpha" or implementation == "jax" else (True, False)
    halves = [
        rk.Network(2, 3, activation=activation, skip=skip, bias=(0.0, 0.25), **{field: 0.8125})
        for activation in activations
        for skip in skips
    ]
    expected = [compute(network) for network in halves]
    monkeypatch.setattr(Layer, of_layer, property(lambda layer: getattr(layer, field) / 2))
    found = [compute(network.replace(**{field: 1.625})) for network in halves]
    np.testing.assert_array_equal(found, expected)


OTHER_VALUES = {
    "depth": 3,
    "filter_size": 1,
    "outer_filter_size": 1,
    "input_filter_size": 3,
    "skip": False,
    "alpha": 0.5,
    "activation": "erf",
    "negative_slope": 0.25,
    "c_v": 1.5,
    "c_w": 1.5,
    "readout_scale": 2.0,
    "input_scale": 0.25,
    "trained": ("inner",),
    "dilation": 2,
    "bias": 0.5,
    "norm": True,
}
"""A value of each field that gives another tangent kernel than the one in `USUAL`."""

USUAL = rk.Network(2, 3, bias=0.25, trained=("inner", "outer"))
LONG_SIGNALS = np.random.default_rng(1).standard_normal((2, 2, 7))
TANGENTS = {
    "array": lambda net: rk.gram(net, LONG_SIGNALS, engine="array").ntk,
    "textbook": lambda net: rk.gram(net, LONG_SIGNALS, engine="textbook").ntk,
    "jax": lambda net: rj.gram(net, LONG_SIGNALS).ntk,
    "finite width": lambda net: finite.ntk(net, finite.init(0, net, 2, 4), LONG_SIGNALS),
}
if "cpu" in CPU:
    TANGENTS["cpu"] = lambda net: rk.gram(net, LONG_SIGNALS, engine="cpu").ntk
OF_TANGENTS = [
    pytest.param(name, marks=() if name in engines.ENGINES else pytest.mark.slow)
    for name in TANGENTS
]


@pytest.mark.parametrize("implementation", OF_TANGENTS)
@pytest.mark.parametrize("field", [field.name for field in fields(rk.Network)])
def test_each_field_changes_kernels(field, implementation):
    """A field that is declared and does nothing is noticed here."""
    other = USUAL.replace(**{field: OTHER_VALUES[field]})
    if not supports(implementation.replace("finite width", "array"), other):
        pytest.skip(f"{implementation} does not take {other.activation}")
    compute = TANGENTS[implementation]
    expected, found = (np.asarray(compute(network)) for network in (USUAL, other))
    assert np.abs(found - expected).max() > 1e-3 * np.abs(expected).max()


def test_implementations_know_the_same_fields():
    """JAX has ReLU alone. One that learns a field before the others is named here."""
    known = {name: engine.known_fields for name, engine in engines.ENGINES.items()}
    known |= {"jax": rj.KNOWN_FIELDS | {"activation"}, "finite": parameters.KNOWN_FIELDS}
    assert set(known.values()) == {frozenset(field.name for field in fields(rk.Network))}


@pytest.mark.parametrize("field", sorted(BASIC_FIELDS))
def test_each_basic_field_changes_eigenvalues(field):
    """A field that stands in `BASIC_FIELDS`, and that theory ignores, is noticed here."""
    usual = rk.Network(2, 3, trained=("inner", "outer"))
    expected, found = (
        spectrum.eigenvalues(network, 3, 2, 1, kind="ntk", head="equivariant").eigenvalues
        for network in (usual, usual.replace(**{field: OTHER_VALUES[field]}))
    )
    assert np.abs(found - expected).max() > 1e-3 * np.abs(expected).max()


@pytest.mark.parametrize("field", sorted(LAYER_FORMULA_FIELDS - {"activation", "bias"}))
def test_growth_includes_each_field_of_its_formula(field):
    """Homogeneous activations without biases multiply the mean variance by it in each layer."""
    network = rk.Network(2, 3).replace(**{field: OTHER_VALUES[field]})
    first, second = rk.gram(network, LONG_SIGNALS, head="trace", depths=(1, 2)).gpk
    np.testing.assert_allclose(second.diagonal() / first.diagonal(), network.growth, rtol=ROUTES)


def test_outputs_of_finite_width_are_those_of_the_oracle():
    """One network has all other values at once, but the two that exclude a value of another field.

    So a field that the oracle ignores is noticed.
    """
    values = {name: OTHER_VALUES[name] for name in OTHER_VALUES.keys() - {"skip", "activation"}}
    network = rk.Network(**values)
    params = finite.init(0, network, 2, 4)
    found = finite.apply(network, params, LONG_SIGNALS)
    expected = [finite_width.output(network, params, x, "gap") for x in LONG_SIGNALS]
    np.testing.assert_allclose(found, expected, rtol=ROUTES)


OF_HALVES = {
    "relu": ({}, {}, 1.0),
    "trained": ({"trained": ("input", "outer")}, {}, 1.0),
    "norm": ({"norm": True, "bias": 0.25}, {}, 2.0),
    "bias": ({"bias": 0.25}, {"bias": (0.25, 0.125)}, 1.0),
    "erf": ({"activation": "erf", "bias": 0.25}, {"c_w": (1.0, 4.0)}, 2.0),
    "gelu": ({"activation": "gelu"}, {"c_w": (1.0, 4.0)}, 2.0),
}
"""Fields, those of the network whose identity path halves, and by how much alpha rises in layer 2.

A branch reads halved features. It sees the whole ones if it normalizes them, or if c_w is 4 times
as large; else it is half as large, with half of the bias.
"""


@pytest.mark.parametrize("implementation", NAMES)
@pytest.mark.parametrize("name", OF_HALVES)
def test_a_factor_of_the_identity_path_reaches_kernels(implementation, name, monkeypatch):
    """Layers f/2 + α b are half of f + 2α b."""
    fields, of_halves, rise = OF_HALVES[name]
    compute, alphas = IMPLEMENTATIONS[implementation], np.array((0.40625, 0.203125))
    network = rk.Network(2, 3, alpha=tuple(2.0 * np.array((1.0, rise)) * alphas), **fields)
    if not supports(implementation.replace("finite width", "array"), network):
        pytest.skip(f"{implementation} does not take {network.activation}")
    expected = compute(network)
    monkeypatch.setattr(Layer, "identity_factor", property(lambda layer: layer.skip / 2))
    power = 4 if implementation == "finite width" else 16
    found = compute(network.replace(alpha=tuple(alphas), **of_halves))
    bar = KERNEL["float32"] if implementation == "jax" else ROUTES  # JAX computes in float32
    np.testing.assert_allclose(power * np.asarray(found), expected, rtol=bar)


ORACLES = {
    "definition": lambda net: definition.pixel_pairs(SIGNALS, net),
    "quadruple": lambda net: quadruple.Grams(net, SIGNALS),
    "strided": lambda net: strided.strided(net, SIGNALS, 1, "ntk"),
    "finite width": lambda net: finite_width.features(net, PARAMETERS, SIGNALS[0]),
}


@pytest.mark.parametrize("oracle", ORACLES)
def test_oracles_do_not_know_a_made_up_field(oracle):
    with pytest.raises(KeyError, match="made_up"):
        ORACLES[oracle](Wider(2, 1, made_up=0.5))


@pytest.mark.parametrize("field", ["dilation", "norm", "negative_slope", "input_scale"])
def test_the_strided_definition_refuses_fields_that_it_lacks(field):
    value = {"dilation": 2, "norm": True}.get(field, 0.5)
    with pytest.raises(KeyError, match=f"does not know {field}"):
        ORACLES["strided"](rk.Network(2, **{field: value}))


def test_the_strided_definition_refuses_layers_of_their_own():
    with pytest.raises(KeyError, match="does not know skip"):
        ORACLES["strided"](rk.Network(2, skip=(False, True)))


@pytest.fixture
def wider(monkeypatch):
    """Return a network with a made-up field, which the engine "array" alone declares."""
    fields = engines.ENGINES["array"].known_fields | {"made_up"}
    monkeypatch.setattr(type(engines.ENGINES["array"]), "known_fields", fields)
    return Wider(2, 1, made_up=0.5)


def test_a_field_is_known_where_it_is_declared(wider):
    expected = rk.gram(rk.Network(2, 1), SIGNALS, engine="array")
    for engine in ("auto", "array"):
        for K, same in zip(rk.gram(wider, SIGNALS, engine=engine), expected, strict=True):
            assert np.array_equal(K, same)


ELSEWHERE = {
    "cpu": lambda net: rk.gram(net, SIGNALS, engine="cpu"),
    "jax": CALLS[rj.gram],
    "finite": CALLS[finite.init],
    "theory": CALLS[paths.path_counts],
}


@pytest.mark.parametrize("implementation", ELSEWHERE)
def test_a_field_is_refused_where_it_is_not_declared(implementation, wider):
    with pytest.raises(ValueError, match=r"network has made_up 0\.5, expected 0\.0"):
        ELSEWHERE[implementation](wider)


@pytest.fixture
def made_up(monkeypatch):
    """Return networks with an activation that has erf's formulas, and their twin of erf."""
    monkeypatch.setitem(activations.ACTIVATIONS, "made up", MadeUp)
    checks = rk.Network.__dataclass_fields__["activation"].metadata["check"]
    monkeypatch.setitem(checks.keywords, "choices", (*activations.ACTIVATIONS,))
    return rk.Network(2, 1, activation="made up"), rk.Network(2, 1, activation="erf")


ASKING = (
    rk.gram,
    rk.Kernel,
    rk.pixel_pairs,
    rk.pixel_shares,
    finite.init,
    finite.apply,
    finite.ntk,
    finite.mean_gpk,
    finite.train,
    spectrum.eigenvalues,
    spectrum.cost,
    learning.sample_complexity,
    learning.learned_by_frequency,
    paths.path_counts,
    paths.path_pixels,
    depth.flow_limit,
)
"""Functions that ask the activation's object for all formulas."""


@pytest.mark.parametrize("call", ASKING, ids=lambda f: f"{f.__module__}.{f.__qualname__}")
def test_functions_that_ask_the_object_take_a_made_up_activation(call, made_up):
    network, twin = made_up
    found, expected = CALLS[call](network), CALLS[call](twin)
    if call in (rk.gram, rk.pixel_pairs, finite.apply):
        assert np.array_equal(found, expected)


REFUSING = [call for call in CALLS if call not in (*ASKING, stored.gram, smoothness.jacobian_bound)]


@pytest.mark.parametrize("call", REFUSING, ids=lambda f: f"{f.__module__}.{f.__qualname__}")
def test_other_functions_refuse_a_made_up_activation_by_name(call, made_up):
    with pytest.raises(ValueError, match="activation 'made up', expected|'relu'"):
        CALLS[call](made_up[0])


@pytest.mark.parametrize("engine", ["cpu", "cuda"])
def test_compiled_engines_refuse_a_made_up_activation(engine, made_up):
    request = Request(made_up[0], "gap", KINDS, (2,))
    assert "(got 'made up')" in engines.ENGINES[engine].refuses(request, SIGNALS)
    if engine in CPU:
        with pytest.raises(ValueError, match="made up"):
            rk.gram(made_up[0], SIGNALS, engine=engine)


def test_oracles_do_not_know_a_made_up_activation(made_up):
    with pytest.raises(KeyError):
        definition.dual_of(made_up[0])


NETWORK = rk.Network(2, 1)
WITH_HEADS = [
    partial(CALLS[call], NETWORK)
    for call in CALLS
    if "head" in inspect.signature(call).parameters and call is not stored.gram
]
"""Public functions of a network and a head, but `stored.gram`, which computes in blocks later."""

OTHERS_WITH_HEADS = {
    "array": lambda head: rk.gram(NETWORK, SIGNALS, head=head, engine="array"),
    "definition": lambda head: definition.head(np.eye(3), head),
    "quadruple": lambda head: quadruple.Grams(NETWORK, SIGNALS).error(np.eye(3), "gpk", head),
    "finite width": lambda head: finite_width.output(NETWORK, PARAMETERS, SIGNALS[0], head),
    "family": lambda head: depth.Family(NETWORK, 1.0).predict(SIGNALS, kind="gpk", head=head),
}


@pytest.mark.parametrize("call", [*WITH_HEADS, *OTHERS_WITH_HEADS.values()])
def test_a_made_up_head_is_refused(call, monkeypatch):
    """Also where it stands in all lists of heads, against which arguments are checked."""
    monkeypatch.setattr(heads.check_head, "__defaults__", ((*HEADS, "made up"),))
    monkeypatch.setattr(argument_checks, "_KNOWN_HEADS", (*HEADS, "made up"))
    with pytest.raises((ValueError, KeyError, NotImplementedError), match="made up|not in tuple"):
        call("made up")
