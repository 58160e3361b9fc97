"""Eigenvalues against closed forms, other methods and Gram matrices."""

from functools import partial
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rescntk as rk
from rescntk import literature
from rescntk.checks.values import HEADS, KINDS
from rescntk.theory import learning, multisphere, spectrum
from rescntk.theory.spectrum import funk_hecke, quadrature
from tests import tolerances
from tests.helpers import nightly
from tests.strategies import kinds, networks

EPS = tolerances.EPS["float64"]
CNN, RESNET = literature.geifman_cnn, literature.one_convolution_resnet
TWO = literature.barzilai_resnet


def test_arc_cosine_kernels_on_the_circle():
    """κ1 and κ1 + ρ κ0 of one layer: Fourier series in closed form."""
    k = np.arange(301.0)
    even = np.where((k > 1) & (k % 2 == 0), 1 / np.where(k == 1, np.inf, k**2 - 1) ** 2, 0.0)
    both, slope = 4 / np.pi**2 * even, 2 / np.pi**2 * (k**2 + 1) * even
    both[:2], slope[:2] = (4 / np.pi**2, 1 / 4), (2 / np.pi**2, 1 / 4)
    for kind, expected in (("gpk", both), ("ntk", both + slope)):
        found = spectrum.eigenvalues(
            CNN(1, 1), 2, 1, 300, kind=kind, head="equivariant", errors=True
        )
        assert (np.abs(found.eigenvalues - expected) <= found.errors).all()
        assert (found.errors <= tolerances.SPECTRUM * expected)[expected > 0].all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "n_channels", "d", "top"),
    [
        (TWO(3, 1, alpha=0.5), 2, 1, 6),
        (CNN(3), 2, 4, 6),
        (RESNET(2, alpha=0.5), 3, 3, 10),
        (rk.Network(2, 3, activation="erf", trained=("input", "outer")), 3, 3, 6),
        (rk.Network(2, 1, skip=False, activation="erf"), 6, 1, 6),
        (rk.Network(3, 3, input_filter_size=3, outer_filter_size=5, c_w=0.8), 2, 3, 6),
    ],
)
@pytest.mark.parametrize("kind", ["gpk", "ntk"])
def test_errors_hold_and_methods_agree(network, n_channels, d, top, kind):
    nodes = {1: 200, 3: 72, 4: 34}[d]
    case = partial(spectrum.eigenvalues, network, n_channels, d, top, kind=kind, head="equivariant")
    exact = case(nodes=nodes, method="angles").eigenvalues
    own = case(errors=True)
    gegenbauer = case(method="gegenbauer", errors=True)
    for found in (own, gegenbauer):
        assert (np.abs(found.eigenvalues - exact) <= found.errors).all()
    assert (own.errors <= tolerances.SPECTRUM * exact + tolerances.ROUTES * own.trace).all()
    assert own.errors.min() > 0


@pytest.mark.slow
@pytest.mark.parametrize("method", quadrature.METHODS)
@pytest.mark.parametrize("n_channels", [2, *nightly(3), 7])
@pytest.mark.parametrize(
    "network",
    [
        TWO(3),
        CNN(1, 1),
        TWO(2, alpha=1e-4),
        rk.Network(2, activation="erf", input_scale=100.0),
        rk.Network(2, activation="gelu"),
    ],
)
def test_errors_hold_for_any_number_of_nodes(network, n_channels, method):
    """Against 400 nodes; too few are refused."""
    for top, kind in product((0, 1, 3, 9), ("gpk", "ntk")):
        case = partial(
            spectrum.eigenvalues, network, n_channels, 1, top, kind=kind, head="equivariant"
        )
        exact = case(nodes=400, method="angles").eigenvalues
        refused = 0
        for nodes in (*range(top + 2, 35), 64):
            try:
                found = case(nodes=nodes, method=method, errors=True)
            except ValueError:
                refused += 1
                continue
            bar = found.errors + 2 * EPS * found.trace  # the exact values have rounding errors
            assert (np.abs(found.eigenvalues - exact) <= bar).all()
        assert refused <= 21


@given(networks(max_depth=4, dilated="freely"), st.integers(1, 3), st.integers(2, 5), kinds)
def test_no_eigenvalue_is_negative(network, d, n_channels, kind):
    found = spectrum.eigenvalues(
        network, n_channels, d, 4, kind=kind, head="equivariant", errors=True
    )
    assert (found.eigenvalues >= -found.errors).all()
    x, kernel = multisphere.sample(1, n_channels, d, 0), rk.Kernel(network, kind, "equivariant")
    own = kernel.diag(x, engine="array")[0]
    assert abs(found.trace - own) <= tolerances.ROUTES * own
    most = found.trace + (found.errors * found.counts).sum()
    assert (found.eigenvalues * found.counts).sum() <= most


@pytest.mark.parametrize("kind", ["gpk", "ntk"])
def test_eigenvalues_of_a_group_of_signals(kind):
    """On pixels that are multiples of 2π/m, a Gram's are sums over frequencies equal modulo m."""
    network, d, m, top = RESNET(2), 2, 10, 60
    angles = 2 * np.pi * np.array(list(product(range(m), repeat=d))) / m
    X = np.sqrt(2) * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    computed = np.linalg.eigvalsh(rk.Kernel(network, kind, "equivariant")(X)) / len(X)
    found = spectrum.eigenvalues(network, 2, d, top, kind=kind, head="equivariant", errors=True)
    expected = np.zeros((m, m))
    for k in product(range(-top, top + 1), repeat=d):
        expected[k[0] % m, k[1] % m] += found.eigenvalues[abs(k[0]), abs(k[1])]
    rest = found.tail
    errors = (found.errors * found.counts).sum() + 1e3 * EPS * found.trace
    difference = computed - np.sort(expected.ravel())
    assert (difference >= -errors).all() and (difference <= rest + errors).all()
    assert rest <= {"gpk": 1e-5, "ntk": 0.02}[kind] * found.trace


def test_some_frequencies_are_part_of_all():
    found = spectrum.eigenvalues(CNN(2), 2, 6, 3, kind="ntk", head="equivariant").eigenvalues
    inside = np.zeros_like(found, dtype=bool)
    inside[:, :, 0, 0, 0, :] = True  # the receptive field
    assert ((found != 0) == inside).all()
    # A ring just as long as the field has the same spectrum as a longer one: no pixel twice.
    short = spectrum.eigenvalues(CNN(2), 2, 3, 3, kind="ntk", head="equivariant").eigenvalues
    assert (short == found[:, :, 0, 0, 0, :]).all()
    whole = spectrum.eigenvalues(TWO(2), 3, 4, 5, kind="ntk", head="trace").eigenvalues
    some = spectrum.eigenvalues(TWO(2), 3, 4, (5, 0, 2, 4), kind="ntk", head="trace").eigenvalues
    assert np.abs(some - whole[:, :1, :3, :5]).max() <= tolerances.ROUTES * whole.max()


@pytest.mark.parametrize(
    ("network", "kind"), [(TWO(2), "gpk"), (rk.Network(2, 5, input_filter_size=3), "ntk")]
)
@pytest.mark.parametrize("head", ["trace", "gap"])
def test_trace_and_gap_average_over_shifts(network, kind, head):
    one = spectrum.eigenvalues(network, 2, 4, 5, kind=kind, head="equivariant").eigenvalues
    shifts = [one.transpose([(axis + s) % 4 for axis in range(4)]) for s in range(4)]
    found = spectrum.eigenvalues(network, 2, 4, 5, kind=kind, head=head).eigenvalues
    assert np.abs(found - np.mean(shifts, axis=0)).max() <= tolerances.ROUTES * one.max()


@pytest.mark.parametrize("kind", ["gpk", "ntk"])
def test_pooled_kernels_have_trace_kernels_eigenvalues_times_a_factor(kind):
    """On signals with all their shifts matrices are circulant: a block for each Fourier mode."""
    d, width, mode = 8, 3, np.arange(8)
    X = multisphere.sample(4, 3, d, rng=0)
    shifted = np.concatenate([np.roll(X, -k, axis=2) for k in range(d)])

    def blocks(head):
        K = rk.Kernel(TWO(3), kind, head)(X, shifted).reshape(4, d, 4)
        return np.fft.fft(K, axis=1)

    with np.errstate(invalid="ignore"):
        factor = (np.sin(np.pi * mode * width / d) / np.sin(np.pi * mode / d) / width) ** 2
    factor[0] = 1.0
    found, trace = blocks(width), blocks("trace")
    error = np.abs(found - factor[:, None] * trace).max()
    assert error <= tolerances.ROUTES * np.abs(trace).max()


@pytest.mark.slow
def test_deep_networks():
    depth = 1100
    deep = TWO(depth, alpha=1.0)
    # Of a tangent kernel a quarter is left between different signals: T/q ← T/q (1 − 3/L) + 1.
    found = spectrum.eigenvalues(
        deep, 2, 2, 1, kind="ntk", head="equivariant", normalized=True
    ).eigenvalues
    assert abs(found[0, 0] - 0.25) <= np.log(depth) / depth
    with pytest.raises(OverflowError, match="exceed float64 at depth 1100; normalized=True"):
        spectrum.eigenvalues(deep, 2, 1, 2, kind="gpk", head="equivariant")
    plain = spectrum.eigenvalues(TWO(5), 2, 3, 4, kind="ntk", head="equivariant", errors=True)
    scaled = spectrum.eigenvalues(
        TWO(5), 2, 3, 4, kind="ntk", head="equivariant", normalized=True
    ).eigenvalues
    assert np.abs(scaled * plain.trace / plain.eigenvalues - 1).max() <= tolerances.ROUTES


@pytest.mark.parametrize("normalized", [False, True])
def test_variances_of_erf_beyond_float64_are_refused(normalized):
    """Normalized, too: an activation that is not homogeneous needs the variances themselves."""
    network = rk.Network(200, 1, activation="erf", skip=False, c_w=1e4)
    options = {"kind": "ntk", "head": "trace", "normalized": normalized}
    with pytest.raises(OverflowError, match="eigenvalues exceed float64 at depth 200$"):
        spectrum.eigenvalues(network, 2, 1, 3, **options)


def test_the_points_of_a_grid_may_be_as_many_as_allowed():
    """`cost` tells the number at which `eigenvalues` still computes."""
    case, options = (CNN(2), 2, 3, 4), {"kind": "gpk"}
    points = spectrum.cost(*case, **options)[0]
    options["head"] = "equivariant"
    spectrum.eigenvalues(*case, **options, max_points=points)
    with pytest.raises(ValueError, match="points, .* hours of one core, expected max_points"):
        spectrum.eigenvalues(*case, **options, max_points=points - 1)


@pytest.mark.parametrize("skip", [False, True])
def test_branches_without_variance_leave_the_signal_or_nothing(skip):
    """Of erf with inner weights of 0. The dot product cos θ is a half for each of two waves."""
    network = rk.Network(3, skip=skip, activation="erf", c_w=0.0)
    options = {"kind": "gpk", "head": "trace"}
    for normalized in (False, True):
        found = spectrum.eigenvalues(network, 2, 1, 2, **options, normalized=normalized)
        assert np.abs(found.eigenvalues - [0, 0.5 * skip, 0]).max() <= tolerances.ROUTES
        assert found.trace == skip


def request(n_channels, top, method, nodes, errors=False):
    """Return a checked request, or None where there are too few nodes."""
    space = n_channels, 1, top, "equivariant"
    try:
        return funk_hecke._Request(CNN(1), space, "gpk", method, nodes, errors)
    except ValueError:
        return None


def least_nodes(n_channels, top, method, errors=False):
    """Return the smallest number of nodes that is taken."""
    return next(n for n in range(1, 1000) if request(n_channels, top, method, n, errors))


@pytest.mark.parametrize("top", [0, 1, 5, 40, 150])
@pytest.mark.parametrize("n_channels", [2, 3, 7])
def test_as_many_nodes_as_integrate_a_frequency(n_channels, top):
    """More than the frequency's zeros for one rule, π/4 nodes a wave for the other, and 2."""
    assert least_nodes(n_channels, top, "gegenbauer") == max(top + 1, 2)
    waves = np.pi / 4 * (top + n_channels - 2)
    least = least_nodes(n_channels, top, "angles")
    assert least == 2 or least - 1 <= waves < least
    assert least > waves


@pytest.mark.parametrize("top", [0, 1, 5, 40, 150])
@pytest.mark.parametrize("n_channels", [2, 6, 7])
@pytest.mark.parametrize("method", quadrature.METHODS)
def test_errors_are_estimated_where_the_coarsest_grid_still_serves(method, n_channels, top):
    """The second of the two coarser grids may have as few nodes as a grid without errors."""
    least = least_nodes(n_channels, top, method)
    coarsest = min(
        request(
            n_channels, top, method, least_nodes(n_channels, top, method, True), errors=True
        ).coarser
    )
    assert least <= coarsest <= least + 1


def test_errors_of_many_channels_take_fewer_than_twice_the_nodes():
    """Of more than six the rule of the papers errs too differently on a grid of half the nodes."""
    few, many = ((C, 60, "gegenbauer") for C in (6, 7))
    assert least_nodes(*few, errors=True) == 2 * (least_nodes(*few) + 1)
    assert least_nodes(*many, errors=True) < 1.2 * least_nodes(*many)


@pytest.mark.parametrize("method", quadrature.METHODS)
def test_errors_are_the_largest_differences_of_grids_at_a_frequency_and_its_neighbours(method):
    """And rounding errors, of some 32 units of an eigenvalue and 8 of the trace, twice at k = 8."""
    case = partial(
        spectrum.eigenvalues, CNN(2), 2, 3, (8, 0, 8), kind="ntk", head="equivariant", method=method
    )
    n = 20
    coarser = n - 8 if method == "angles" else n // 2
    found, *grids = case(nodes=n, errors=True), case(nodes=coarser), case(nodes=coarser - 1)
    away = np.max([np.abs(found.eigenvalues - grid.eigenvalues) for grid in grids], axis=0)[:, 0]
    padded = np.pad(away, 1)
    places = list(product(range(3), repeat=2))
    expected = np.max([padded[i : i + 9, j : j + 9] for i, j in places], axis=0)
    over, rounding = found.errors[:, 0] - expected, 60 * EPS * found.trace
    assert 0 <= over.min() <= over.max() <= rounding < (expected - away).max()


def test_errors_that_were_not_asked_for_resolve_nothing():
    found = spectrum.eigenvalues(CNN(1), 2, 1, 2, kind="gpk", head="equivariant")
    assert found.errors.shape == found.eigenvalues.shape and np.isnan(found.errors).all()
    with pytest.raises(ValueError, match="errors of these eigenvalues were not asked for"):
        _ = found.resolved
    with pytest.raises(ValueError, match="errors of these eigenvalues were not asked for"):
        found.rkhs_norm(np.ones(3))
    known = spectrum.eigenvalues(rk.Network(2), 2, 1, 3, kind="ntk", head="trace", errors=True)
    with pytest.raises(OverflowError, match="the results exceed float64"):  # not infinity
        known.rkhs_norm([1e308] * 4)


def least_part_of_a_norm(found, frequencies, n):
    """Return the part of an eigenfunction's RKHS norm that its interpolant of n signals has.

    Of random eigenfunctions it is √(μ/(μ + κ)), where κ solves n = Σ μ_i/(μ_i + κ) + tail/κ: yᵀK⁻¹y
    is about Σ c_i²/(μ_i + κ). Waves have more. Measured: 1 − this part is 1.1 to 10 times as large
    as what interpolants lack.
    """
    spectrum_of = {"penalty": found.tail, "multiplicities": found.counts.ravel()}
    values = found.eigenvalues.ravel()
    kappa = learning.curve(values, 0 * values, (n,), **spectrum_of).rows[0].kappa
    mu = found.eigenvalues[frequencies]
    return np.sqrt(mu / (mu + kappa))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("head", ["equivariant", "trace"])
def test_norms_of_functions_in_the_rkhs(kind, head):
    """Interpolants of a product of waves have norms (yᵀK⁻¹y)^½ that rise to the function's."""
    network, frequencies = TWO(2, 3), (2, 1, 0)
    found = spectrum.eigenvalues(network, 2, 3, 4, kind=kind, head=head, errors=True)
    coefficients = np.zeros((5, 5, 5))
    coefficients[frequencies] = 3.0
    X = multisphere.sample(1000, 2, 3, rng=0)
    angles = np.arctan2(X[:, 1], X[:, 0])
    y = 3.0 * np.prod([np.sqrt(2) * np.cos(k * angles[:, p]) for p, k in ((0, 2), (1, 1))], axis=0)
    if head == "trace":  # a wave with its shifts spreads over eigenfunctions of one eigenvalue
        assert np.allclose(
            found.eigenvalues[frequencies], found.eigenvalues[0, 2, 1], tolerances.ROUTES, 0
        )
    K, norm = rk.Kernel(network, kind, head)(X), found.rkhs_norm(coefficients)
    interpolants = [np.sqrt(y[:n] @ np.linalg.solve(K[:n, :n], y[:n])) for n in (100, 300, 1000)]
    assert interpolants[0] < interpolants[1] < interpolants[2] < norm
    assert interpolants[2] >= least_part_of_a_norm(found, frequencies, 1000) * norm
    options = {"kind": kind, "head": "equivariant", "errors": True}
    assert spectrum.eigenvalues(CNN(1), 2, 3, 4, **options).rkhs_norm(coefficients) == np.inf


def test_the_space_of_gap_has_shift_invariant_functions_alone():
    """The norm of √2 (cos θ_0 + cos θ_1), from interpolation; one cosine has no shift."""
    network, options = TWO(2), {"kind": "ntk", "head": "gap", "errors": True}
    found, coefficients = spectrum.eigenvalues(network, 2, 2, 2, **options), np.zeros((3, 3))
    coefficients[1, 0] = 1.0
    assert found.rkhs_norm(coefficients) == np.inf
    coefficients[0, 1] = 1.0
    X = multisphere.sample(600, 2, 2, rng=0)
    y, K = X[:, 0].sum(axis=1), rk.Kernel(network, "ntk", "gap")(X)
    interpolants = [np.sqrt(y[:n] @ np.linalg.solve(K[:n, :n], y[:n])) for n in (50, 150, 600)]
    norm = found.rkhs_norm(coefficients)
    assert interpolants[0] < interpolants[1] < interpolants[2] < norm
    assert interpolants[2] >= least_part_of_a_norm(found, (1, 0), 600) * norm
    cut = spectrum.eigenvalues(network, 2, 2, (2, 0), **options)
    assert cut.rkhs_norm([[0.0], [1.0], [0.0]]) == np.inf  # the shift's frequencies are cut off


@pytest.mark.slow
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("kind", KINDS)
def test_effective_dimensions_are_those_of_large_grams(kind, head):
    """Of K/n over n signals, but for shares of dimension/n; `tail_bounds` add what is left out."""
    n, network = 1000, rk.Network(3)
    found = spectrum.eigenvalues(network, 2, 3, 12, kind=kind, head=head)
    assert found.counts.shape == found.eigenvalues.shape
    kernel, rng = rk.Kernel(network, kind, head), np.random.default_rng(0)
    own = [np.linalg.eigvalsh(kernel(multisphere.sample(n, 2, 3, rng))) / n for _ in range(5)]
    for penalty in (0.01 * n * found.trace, 0.1 * n * found.trace):
        of_grams = [(mu / (mu + penalty / n)).sum() for mu in own]
        least = found.effective_dimension(n, penalty)
        mean, error = np.mean(of_grams), 3 * np.std(of_grams, ddof=1) / np.sqrt(len(own))
        most = least + found.tail_bounds[1] * n / penalty
        assert least * (1 - mean / n) - error <= mean <= most + error


@pytest.mark.parametrize("head", HEADS)
def test_tails_are_what_higher_frequencies_hold(head):
    """More frequencies move their part from the tail to the sum; GAP's bounds hold it."""
    options = {"kind": "ntk", "head": head, "normalized": True}
    few, more = (spectrum.eigenvalues(rk.Network(2), 2, 4, top, **options) for top in (3, 9))
    sums = [float((found.counts * found.estimates).sum()) for found in (few, more)]
    least, most = few.tail_bounds
    moved, slack = sums[1] - sums[0], tolerances.ROUTES
    assert least - more.tail_bounds[1] - slack <= moved <= most - more.tail_bounds[0] + slack
    assert head == "gap" or abs(few.tail - more.tail - moved) <= slack
    assert 0 < more.tail < few.tail < 1


@pytest.mark.parametrize("activation", ["relu", "erf", "gelu"])
def test_networks_that_let_nothing_pass_have_no_eigenvalues(activation):
    network = rk.Network(2, 3, skip=False, c_v=0.0, activation=activation)
    found = spectrum.eigenvalues(network, 3, 1, 3, kind="gpk", head="equivariant")
    assert (found.eigenvalues == 0).all()
