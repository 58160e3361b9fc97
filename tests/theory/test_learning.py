"""Learning curves and numbers of signals: against measured regressions and closed forms."""

import re

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import expm

import rescntk as rk
from rescntk import literature
from rescntk.checks.values import HEADS, KINDS
from rescntk.datasets import load_labelled
from rescntk.regression import flow
from rescntk.theory import learning, multisphere, spectrum
from rescntk.theory.learning import learned_by_frequency, learned_fractions
from tests import tolerances

EPS = tolerances.EPS["float64"]


def measure(K, y, n, penalty, draws, rng, noise=0.0):
    """Return mean test and train errors of ridge regressions on n random signals of a pool."""
    errors = []
    for _ in range(draws):
        labels = y + np.sqrt(noise) * rng.standard_normal(y.shape)
        order = rng.permutation(len(y))
        inside, outside = order[:n], order[n:]
        matrix = K[np.ix_(inside, inside)] + penalty * np.eye(n)
        fitted = np.linalg.solve(matrix, labels[inside])
        residuals = K[:, inside] @ fitted - labels
        errors.append([np.mean(residuals[places] ** 2) for places in (outside, inside)])
    return np.mean(errors, axis=0)


def real_pools():
    """Yield a kernel matrix and a centred target of unit variance of sets of real signals."""
    digits = pytest.importorskip("sklearn.datasets").load_digits()
    pytest.importorskip("aeon")
    sets = [(digits.images[:, None], digits.target)]
    for name in ("GunPoint", "ItalyPowerDemand", "JapaneseVowels", "Tecator"):
        parts = zip(*(load_labelled(name, split) for split in ("train", "test")), strict=True)
        sets.append(tuple(map(np.concatenate, parts)))
    for X, y in sets:
        places = np.random.default_rng(0).permutation(len(X))[:160]
        X, y = X[places], y[places]
        if X.shape[-1] == 150:  # GunPoint, means of 3 time points: a ninth of the work
            X = X.reshape(*X.shape[:2], -1, 3).mean(axis=3)
        target = y if y.dtype.kind == "f" else np.where(y == y[0], 1.0, -1.0)
        target = target - target.mean()
        yield rk.ResCNTK(3, 3, normalized=True)(X), target / target.std()


@pytest.mark.slow
def test_real_signals():
    """Predictions have nothing fitted: a mean ratio within 5 %, nine tenths within 15 %."""
    ratios = []
    for K, y in real_pools():
        for penalty in (1e-3, 1e-1):
            rng = np.random.default_rng(0)
            for row in learning.pool_curve(K, y, (10, 20, 40, 80), penalty):
                ratios.append(row.test_error / measure(K, y, row.n, penalty, 40, rng)[0])
    ratios = np.array(ratios)
    bias, deviation_of_nine_tenths = 0.05, 0.15  # at most, as the docstring promises
    assert len(ratios) == 40
    assert abs(ratios.mean() - 1) <= bias
    assert (abs(ratios - 1) <= deviation_of_nine_tenths).mean() >= 0.9


@pytest.mark.parametrize("noise", [0.0, 0.5])
@pytest.mark.parametrize(("rank", "penalty"), [(120, 0.0), (120, 3.0), (30, 0.0), (30, 0.5)])
def test_pools_with_random_eigenvectors(rank, penalty, noise):
    """For them the formulas of a pool are exact as N grows, also near n = N."""
    rng = np.random.default_rng(1)
    U = np.linalg.qr(rng.standard_normal((120, 120)))[0]
    values = np.where(np.arange(120) < rank, 120.0 / np.arange(1, 121), 0.0)
    y = U @ (3.0 / np.arange(1, 121))
    K = (U * values) @ U.T
    sizes = (20, 60, 108) if penalty else (20, 60 if rank == 30 else 50, 100)
    found = learning.pool_curve(K, y, sizes, penalty, noise=noise)
    measured = np.array([measure(K, y, n, penalty or 1e-9, 300, rng, noise) for n in sizes])
    test, train = (found.column(name) for name in ("test_error", "train_error"))
    # Two standard errors of means of 300 draws that vary by nine tenths of their mean.
    two_errors = 0.1
    assert (abs(test / measured[:, 0] - 1) <= two_errors).all()
    if penalty == 0 and rank == 120:
        assert (train == 0).all()
    else:  # below the rank, interpolation leaves rounding errors
        assert (abs(train / measured[:, 1] - 1) <= two_errors)[int(penalty == 0) :].all()


@given(st.integers(3, 60), st.integers(1, 100), st.floats(0, 2, allow_subnormal=False))
def test_linear_kernel_of_gaussian_data(p, n, noise):
    """Hastie et al. 2022: E = 1 − γ + σ²/(1 − γ) for γ = n/p < 1, and σ² n/(n − p) beyond."""
    row = learning.curve([1 / p], [1.0], (n,), noise=noise, multiplicities=[p]).rows[0]
    if n < p:
        expected = 1 - n / p + noise * p / (p - n)
    elif n > p:
        expected = noise * n / (n - p)
    else:  # double descent has its peak where the features just interpolate
        expected = np.inf if noise else 0.0
        assert row.overfitting == np.inf
    assert row.test_error == expected or abs(row.test_error / expected - 1) <= 50 * EPS


NUMBERS = st.one_of(st.just(0.0), st.floats(-30, 30).map(lambda e: 10**e))


@given(st.lists(NUMBERS, min_size=1, max_size=12), st.integers(1, 14), NUMBERS, st.data())
def test_kappa_to_rounding_and_bounds(values, n, penalty, data):
    """κ against 80 digits; fractions sum to n − δ/κ; E_0 ≥ 1; train ≤ test error."""
    counts = data.draw(st.lists(st.integers(1, 5), min_size=len(values), max_size=len(values)))
    parts = np.linspace(1, 2, len(values))
    row = learning.curve(values, parts, (n,), penalty, noise=0.1, multiplicities=counts).rows[0]
    pairs = [(mpmath.mpf(v), c) for v, c in zip(values, counts, strict=True) if v > 0]
    rank = sum(c for _, c in pairs)
    if penalty == 0 and n >= rank:
        assert row.kappa == 0 and row.effective_dimension == rank
        assert row.overfitting == (np.inf if n == rank else n / (n - rank))
        return
    with mpmath.workdps(80):

        def left(kappa):
            return sum(c * v / (v + kappa) for v, c in pairs) + penalty / kappa - n

        kappa, bar = mpmath.mpf(row.kappa), 100 * EPS
        assert left(kappa * (1 - bar)) > 0 > left(kappa * (1 + bar))
    assert abs(row.effective_dimension - (n - penalty / row.kappa)) <= 100 * n * EPS
    assert row.overfitting >= 1 - 100 * EPS
    assert 0 <= row.train_error <= row.test_error * (1 + 100 * EPS) and row.test_error >= 0.1


def test_a_pool_of_low_rank_at_interpolation():
    """Of a rank-deficient pool at interpolation, rounding errors of coefficients are no signal."""
    x = np.random.default_rng(0).standard_normal((50, 5))
    assert (learning.pool_curve(x @ x.T, x[:, 0], (5, 9)).column("test_error") == 0).all()


@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize(("rank", "penalty"), [(40, 0.0), (40, 0.5), (12, 0.0), (12, 0.5)])
def test_errors_of_pools_are_the_overfitting_times_what_is_not_learned(rank, penalty, noise, rng):
    """As in a spectrum's curve: E = E_0 Σ (1 − ℓ)² v², ℓ = Λ/(Λ + Nκ), and Σ ℓ modes are learned.

    Noise of the labels adds σ²/N to each v².
    """
    features, y = rng.standard_normal((40, rank)), rng.standard_normal(40)
    values, vectors = np.linalg.eigh(features @ features.T)
    values = np.where(np.arange(40) < 40 - rank, 0.0, values)
    squares = (vectors.T @ y) ** 2 / 40 + noise / 40
    for row in learning.pool_curve(features @ features.T, y, (5, 30), penalty, noise=noise):
        left = np.where(values > 0, 40 * row.kappa / (values + 40 * row.kappa + (values == 0)), 1.0)
        expected = row.overfitting * (left**2 @ squares)
        assert abs(row.test_error / expected - 1) <= tolerances.ROUTES * 40
        assert abs(row.effective_dimension - (1 - left).sum()) <= tolerances.ROUTES * 40


def test_curves_of_a_pool_are_means_over_targets():
    """A target that is given twice has its own curve; beside 0 it has half of the errors."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((20, 30)), rng.standard_normal(20)
    one, twice, half = (
        learning.pool_curve(x @ x.T, targets, (5, 15), 0.5).column("test_error")
        for targets in (y, np.stack([y, y], axis=1), np.stack([y, 0 * y], axis=1))
    )
    assert np.abs(twice / one - 1).max() <= tolerances.ROUTES
    assert np.abs(2 * half / one - 1).max() <= tolerances.ROUTES


@pytest.mark.parametrize(
    ("value", "part", "count", "noise"),
    [(1e308, 1, 1e10, 0), (1, 1e200, 1, 0), (1, 1, 1e308, 0), (1, 1, 5, 1.7e308)],
)
def test_numbers_beyond_float64_are_refused(value, part, count, noise):
    """Also sums of multiplicities, and noise times its factor, which is infinite at n = rank."""
    options = {"multiplicities": [count, count], "noise": noise}
    with pytest.raises(OverflowError, match="float64"):
        learning.curve([value, value], [part, part], (4,), **options)
    exact = learning.curve([1.0, 0.1], [1.0, 1.0], (2,), noise=noise + 1)
    assert exact.rows[0].test_error == np.inf


def test_as_many_signals_as_modes_fit_noise_exactly():
    """The test error has no bound, and nothing is left at the training signals."""
    (row,) = learning.curve([1.0, 0.5], [1.0, 1.0], (2,), noise=1.0)
    assert row.test_error == np.inf and row.train_error == 0


D = 4
PLACES = [(2, 0, 0, 0), (1, 1, 0, 0), (1, 0, 1, 0)]


def eigenfunction(X, frequencies, head):
    """Return values of an eigenfunction of mean square 1; GAP has a sum over shifts."""
    angles = np.arctan2(X[:, 1], X[:, 0])
    shifted = [np.roll(angles, s, axis=1) for s in range(D if head == "gap" else 1)]
    norm = np.sqrt(2.0 ** np.count_nonzero(frequencies) / len(shifted))
    return norm * sum(np.cos(each * frequencies + np.arange(D)).prod(axis=1) for each in shifted)


@pytest.mark.slow
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("kind", KINDS)
def test_sampled_regressions(head, kind):
    """Interpolation of an eigenfunction at the predicted number of signals finds half of it."""
    rng, found = np.random.default_rng(0), []
    for network in (literature.barzilai_cnn(3), literature.barzilai_resnet(3)):
        kernel = rk.Kernel(network, kind, head)
        for row in learning.sample_complexity(
            network, 2, D, 8, kind=kind, head=head, frequencies=PLACES
        ):
            n, k = round(row.n), np.array(row.frequencies)
            scale = np.cos(np.arange(D) * (k == 0)).prod()  # of the phase of frequency 0
            for _ in range(8 if head == "gap" else 4):
                X, Z = multisphere.sample(n, 2, D, rng), multisphere.sample(500, 2, D, rng)
                y, target = (eigenfunction(each, k, head) / scale for each in (X, Z))
                guess = kernel(Z, X) @ np.linalg.solve(kernel(X), y)
                found.append(guess @ target / (target @ target))
    error = 0.025
    assert np.std(found) / np.sqrt(len(found)) < error
    assert abs(np.mean(found) - 0.5) <= 2 * error


@pytest.mark.parametrize("channels", [2, 3])
def test_bounds_hold_what_more_frequencies_give(channels):
    """Beyond the receptive field, of three pixels at depth 1, numbers of signals are infinite."""
    network = literature.barzilai_resnet(2, 3)
    few, more = (
        learning.sample_complexity(
            network, channels, 3, k, kind="ntk", head="equivariant", frequencies=[(2, 1, 0)]
        )
        for k in (4, 14)
    )
    (low,), (high,) = few, more
    assert low.lower <= high.lower <= high.n <= high.upper <= low.upper
    assert more.tail < few.tail < 0.3
    # The quadrature of tangent kernels of two channels errs by some 1e-3 of an eigenvalue.
    assert abs(low.eigenvalue / high.eigenvalue - 1) <= tolerances.SPECTRUM
    beyond = learning.sample_complexity(
        literature.barzilai_cnn(1), channels, 7, 1, kind="gpk", head="equivariant"
    )
    assert [np.isinf(row.n) for row in beyond] == [False, False, *5 * [True]]


def test_bounds_of_gap_hold_what_more_frequencies_give():
    """Some of a tail's eigenfunctions have shifts of their own, and some are their own shifts."""
    options = {"kind": "ntk", "head": "gap", "frequencies": [(1, 0)]}
    few, more = (learning.sample_complexity(rk.Network(2), 2, 2, top, **options) for top in (3, 14))
    assert few.rows[0].lower <= more.rows[0].lower <= more.rows[0].upper <= few.rows[0].upper


def test_bounds_take_the_last_two_frequencies_where_one_has_no_eigenvalue():
    """One layer has no odd frequency above 1, and higher even ones that an odd last one hides."""
    options = {"kind": "gpk", "head": "equivariant", "frequencies": [(2,)]}
    few, more = (learning.sample_complexity(rk.Network(1), 2, 1, top, **options) for top in (5, 41))
    assert few.rows[0].lower <= more.rows[0].lower <= more.rows[0].upper <= few.rows[0].upper


def test_bounds_of_one_frequency_differ_by_its_share_of_the_tail():
    """With κ = λ_1 the tail adds tail/κ at most, and at least tail/(κ + λ_1) = tail/(2κ)."""
    options = {"kind": "ntk", "head": "equivariant", "frequencies": [(1,)]}
    found = learning.sample_complexity(rk.Network(2), 3, 1, 1, **options)
    (row,) = found
    difference = found.tail / (2 * row.eigenvalue)
    assert abs(row.upper - row.lower - difference) <= tolerances.ROUTES * row.upper


@pytest.mark.parametrize("head", HEADS)
def test_frequencies_by_default_are_of_pixel_0_and_of_pairs(head):
    """Pixels 1 and 2 of a ring of 4 stand for all others, which are their mirror images."""
    found = learning.sample_complexity(rk.Network(2), 2, 4, 2, kind="gpk", head=head)
    alone = [(0, 1, 0, 0), (0, 0, 1, 0)] if head == "equivariant" else []
    expected = [(1, 0, 0, 0), (2, 0, 0, 0), *alone, (1, 1, 0, 0), (1, 0, 1, 0)]
    assert [row.frequencies for row in found] == expected


def test_the_last_frequency_and_0_may_be_asked_for():
    options = {"kind": "gpk", "head": "trace", "frequencies": [(0, 2)]}
    (row,) = learning.sample_complexity(rk.Network(2), 2, 2, 2, **options)
    assert row.eigenvalue > 0 and np.isfinite(row.n)


def test_curve_of_the_spectrum():
    """`learning.curve` with n signals has κ at the eigenvalue, for any fraction and penalty."""
    network, penalty, space = literature.barzilai_cnn(2), 0.2, (3, 3, 6)
    of_kernel = {"kind": "gpk", "head": "equivariant"}
    found = spectrum.eigenvalues(network, *space, **of_kernel, normalized=True)
    values, counts = found.estimates.ravel(), found.counts.ravel()
    rest = 1 - values @ counts
    options = {"frequencies": [(1, 1, 0)], "fraction": 0.25, "penalty": penalty}
    found = learning.sample_complexity(network, *space, **of_kernel, **options)
    (row,) = found
    assert abs(found.tail - rest) <= 10 * EPS * len(values)
    n = np.ceil(row.n)  # the same for a whole number of signals, with a penalty a little larger
    kappa = 3 * row.eigenvalue
    larger = penalty + rest + (n - row.upper) * kappa
    known = learning.curve(values, np.ones(len(values)), [int(n)], larger, multiplicities=counts)
    end_of_search = 1e-10  # κ is found by a search for a root
    assert abs(known.rows[0].kappa / kappa - 1) <= end_of_search


ON_CIRCLES = (rk.Network(2, alpha=0.7), rk.Network(3, skip=False, trained=("readout",)))

# All pairs of 24 equally spaced angles as signals of two pixels: exact quadrature.
TURNS = 2 * np.pi * np.stack(np.divmod(np.arange(24**2), 24), axis=1) / 24
GRID = np.sqrt(2) * np.stack([np.cos(TURNS), np.sin(TURNS)], axis=1)


@pytest.mark.parametrize("network", ON_CIRCLES, ids=repr)
def test_eigenfunctions_are_learned_as_their_times_say(network):
    y, K = np.cos(TURNS[:, 0]) * np.cos(2 * TURNS[:, 1]), rk.Kernel(network, "ntk", "trace")(GRID)
    slow = spectrum.eigenvalues(network, 2, 2, 2, kind="ntk", head="trace").eigenvalues[1, 2]
    times = np.array([0.0, 0.1, 0.7, 3.0]) / slow
    rows = learned_by_frequency(network, 2, 2, 2, times, kind="ntk", head="trace")
    (row,) = (r for r in rows if r.frequencies == (1, 2))
    # `learned_by_frequency` has the mean over signals, a data set's flow the sum.
    learned = learned_fractions(K, y, times / len(K)).learned
    # 24 angles see frequencies from 22 on as lower ones: eigenvalues change by a percent at most,
    # and fractions by 1/e of it.
    aliased = 5e-3
    assert np.abs(np.array(row.learned) - learned).max() <= aliased


def test_tables_of_clocks_name_times_and_pixels(tmp_path):
    """An iterator of frequencies is read once; files have a column for each number."""
    options = {"kind": "ntk", "head": "trace"}
    table = learned_by_frequency(rk.Network(1), 2, 2, iter((1, 2)), [0.5, 2.0], **options)
    table.write_csv(tmp_path / "times.csv")
    header, *lines = (tmp_path / "times.csv").read_text().splitlines()
    names = "frequencies_0,frequencies_1,eigenvalue,multiplicity,learned_at_0.5,learned_at_2.0"
    assert header == names and len(lines) == len(table) == 6
    same = learned_by_frequency(rk.Network(1), 2, 2, (1, 2), [0.5, 2.0], **options)
    for line, row in zip(lines, same, strict=True):
        assert [float(cell) for cell in line.split(",")] == [*row[0], *row[1:3], *row[3]]
    sets = spectrum.decay_exponents(rk.Network(2), 2, 3, 8, kind="gpk", pixels=[(0,), (0, 1)])
    sets.write_csv(tmp_path / "sets.csv")
    header, one, two = (tmp_path / "sets.csv").read_text().splitlines()
    assert header.startswith("pixels_0,pixels_1,exponent")
    assert re.match(r"0,,\d", one) and re.match(r"0,1,\d", two)


def test_flows_of_data(rng):
    """f' = −K(f − y) by the matrix exponential, two targets, and a kernel of lower rank."""
    features, y = rng.standard_normal((8, 5)), rng.standard_normal((8, 2))
    K, times = features @ features.T, [0.0, 0.3, 2.0, np.inf]
    found = learned_fractions(K, y, times)
    squared = 1e-12  # `expm` squares a matrix up to 15 times; norms of K are some tens
    assert (np.diff(found.eigenvalues) <= 0).all() and (found.eigenvalues[5:] == 0).all()
    assert abs(found.power.sum() - 1) <= tolerances.ROUTES
    for t, total, error in zip(times, found.learned, found.error, strict=True):
        f = y - expm(-K * min(t, 1e3)) @ y
        if t < np.inf:  # the same unit of time
            assert np.abs(K @ flow(K, y, t) - f).max() <= 10 * squared
        assert abs(total - (f * y).sum() / (y**2).sum()) <= squared
        assert abs(error - ((f - y) ** 2).sum() / (y**2).sum()) <= squared
    table = learned_by_frequency(rk.Network(1, 1), 3, 2, 1, np.inf, kind="ntk", head="equivariant")
    rows = {row.frequencies: row for row in table}
    assert rows[0, 1].learned == (0.0,) and rows[1, 0].learned == (1.0,)  # of single pixels


def test_tables_of_clocks_show_times_to_four_digits():
    options = {"kind": "gpk", "head": "trace"}
    table = learned_by_frequency(rk.Network(1), 2, 1, 1, [1 / 3, 12345.0], **options)
    assert str(table).splitlines()[0].endswith("t = 0.3333  t = 1.234e+04")


def test_targets_of_any_size_are_learned_alike(rng):
    """Also where their squares leave float64."""
    features, y = rng.standard_normal((6, 6)), rng.standard_normal(6)
    plain, *others = (
        learned_fractions(features @ features.T, scale * y, [0.3]) for scale in (1, 1e200, 1e-200)
    )
    for other in others:
        assert abs(other.learned - plain.learned).max() <= tolerances.ROUTES


def test_the_first_moments_of_a_flow_have_all_their_digits(rng):
    """At a time t they are t yᵀKy/‖y‖², less a share of t ‖K‖."""
    features, y = rng.standard_normal((6, 6)), rng.standard_normal(6)
    K, t = features @ features.T, 1e-18
    (learned,) = learned_fractions(K, y, [t]).learned
    assert abs(learned / (t * (y @ K @ y) / (y @ y)) - 1) <= tolerances.ROUTES


def test_equal_eigenvalues_are_in_the_order_of_their_frequencies():
    """One layer of one convolution sees one pixel of five, and most eigenvalues are 0."""
    rows = learned_by_frequency(
        literature.geifman_cnn(1), 2, 5, 1, [1.0], kind="gpk", head="equivariant"
    )
    unseen = [row.frequencies for row in rows if row.eigenvalue == 0]
    assert len(unseen) == 2**5 - 2 and unseen == sorted(unseen)


@pytest.mark.parametrize("top", [3, 4, 5, 6])
def test_an_eigenvalue_of_0_is_never_learned(top):
    """A network of one layer has no odd frequency above 1: rounding errors are no eigenvalue."""
    (row,) = learning.sample_complexity(
        rk.Network(1), 2, 3, top, kind="gpk", head="equivariant", frequencies=[(3, 0, 0)]
    )
    assert row == ((3, 0, 0), 0.0, np.inf, np.inf, np.inf)
    table = learned_by_frequency(rk.Network(1), 2, 1, top, np.inf, kind="ntk", head="equivariant")
    shares = {row.frequencies: row.learned for row in table}
    assert shares[2,] == (1.0,) and shares[3,] == (0.0,)


@pytest.mark.parametrize(
    ("network", "channels", "kind", "expected"),
    [
        (rk.Network(2, 1), 2, "gpk", 3.0),  # windows of one pixel
        (rk.Network(2, 1), 2, "ntk", 1.0),
        (rk.Network(2, 1), 4, "ntk", 1 / 3),
        (literature.geifman_cnn(2, 3), 2, "gpk", 1.0),  # of three
        (literature.geifman_cnn(2, 3), 2, "ntk", 1 / 3),
        (literature.geifman_cnn(2, 3).replace(trained=("readout",)), 2, "ntk", 1.0),  # a GPK
    ],
)
def test_exponents_are_slopes_of_curves(network, channels, kind, expected):
    """Of targets from the kernel's own process: v² = λ. Frequencies left out are noise."""
    d = max(network.filter_size, 1)
    assert learning.error_exponent(network, channels, d, kind=kind) == expected
    top = 30 if d == 3 else 60 if channels == 4 else 1200
    sizes = (50, 200) if top == 1200 else (1000, 4000)
    found = spectrum.eigenvalues(
        network, channels, d, top, kind=kind, head="equivariant", normalized=True
    )
    values, counts = found.estimates.ravel(), found.counts.ravel()
    options = {"penalty": found.tail, "noise": found.tail, "multiplicities": counts}
    low, high = learning.curve(values, np.sqrt(counts * values), sizes, **options)
    slope = np.log(low.test_error / high.test_error) / np.log(4)
    assert abs(slope - expected) <= tolerances.CURVE_SLOPE["curve"]


@pytest.mark.parametrize("kind", KINDS)
def test_exponents_are_slopes_of_regressions(kind):
    """The mean error at a new signal is the posterior variance of the kernel's own process."""
    network, rng = literature.geifman_cnn(2, 3), np.random.default_rng(0)
    X, Z = multisphere.sample(1024, 2, 3, rng), multisphere.sample(300, 2, 3, rng)
    kernel = rk.Kernel(network, kind, "equivariant", normalized=True)
    left = 1 - np.cumsum(np.linalg.solve(np.linalg.cholesky(kernel(X)), kernel(X, Z)) ** 2, axis=0)
    slope = np.log(left[255].mean() / left[1023].mean()) / np.log(4)
    bar = tolerances.CURVE_SLOPE["regression"]
    assert abs(slope - learning.error_exponent(network, 2, 3, kind=kind)) <= bar
