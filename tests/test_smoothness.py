"""Smoothness on the circle: bounds, known transforms, and the orderings the papers claim."""

import mpmath
import numpy as np
import pytest
import scipy.special

import rescntk as rk
from rescntk import literature
from rescntk.theory import smoothness

from . import tolerances

mp = mpmath.mp.clone()
mp.dps = 50
EPS = tolerances.EPS["float64"]
FOURIER = tolerances.FOURIER


def kernel(network, kind="ntk"):
    return rk.Kernel(network, kind, "trace")


# ---------------------------------------------------------------- Jacobian bounds


@pytest.mark.parametrize(("activation", "c_phi"), [("relu", 1.0), ("erf", 2 / np.sqrt(np.pi))])
def test_bounds_are_those_of_the_paper(rng, activation, c_phi):
    for depth in (1, 2, 7):
        alpha, sigma_v, sigma_w = rng.uniform(0.05, 2, 3)
        n, d = (int(v) for v in rng.integers(1, 500, 2))
        resnet = literature.tirer_resnet(depth, alpha, sigma_v, sigma_w)
        mlp = literature.tirer_mlp(depth, sigma_w)
        resnet, mlp = (net.replace(activation=activation) for net in (resnet, mlp))
        b_resnet = (
            2 * sigma_w * (1 + 2 * np.sqrt(n / d))
            * (1 + 9 * alpha * c_phi * sigma_v * sigma_w) ** depth
        )  # fmt: skip
        b_mlp = (
            2 * c_phi * sigma_w**2 * (1 + 2 * np.sqrt(n / d)) * (3 * c_phi * sigma_w) ** (depth - 1)
        )
        found = [smoothness.jacobian_bound(net, n, d) for net in (resnet, mlp)]
        assert abs(found[0] / b_resnet - 1) <= 100 * EPS
        assert abs(found[1] / b_mlp - 1) <= 100 * EPS
        ratio = smoothness.jacobian_bound_ratio(resnet)
        assert abs(ratio * b_mlp / b_resnet - 1) <= 100 * EPS


@pytest.mark.parametrize("activation", ["relu", "erf"])
def test_bounds_hold_for_sampled_networks(rng, activation):
    """‖∂f/∂x‖ at initialization, width 100: far below, as 3√n is a generous norm of W."""
    n, d, L, alpha, sigma_v, sigma_w = 100, 3, 4, 0.5, 1.2, 0.9
    resnet = literature.tirer_resnet(L, alpha, sigma_v, sigma_w).replace(activation=activation)
    mlp = literature.tirer_mlp(L, sigma_w).replace(activation=activation)

    def slope(g):
        return g > 0 if activation == "relu" else 2 / np.sqrt(np.pi) * np.exp(-(g**2))

    def phi(g):
        return np.maximum(g, 0) if activation == "relu" else scipy.special.erf(g)

    for _ in range(3):
        x = rng.standard_normal(d)
        f, J = x, np.eye(d)
        for layer in range(L):
            W = sigma_w / np.sqrt(n if layer else d) * rng.standard_normal((n, len(f)))
            g, J = W @ f, W @ J
            f, J = phi(g), slope(g)[:, None] * J
        J = sigma_w / np.sqrt(n) * rng.standard_normal(n) @ J
        assert 0 < np.linalg.norm(J) <= smoothness.jacobian_bound(mlp, n, d)
        U = rng.standard_normal((n, d)) / np.sqrt(d)
        f, J = U @ x, U
        for _ in range(L):
            W = sigma_w / np.sqrt(n) * rng.standard_normal((n, n))
            V = alpha * sigma_v / np.sqrt(n) * rng.standard_normal((n, n))
            g = W @ f
            f, J = f + V @ phi(g), J + V @ (slope(g)[:, None] * (W @ J))
        J = sigma_w / np.sqrt(n) * rng.standard_normal(n) @ J
        assert 0 < np.linalg.norm(J) <= smoothness.jacobian_bound(resnet, n, d)


def test_threshold_is_where_the_bounds_meet():
    for depth in (2, 3, 15, 1000):
        at = smoothness.alpha_threshold(depth)
        assert abs(at - (3 ** (1 - 1 / depth) - 1) / 9) <= 8 * EPS
        ratio = smoothness.jacobian_bound_ratio(literature.tirer_resnet(depth, at))
        assert abs(ratio - 1) <= 10 * depth * EPS
        for alpha, below in ((0.99 * at, True), (1.01 * at, False)):
            ratio = smoothness.jacobian_bound_ratio(literature.tirer_resnet(depth, alpha))
            assert (ratio < 1) == below
    assert smoothness.alpha_threshold(1) == 0
    # The paper: α = 0.1 implies B_ResNet ≤ B_MLP for any L ≥ 3; it does from there on only.
    assert smoothness.alpha_threshold(2) < 0.1 < smoothness.alpha_threshold(3)
    thresholds = [smoothness.alpha_threshold(depth) for depth in range(1, 100)]
    assert (np.diff(thresholds) > 0).all() and thresholds[-1] < 2 / 9


def test_bounds_beyond_float64():
    assert smoothness.jacobian_bound(literature.tirer_resnet(10**6, 1.0), 10, 2) == np.inf
    assert smoothness.jacobian_bound_ratio(literature.tirer_resnet(10**6, 1.0)) == np.inf
    assert smoothness.jacobian_bound_ratio(literature.tirer_resnet(10**6, 0.1)) == 0


@pytest.mark.parametrize(
    "network",
    [
        rk.Network(3),
        literature.barzilai_resnet(3, 1),
        literature.huang_resnet(3),
        literature.huang_ffnet(3),
        literature.geifman_cnn(3, 1),
        literature.tirer_mlp(3).replace(c_v=2.0),
        literature.tirer_mlp(3).replace(readout_scale=2.0),
        literature.tirer_mlp(3).replace(input_scale=1.0),
        literature.tirer_mlp(3).replace(input_filter_size=3),
        literature.tirer_resnet(3, 0.1).replace(trained=("inner", "outer", "readout")),
        literature.tirer_resnet(3, 0.1).replace(filter_size=3),
        "mlp",
    ],
    ids=str,
)
def test_other_networks_are_refused(network):
    with pytest.raises(ValueError, match="network is "):
        smoothness.jacobian_bound(network, 10, 2)


def test_refusals_of_bounds():
    mlp = literature.tirer_mlp(3)
    with pytest.raises(ValueError, match="tirer_resnet"):
        smoothness.jacobian_bound_ratio(mlp)
    with pytest.raises(ValueError, match="width is 0"):
        smoothness.jacobian_bound(mlp, 0, 2)
    with pytest.raises(ValueError, match="n_inputs is 1.5"):
        smoothness.jacobian_bound(mlp, 10, 1.5)


# ---------------------------------------------------------------- curvature


@pytest.mark.parametrize("n", [8, 9, 64, 4096])
def test_curvature_of_waves(n):
    """f'' of a trigonometric polynomial is known."""
    angles = smoothness.grid(n)
    for m in (1, 3):
        value = smoothness.curvature(2.5 * np.sin(m * angles + 0.3))
        assert abs(value - m**2) <= FOURIER * n**2  # noise of frequency N/2 is weighted by N²/4
    f = 1 + 2 * np.cos(angles) - 0.5 * np.sin(3 * angles)
    second = -2 * np.cos(angles) + 4.5 * np.sin(3 * angles)
    expected = np.sqrt((second**2).mean() / (f**2).mean())
    assert abs(smoothness.curvature(f) - expected) <= FOURIER * n**2
    both = smoothness.curvature(np.stack([f, np.roll(f, 3)]))
    assert both.shape == (2,) and abs(both[0] - both[1]) <= FOURIER * n**2


def test_curvature_is_the_formula_of_the_slides(rng):
    for n in (16, 17):
        f = rng.standard_normal(n)
        k = np.fft.fftfreq(n, 1 / n)
        F = np.fft.fft(f / np.sqrt((f**2).mean()))
        expected = np.sqrt((np.abs(k) ** 4 * np.abs(F) ** 2).sum() / n**2)
        assert abs(smoothness.curvature(f) / expected - 1) <= FOURIER


def test_magnitudes_and_decay():
    angles = smoothness.grid()
    spectrum = smoothness.magnitudes(3 * np.cos(5 * angles))
    assert abs(spectrum[5] - 1.5) <= FOURIER
    assert np.delete(spectrum, 5).max() <= FOURIER
    # |β| has 2/(π k²) at odd k, and aliases of relative size (k/N)²·π²/3.
    exact = smoothness.magnitudes(np.abs(angles))[1:40:2]
    k = np.arange(1, 40, 2)
    assert np.abs(exact * np.pi * k**2 / 2 - 1).max() <= 4 * (40 / 4096) ** 2
    assert abs(smoothness.decay(np.abs(angles), 1, 99) - 2) <= 1e-3
    assert abs(smoothness.decay(np.abs(angles) ** 3 - 1.5 * np.pi * angles**2, 2, 98) - 4) <= 2e-3


# ---------------------------------------------------------------- the Gaussian's space


def test_gaussian_on_the_circle():
    """exp(−½‖x−z‖²) = e^(cos Δ − 1), with coefficients e⁻¹ I_k(1)."""
    wave = smoothness.shape(smoothness.gaussian_kernel)
    assert np.abs(wave - np.exp(np.cos(smoothness.grid()) - 1)).max() <= 4 * EPS
    exact = np.array([float(mp.besseli(k, 1) / mp.e) for k in range(smoothness._LAST + 1)])
    found = smoothness._gaussian_coefficients(smoothness._LAST)
    assert np.abs(found / exact - 1).max() <= 1e-12
    spectrum = smoothness.magnitudes(wave)
    assert np.abs(spectrum[:60] - exact[:60]).max() <= FOURIER * exact[0]


def test_the_cutoff_is_where_an_fft_loses_the_gaussian():
    relative = [mp.besseli(k, 1) / mp.besseli(0, 1) for k in range(40)]
    assert max(k for k in range(40) if relative[k] >= EPS) == smoothness.CUTOFF
    assert max(k for k in range(40) if relative[k] >= EPS**2) == 24
    spectrum = smoothness.magnitudes(smoothness.shape(smoothness.gaussian_kernel))
    exact = np.array([float(r) for r in relative]) * float(mp.besseli(0, 1) / mp.e)
    assert np.abs(spectrum[:40] - exact).max() <= EPS * exact[0]  # good to 0.4 of itself at 14,
    assert (np.abs(spectrum[:40] - exact)[17:] >= 0.99 * exact[17:]).all()  # all wrong from 17 on


@pytest.mark.parametrize("count", [1, 5])
def test_norm_of_known_transforms(rng, count):
    """Σ c_i K(·, x_i) has norm² cᵀKc; no cut-off from 14 to 22 changes it."""
    angles, c = rng.uniform(-np.pi, np.pi, count), rng.uniform(0.5, 1, count)
    points = smoothness.circle(angles)
    f = smoothness.gaussian_kernel(smoothness.circle(smoothness.grid(256)), points) @ c
    expected = np.sqrt(c @ smoothness.gaussian_kernel(points) @ c)
    norms = smoothness.gaussian_rkhs_norm(f, np.arange(14, 23))
    # The samples' errors, eps each, squared and weighted by the Gaussian's reciprocal.
    noise = (EPS * c.sum()) ** 2 / smoothness._gaussian_coefficients(22)[14:] / expected**2
    assert (np.abs(norms / expected - 1) <= FOURIER + noise).all()
    assert noise[-1] < 2e-3
    assert smoothness.gaussian_rkhs_norm(f) == norms[0]
    assert (np.diff(smoothness.gaussian_rkhs_norm(f, np.arange(20))) >= 0).all()


def test_norm_of_waves():
    """cos mβ has norm² 1/(2 e⁻¹ I_m(1)): from m on the cut-off does not matter."""
    for m in (1, 4, 9):
        expected = float(mp.sqrt(mp.e / (2 * mp.besseli(m, 1))))
        wave = np.cos(m * smoothness.grid(64) + 0.2)
        norms = smoothness.gaussian_rkhs_norm(np.stack([wave, 2 * wave]), np.arange(m, 15))
        assert np.abs(norms[0] / expected - 1).max() <= FOURIER * 10
        assert np.abs(norms[1] / (2 * expected) - 1).max() <= FOURIER * 10
        assert smoothness.gaussian_rkhs_norm(wave, m - 1) < 1e-10 * expected


@pytest.mark.parametrize("count", [2, 6, 10, 15])
def test_norm_of_the_gaussian_interpolant(rng, count):
    """(yᵀ K⁻¹ y)^½ in 50 digits."""
    equal = 2 * np.pi * np.arange(count) / count
    for angles in (equal, rng.uniform(-np.pi, np.pi, count)):
        y = smoothness.target(angles)
        K = mp.matrix([[mp.exp(mp.cos(mp.mpf(a) - mp.mpf(b)) - 1) for b in angles] for a in angles])
        exact = mp.sqrt((mp.matrix(y).T * mp.lu_solve(K, mp.matrix(y)))[0])
        condition = float(mp.cond(K)) if count < 15 else 1e14
        found = smoothness.gaussian_interpolant_norm(angles, y)
        assert abs(found / float(exact) - 1) <= 10 * count * EPS * np.sqrt(condition)


def test_ratio_of_the_gaussian_itself_is_1_and_of_others_less(rng):
    """The Gaussian's interpolant has the least norm of all."""
    angles = smoothness.grid(7)
    for _ in range(20):
        k = np.arange(1, 11)[:, None]
        a, b = rng.standard_normal((2, 10)) / (1 + k[:, 0]) ** 4
        f = a @ np.cos(k * smoothness.grid(512)) + b @ np.sin(k * smoothness.grid(512))
        y = a @ np.cos(k * angles) + b @ np.sin(k * angles)
        ratio = smoothness.gaussian_rkhs_ratio(f, angles, y)
        assert 0 < ratio < 1
        own = smoothness.interpolation(smoothness.gaussian_kernel, angles, y, 512)
        assert abs(own.gaussian_rkhs_ratio - 1) <= 1e4 * EPS
        # Scaling, and turning the circle, change nothing.
        turned = smoothness.gaussian_rkhs_ratio(
            -3 * np.roll(f, 5), angles + 10 * np.pi / 512, -3 * y
        )
        assert abs(turned / ratio - 1) <= 1e4 * EPS


@pytest.mark.parametrize("kind", ["ntk", "gpk"])
def test_interpolations_pass_through_their_points(kind):
    angles = smoothness.grid(4096)[[5, 700, 1900, 3000]]
    y = np.array([1.0, -2.0, 0.5, 3.0])
    one = kernel(literature.tirer_resnet(5, 1.0), kind)
    found = smoothness.interpolation(one, angles, y)
    bar = tolerances.solution(4, np.linalg.cond(one(smoothness.circle(angles))))
    assert np.abs(found.values[[5, 700, 1900, 3000]] - y).max() <= bar * 3
    assert found.curvature == smoothness.curvature(found.values)
    assert found.gaussian_rkhs_ratio == smoothness.gaussian_rkhs_ratio(found.values, angles, y)
    own = smoothness.shape(one, 64)
    assert (own == one(smoothness.circle([0.0]), smoothness.circle(smoothness.grid(64)))[0]).all()
    assert np.argmax(own) == 32


def test_refusals():
    f = np.cos(smoothness.grid(64))
    for cutoff in (-1, 32, 1.5, [1, 40], "all"):
        with pytest.raises(ValueError, match="cutoff is .*expected integers from 0 to 31"):
            smoothness.gaussian_rkhs_norm(f, cutoff)
    with pytest.raises(ValueError, match="expected integers from 0 to 140"):
        smoothness.gaussian_rkhs_norm(np.ones(4096), 141)
    with pytest.raises(ValueError, match="values is zero everywhere"):
        smoothness.curvature(np.zeros(8))
    with pytest.raises(ValueError, match="values is zero up to the cut-off"):
        smoothness.gaussian_rkhs_ratio(np.zeros(64), [0.0], [1.0])
    with pytest.raises(ValueError, match=r"values has shape \(1,\)"):
        smoothness.curvature([1.0])
    with pytest.raises(ValueError, match="values of shape .* contains NaN"):
        smoothness.curvature([1.0, np.nan])
    with pytest.raises(ValueError, match=r"targets has shape \(2,\), expected \(1,\)"):
        smoothness.gaussian_interpolant_norm([0.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="too close for the Gaussian kernel"):
        smoothness.gaussian_interpolant_norm([0.0, 0.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="too close for the Gaussian kernel"):
        smoothness.gaussian_interpolant_norm(smoothness.grid(300), np.ones(300))
    with pytest.raises(ValueError, match="angles has dtype float64, shape"):
        smoothness.circle([[0.0]])
    with pytest.raises(ValueError, match="first < last"):
        smoothness.decay(f, 5, 5)
    with pytest.raises(ValueError, match="no spectrum above rounding"):
        smoothness.decay(f, 5, 9)


# ---------------------------------------------------------------- what the papers claim


ALPHAS = (1.0, 0.1, 0.01)


@pytest.fixture(scope="module")
def experiments():
    """Figures 2 and 4: 6 and 10 samples, L = 5 and 15; (ratios at cut-offs 4 … 40, curvature)."""
    cutoffs = np.arange(4, 41)
    found = {}
    for depth in (5, 15):
        networks = {"mlp": literature.tirer_mlp(depth)}
        networks |= {alpha: literature.tirer_resnet(depth, alpha) for alpha in ALPHAS}
        for kind in ("ntk", "gpk"):
            for count in (6, 10):
                angles = smoothness.grid(count)
                for name, network in networks.items():
                    found[kind, depth, count, name] = smoothness.interpolation(
                        kernel(network, kind), angles, smoothness.target(angles), cutoff=cutoffs
                    )
    return found


@pytest.mark.parametrize("kind", ["ntk", "gpk"])
@pytest.mark.parametrize("count", [6, 10])
@pytest.mark.parametrize("depth", [5, 15])
def test_smaller_alpha_is_smoother_whatever_the_cutoff(experiments, kind, depth, count):
    """MLP < α = 1 < α = 0.1: μ at every cut-off from 6 on, and for 6 samples from 4 on."""
    mlp, one, tenth = (experiments[kind, depth, count, name] for name in ("mlp", 1.0, 0.1))
    first = 2 if count == 10 else 0
    slack = 1e-9  # cut-offs below the first frequency in which two interpolants differ
    for smoother, rougher in ((one, mlp), (tenth, one)):
        a, b = smoother.gaussian_rkhs_ratio[first:], rougher.gaussian_rkhs_ratio[first:]
        assert (a > b * (1 - slack)).all()
        assert (a[8:] > 1.05 * b[8:]).all()
        assert smoother.curvature < rougher.curvature


@pytest.mark.parametrize("kind", ["ntk", "gpk"])
@pytest.mark.parametrize("count", [6, 10])
def test_depth_roughens_the_mlp_most_and_small_alpha_hardly(experiments, kind, count):
    """From L = 5 to 15, by both measures; at α = 0.1 interpolants even become smoother."""

    def growth(name):
        shallow, deep = (experiments[kind, depth, count, name] for depth in (5, 15))
        at = smoothness.CUTOFF - 4
        return (
            deep.curvature / shallow.curvature,
            shallow.gaussian_rkhs_ratio[at] / deep.gaussian_rkhs_ratio[at],
        )

    for mlp, one, tenth in zip(growth("mlp"), growth(1.0), growth(0.1), strict=True):
        assert mlp > one > 1.01
        assert 0.8 < tenth < 1.05


@pytest.mark.parametrize("kind", ["ntk", "gpk"])
@pytest.mark.parametrize("count", [6, 10])
@pytest.mark.parametrize("depth", [5, 15])
def test_an_extremely_small_alpha_is_no_better(experiments, kind, depth, count):
    """α = 0.01 has a smaller μ than 0.1 at cut-offs from 6 to 18; its curvature is alike."""
    tenth, hundredth = (experiments[kind, depth, count, alpha] for alpha in (0.1, 0.01))
    ratios = tenth.gaussian_rkhs_ratio / hundredth.gaussian_rkhs_ratio
    assert (ratios[2:15] > 1 - 1e-9).all()
    assert 1.1 < ratios[smoothness.CUTOFF - 4] < 1.6
    assert abs(hundredth.curvature / tenth.curvature - 1) < 0.2


def test_that_order_hangs_on_the_cutoff(experiments):
    """Beyond, where α = 0.01 has next to no odd frequencies, it may win: by 5 at cut-off 21."""
    tenth, hundredth = (experiments["ntk", 15, 10, alpha] for alpha in (0.1, 0.01))
    ratio = tenth.gaussian_rkhs_ratio / hundredth.gaussian_rkhs_ratio
    assert ratio[21 - 4] < 0.25


def test_random_samples(rng):
    """Figure 6, 20 times: by curvature a ResNet is always smoother than the MLP; by μ, α = 0.1
    against α = 1 is undecided.
    """
    networks = [literature.tirer_mlp(7), *(literature.tirer_resnet(7, a) for a in (1.0, 0.1))]
    won = []
    for _ in range(20):
        angles = rng.uniform(-np.pi, np.pi, 15)
        mlp, one, tenth = (
            smoothness.interpolation(kernel(network), angles, smoothness.target(angles), 512)
            for network in networks
        )
        assert max(one.curvature, tenth.curvature) < mlp.curvature
        won.append(tenth.gaussian_rkhs_ratio > one.gaussian_rkhs_ratio)
    assert 0.25 < np.mean(won) < 0.9


def test_no_cutoff_gives_a_norm_to_a_network(experiments):
    """The honest half: ‖f‖ up to the cut-off grows without bound, so that μ is about the cut-off.

    From frequency 14 to 40 the Gaussian loses a factor 1e39; interpolants lose a few powers.
    """
    for (kind, *_), found in experiments.items():
        ratio = found.gaussian_rkhs_ratio
        assert ratio[-1] < 1e-15 * ratio[10]
        assert kind in ("ntk", "gpk")


def test_gpk_and_ntk_differ_in_smoothness(experiments):
    """The slides' open question: two orders of smoothness, so no constant could tell.

    Kernels fall like k^−2 (NTK: kinks) and k^−4 (GPK); the second derivative of the first has no
    norm, and its curvature doubles when the samples are four times as many.
    """
    for network in (literature.tirer_mlp(5), literature.tirer_resnet(5, 1.0)):
        for kind, exponent in (("ntk", 2), ("gpk", 4)):
            shape = smoothness.shape(kernel(network, kind))
            assert abs(smoothness.decay(shape, 32, 256) - exponent) <= 0.02
    angles = smoothness.grid(10)
    y = smoothness.target(angles)
    for network in (literature.tirer_mlp(5), literature.tirer_resnet(5, 0.1)):
        for kind, growth, bar in (("ntk", 2, 0.1), ("gpk", 1, 1e-3)):
            coarse, fine = (
                smoothness.interpolation(kernel(network, kind), angles, y, n).curvature
                for n in (1024, 4096)
            )
            assert abs(fine / coarse - growth) <= bar
    for depth in (5, 15):
        for count in (6, 10):
            for name in ("mlp", *ALPHAS):
                ntk, gpk = (experiments[kind, depth, count, name] for kind in ("ntk", "gpk"))
                assert gpk.curvature < ntk.curvature
                assert (gpk.gaussian_rkhs_ratio[6:] > ntk.gaussian_rkhs_ratio[6:]).all()


def test_erf():
    """Similar smoothness of all erf networks: so at depth 5, not at depth 15 with α = 1."""
    angles = smoothness.grid(9)  # an odd number: no two are opposite
    y = smoothness.target(angles)

    def curvatures(depth, activation):
        networks = [literature.tirer_mlp(depth)]
        networks += [literature.tirer_resnet(depth, alpha) for alpha in (1.0, 0.1)]
        return [
            smoothness.interpolation(kernel(n.replace(activation=activation)), angles, y).curvature
            for n in networks
        ]

    relu, erf = curvatures(5, "relu"), curvatures(5, "erf")
    assert max(erf) / min(erf) < 1.001
    assert max(relu) / min(relu) > 1.7
    mlp, one, tenth = curvatures(15, "erf")
    assert abs(mlp / tenth - 1) < 0.001
    assert one / mlp > 1.4


def test_erf_networks_are_odd_and_opposite_points_are_refused():
    angles = smoothness.grid(6)
    erf = kernel(literature.tirer_mlp(5).replace(activation="erf"))
    K = erf(smoothness.circle([0.3, 0.3 + np.pi]))
    assert abs(K[0, 1] + K[0, 0]) <= 100 * EPS * K[0, 0]
    with pytest.raises(ValueError, match="numerically singular: its smallest eigenvalue"):
        smoothness.interpolation(erf, angles, smoothness.target(angles))
