"""The flow at γ = ½ against deep networks, closed forms and its own convergence."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad

import rescntk as rk
from rescntk.theory import depth, multisphere
from rescntk.theory.depth import flow_limit
from rescntk.theory.depth.half_power import ERROR
from tests import tolerances
from tests.families import pairs
from tests.oracles.papers import kappa1

NETWORKS = (
    rk.Network(1),
    rk.Network(1, 5, outer_filter_size=1, alpha=2.0, c_v=1.3, c_w=0.7),
    rk.Network(1, trained=("inner", "outer"), dilation=2),
    rk.Network(1, input_filter_size=3, trained=("input", "outer")),
    rk.Network(1, activation="erf", alpha=1.5, trained=("input", "inner", "readout")),
    rk.Network(1, 1, activation="erf", trained=("inner", "outer")),
    rk.Network(1, activation="gelu", alpha=1.5, trained=("input", "inner", "readout")),
)


def romberg(network, head, X, rounds=7):
    """Return 1 − (GPK, NTK) at infinite depth from depths 8, 16, …: Euler's steps, extrapolated."""
    columns = []
    for n in (8 * 2**k for k in range(rounds)):
        deep = network.replace(depth=n, alpha=network.alpha * n**-0.5)
        columns.append(1 - np.array(rk.gram(deep, X, head=head, normalized=True)))
    for k in range(1, rounds):
        columns = [(2**k * b - a) / (2**k - 1) for a, b in pairwise(columns)]
    return columns[0]


@pytest.mark.slow
@pytest.mark.parametrize("index", range(len(NETWORKS)))
def test_deep_networks_tend_to_the_flow(index, rng):
    network, head = NETWORKS[index], ("equivariant", "trace", "gap")[index % 3]
    batches = [multisphere.sample(2, 3, 4, 0), rng.standard_normal((2, 2, 4))]
    if not network.homogeneous:  # parallel pixels of different sizes do not stay parallel
        batches[0] = rng.standard_normal((2, 1, 4))
    for X in batches:
        for kind, expected in zip(("gpk", "ntk"), romberg(network, head, X), strict=True):
            found = 1.0 - flow_limit(network, X, kind=kind, head=head)
            assert np.abs(found - expected).max() <= tolerances.FLOW


@pytest.mark.parametrize(
    "network", [rk.Network(1, alpha=0.7, c_v=1.5), rk.Network(1, alpha=20.0)], ids=repr
)
def test_the_limit_of_one_pixel_in_closed_form(network):
    """dρ/dt = β (κ1(ρ) − ρ): the time from t to ρ is an integral."""
    X = multisphere.sample(3, 3, 1, rng=4)
    rho = pairs(flow_limit(network, X, kind="gpk", head="trace"))
    for start, end in zip(pairs(multisphere.dot_products(X)[..., 0]), rho, strict=True):
        time = quad(lambda u: 1 / (kappa1(u) - u), start, end, epsabs=0, epsrel=1e-11)[0]
        assert abs(time - network.branch_gain) <= ERROR / (kappa1(end) - end)


@pytest.mark.parametrize("end", [1e-3, 0.1, 1.0, 2.0])
@pytest.mark.parametrize("part", ["inner", "outer"])
def test_opposite_vectors_at_any_gain(end, part):
    """dτ/dρ = (source − (1 − κ0) τ)/(κ1 − ρ): τ = (κ1 − ρ) ∫ source/(κ1 − ρ)² dρ; ρ = −cos φ."""

    def kappa(angle):
        return (np.sin(angle) - angle * np.cos(angle)) / np.pi

    def source(angle):
        return kappa(angle) if part == "outer" else -np.cos(angle) * angle / np.pi

    def integral(values, power):
        def integrand(angle):
            return values(angle) * np.sin(angle) / (kappa(angle) + np.cos(angle)) ** power

        return quad(integrand, 0, end, epsabs=0, epsrel=1e-12)[0]

    gain = integral(lambda angle: 1.0, 1)
    expected = (kappa(end) + np.cos(end)) * integral(source, 2) / gain
    network = rk.Network(1, 1, alpha=np.sqrt(gain), trained=part)
    found = flow_limit(network, np.array([[[1.0]], [[-3.0]]]), kind="ntk", head="trace")[0, 1]
    assert abs(found - expected) <= ERROR


@pytest.mark.slow
@pytest.mark.parametrize(("opposite", "change"), [(False, 0.25), (True, 0.5)])
def test_corrections_are_of_a_root_where_windows_are_opposite(opposite, change):
    """L times the error has a limit; four times the depth leaves ¼ of the rest, with a root ½."""
    X, network = np.random.default_rng(0).standard_normal((2, 3, 5)), rk.Network(1, trained="inner")
    X[1] = -X[0] if opposite else X[1]
    limit, depths = flow_limit(network, X, kind="ntk", head="trace")[0, 1], 4 ** np.arange(3, 7)
    deep = [network.replace(depth=int(L), alpha=L**-0.5) for L in depths]
    K = [rk.Kernel(each, "ntk", "trace", normalized=True)(X)[0, 1] for each in deep]
    steps = np.diff(depths * (np.array(K) - limit))
    assert np.abs(steps[1:] / steps[:-1] - change).max() <= (0.1 if opposite else 0.01)


@pytest.mark.parametrize("angle", [1e-9, 1e-7, 1e-5])
@pytest.mark.parametrize("window", [1, 3])
def test_pixels_that_no_filter_mixes_keep_the_digits_of_small_angles(angle, window, rng):
    """τ' = β (κ1 + κ0 ρ − (1 − κ0) τ) is 2 − φ (1 + τ)/π times β to first order in the angle φ.

    So the kernel 1 + 2β has lost φ β (1 + β)/π at time 1. Each pixel has the same share of it,
    whatever its size; two windows that a filter of the input sees have one angle, as their pixels.
    """
    sizes = rng.uniform(0.1, 3.0, 5) if window == 1 else np.ones(5)
    x = np.outer([1.0, 0.0], np.ones(5))
    z = np.outer([np.cos(angle), np.sin(angle)], sizes)
    network = rk.Network(1, 1, alpha=0.7, c_v=3.0, input_filter_size=window)
    found = flow_limit(network, np.array([x, z]), kind="ntk", head="trace")[0, 1]
    parallel, beta = sizes.sum() / np.sqrt(5 * (sizes**2).sum()), 0.7**2 * 3.0 / 2
    lost = angle * beta * (1 + beta) / (np.pi * (1 + 2 * beta))
    assert abs(found / parallel - (1 - lost)) <= ERROR + angle**2


@pytest.mark.parametrize("a", [0.0, 1e-150])
def test_no_gain_leaves_the_dot_product(a, rng):
    X, network = rng.standard_normal((2, 2, 4)), rk.Network(1, alpha=a)
    F0 = (X[0] * X[1]).sum() / np.sqrt((X[0] ** 2).sum() * (X[1] ** 2).sum())
    found = flow_limit(network, X, kind="ntk", head="trace")
    assert abs(found[0, 1] - F0) <= ERROR
    assert not flow_limit(network, 0 * X, kind="ntk", head="gap").any()


@pytest.mark.parametrize("a", [1e-2, 1e-4, 1e-5])
@pytest.mark.parametrize("kind", ["gpk", "ntk"])
def test_signals_of_mean_0_and_a_small_gain(a, kind, rng):
    """The kernel of one layer is left, with the rounding errors of a mean that cancels."""
    X, network = rng.standard_normal((3, 2, 6)), rk.Network(1, 3, alpha=a)
    X -= X.mean(axis=2, keepdims=True)
    K = depth.one_layer_kernel(network, X, kind=kind, head="gap")
    K /= np.sqrt(np.multiply.outer(K.diagonal(), K.diagonal()))
    found = flow_limit(network, X, kind=kind, head="gap")
    # The mean cancels to a² of its terms, which are rounded eight times.
    cancelled = 8 * tolerances.EPS["float64"] / 2 / a**2
    assert np.abs(found - K).max() <= ERROR + a**2 + cancelled


def test_signals_in_their_own_units(rng):
    """ReLU: a factor on a signal is seen by no normalized kernel; equal signals have kernel 1."""
    X = rng.standard_normal((4, 2, 5))
    X[3] = 3 * X[0]
    found = 1 - flow_limit(rk.Network(1, 3), X, kind="ntk", head="trace")
    factors = np.array([1e-9, 1, 7, 1e9])[:, None, None]
    scaled = 1 - flow_limit(rk.Network(1, 3), factors * X, kind="ntk", head="trace")
    assert np.abs(found - scaled).max() <= ERROR
    assert abs(found[0, 3]) <= ERROR and (found.diagonal() == 0).all()
    assert (
        flow_limit(rk.Network(1), X[:2] * [[[1]], [[0]]], kind="ntk", head="gap")
        == np.diag([1.0, 0.0])
    ).all()
    with pytest.raises(ValueError, match=r"network has branch_gain 2\.5e\+05, expected at most 1"):
        flow_limit(rk.Network(1, alpha=500.0), X, kind="ntk", head="gap")


def test_flows_whose_variances_leave_float64_are_refused(rng):
    """Those of GELU grow by e^β; those of erf stay below 1, at any gain."""
    X = rng.standard_normal((2, 2, 1))
    network = rk.Network(1, alpha=30.0, activation="gelu")
    with pytest.raises(ValueError, match="network has branch_gain 900, expected at most 100"):
        flow_limit(network, X, kind="ntk", head="trace")
    found = flow_limit(network.replace(activation="erf"), X, kind="ntk", head="trace")
    assert np.isfinite(found).all()


def test_tiny_signals_see_a_linear_network(rng):
    """Of erf, whose squares would vanish in float64."""
    X, network = rng.standard_normal((3, 2, 4)), rk.Network(1, activation="erf")
    tiny, small = (
        flow_limit(network, size * X, kind="gpk", head="trace") for size in (1e-160, 1e-30)
    )
    assert np.abs(tiny - small).max() <= tolerances.FLOW
    assert np.abs(small - np.eye(3)).max() > tolerances.CHANGED


def test_signals_of_very_different_sizes_are_refused(rng):
    """Unless the network does not see sizes, or sees a linear network: all below 1e-70."""
    network, X = rk.Network(1, activation="erf"), rng.standard_normal((2, 2, 4))
    options = {"kind": "gpk", "head": "trace"}
    with pytest.raises(ValueError, match=r"sizes differ by a factor of .*, expected at most 10000"):
        flow_limit(network, X * [[[1.0]], [[1e-5]]], **options)
    for sizes in ([[[1.0]], [[1e-3]]], [[[1e-80]], [[1e-90]]]):
        flow_limit(network, X * sizes, **options)
    flow_limit(rk.Network(1), X * [[[1.0]], [[1e-9]]], **options)
