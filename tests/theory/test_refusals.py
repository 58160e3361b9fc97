"""Functions of theory refuse wrong arguments, and say why."""

import numpy as np
import pytest

import rescntk as rk
from rescntk import literature
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
from rescntk.theory.depth import Family, Prediction
from tests import families
from tests.families import powers

NET, ERF, BIASED = rk.Network(2), rk.Network(2, activation="erf"), rk.Network(2, bias=0.3)
CNN, RESNET = literature.geifman_cnn(2), literature.one_convolution_resnet(2)
MLP = literature.tirer_mlp(3)
WINDOW, UNTRAINED = CNN.replace(input_filter_size=3), rk.Network(2, trained=())
WAVE, TWICE = np.cos(smoothness.grid(64)), [0.0, 0.0]
X3, G = multisphere.sample(3, 3, 4, 0), np.random.default_rng(0).standard_normal((3, 2, 3))
T, A = np.zeros((2, 2)), np.array([[1.0, 0.5], [0.5, 1.0]])
GPK, NTK = ({"kind": kind, "head": "equivariant"} for kind in ("gpk", "ntk"))
DEEP = rk.Network(10**9)


def check(family=None, X=None, **options):
    options = {"kind": "ntk", "head": "trace", "depths": powers(8)} | options
    depth.check_convergence(families.resnet(1.0) if family is None else family, X, **options)


def complements(*networks, X=X3):
    multisphere.gram_complements(networks, X, kind="ntk", head="gap")


def curve(values=(1.0,), parts=(1.0,), sizes=(1,), penalty=0.0, **options):
    learning.curve(values, parts, sizes, penalty, **options)


def complexity(max_frequency=4, **options):
    learning.sample_complexity(NET, 2, 3, max_frequency, **GPK, **options)


def eigenvalues(n_channels=2, n_timepoints=3, max_frequency=4, **options):
    spectrum.eigenvalues(CNN, n_channels, n_timepoints, max_frequency, **GPK | options)


def exponents(network=CNN, d=3, top=9, **options):
    spectrum.decay_exponents(network, 2, d, top, kind="gpk", **options)


def fit_path_counts(network=CNN, d=3, top=4, n_channels=2, **options):
    paths.fit_path_counts(network, n_channels, d, top, kind="gpk", **options)


def field(network=NET, d=5):
    locality.effective_receptive_field(network, d, kind="ntk")


def clock(times, **options):
    learning.learned_by_frequency(NET, 2, 2, 2, times, **NTK, **options)


def constants(network, kind):
    spectrum.decay_constants(network, 2, 3, [0], kind=kind, head="equivariant")


def series(network, d, degree):
    spectrum.taylor_coefficients(network, d, degree, kind="gpk")


def compare(network=NET, X=G, depths=(1, 2)):
    conditioning.compare(network, X, depths, kind="gpk", head="trace")


def asymptote(n=5, network=NET, kind="gpk", **pixels):
    conditioning.asymptotic_condition_number(network, n, kind=kind, **pixels)


def separation(network=NET, X=X3, kind="gpk", **options):
    conditioning.separation_bound(network, X, kind=kind, head="gap", **options)


def classify(network, kind="ntk"):
    depth.limit_classifier(network, kind=kind)


FLAT = ERF.replace(skip=False, c_v=0.5)


def means(network=NET, X=X3):
    conditioning.mean_entries(network, X, (1, 2))


MULTISPHERE = [
    (lambda: complements(ERF), "this function is for activation 'relu'"),
    (lambda: complements(WINDOW), "input_filter_size 1"),
    (lambda: complements(NET, rk.Network(2, dilation=(1, 3))), "networks that differ in depth"),
    (lambda: complements(rk.Network(2, alpha=0, trained="inner")), "whose ntk is 0 for every sig"),
    (lambda: multisphere.project(0 * G), r"X of shape .* zero at all channels of case 0, time"),
    (
        lambda: multisphere.project(np.ones((1, 2, 3, 4))),
        "X has .* only signals, not images, are supported here",
    ),
    (lambda: multisphere.sample(2, 0, 3), "n_channels is 0"),
    (lambda: multisphere.sample(2, 3, 4, rng=-1), "rng is -1, expected a NumPy Generator, an"),
    (
        lambda: multisphere.sample(2, 3, 4, rng=np.matrix([[1]])),
        r"rng is matrix.*, expected a",
    ),  # NumPy crashes
    (lambda: multisphere.gram_complements(5, X3, **GPK), "networks is 5, expected a list of at"),
    (lambda: complements(DEEP), "networks has .* 1000000000, expected at most 100000000 layers"),
    (lambda: multisphere.dot_products(G + 1), "X of shape .* is not on the multi-sphere"),
    (lambda: multisphere.dot_products(X3, offset=1.5), "offset is 1.5"),
    (lambda: multisphere.normalized_gpk(NET, T + 2), "t has values from 2.0 to 2.0, expected"),
    (lambda: multisphere.normalized_gpk(NET, 0.5), r"t has shape \(\)"),
    (lambda: multisphere.normalized_gpk(DEEP, [0.5]), "depth is 1000000000, expected at most"),
]
CONDITIONING = [
    (lambda: conditioning.bounds(2 * A), "A has 2 on its diagonal, expected 1"),
    (lambda: conditioning.bounds(A + 1e-5 * np.eye(2)), "A has 1.00001 on its diagonal, expected"),
    (lambda: conditioning.bounds([[1.0, 1e300], [1e300, 1.0]]), r"A has 1e\+300, expected corr"),
    (lambda: conditioning.bounds([[1.0, 1e160], [1e160, 1.0]]), r"A has 1e\+160, expected corr"),
    (lambda: conditioning.bounds(A[:1, :1]), r"A has shape \(1, 1\), expected at least 2"),
    (lambda: asymptote(n_pixels=10**400), r"n_pixels is 10+\.\.\.0+,"),
    (lambda: asymptote(4, n_pixels=(2, 3, 4)), "n_pixels has 3 lengths, expected 1 or n = 4"),
    (
        lambda: asymptote(network=UNTRAINED, kind="ntk"),
        r"trained \(\), expected 'inner' or 'outer' for",
    ),
    (lambda: asymptote(network=ERF), "'erf', expected 'relu': the law is about ReLU"),
    (lambda: means(CNN), "network has no skip connections, expected a ResNet"),
    (lambda: means(X=G), "X of shape .* is not on the multi-sphere"),
    (lambda: means(X=X3[:1]), "X has 1 case, expected at least 2"),
    (lambda: means(WINDOW), "input_filter_size 3, expected 1"),
    (lambda: separation(ERF), "'erf', expected 'relu': the bound is about Taylor"),
    (lambda: separation(WINDOW), "input_filter_size 3, expected 1"),
    (lambda: separation(UNTRAINED, kind="ntk"), "ntk is 0 for every signal"),
    (lambda: separation(X=G), "X of shape .* is not on the multi-sphere"),
    (lambda: separation(max_degree=0), "max_degree is 0"),
    (lambda: separation(max_degree=10**9), "max_degree is 1000000000, expected at most 4096"),
    (lambda: compare(X=G[:1]), "X has 1 case, expected at least 2"),
    (lambda: compare(rk.Network(1, alpha=0.0)), "alpha 0.0, .* expected positive numbers"),
    (lambda: compare(CNN), "network has no skip connections, expected a ResNet"),
    (lambda: compare(rk.Network(2, dilation=(1, 2))), r"dilation \(1, 2\), expected one"),
    (lambda: compare(X=G * [[[1]], [[1]], [[0]]]), r"X has a signal .* 0 \(case 2\)"),
]
DEPTH = [
    (lambda: check(3), "family is 3, expected a function"),
    (lambda: check(lambda n: rk.Network(5)), "returns a network of depth 5, expected 8"),
    (lambda: check(lambda n: rk.Network(2, dilation=(1, 2))), "a network of depth 2, expected 8"),
    (lambda: check(lambda n: rk.Network(n, input_scale=0)), "expected a positive input_scale"),
    (lambda: check(depths=(1, 2, 4)), r"\(1, 2, 4\), expected at least 6, each at least 1.25"),
    (lambda: check(X=G * [[[1]], [[0]], [[1]]]), "a signal whose kernel with itself is 0"),
    (lambda: check(X=X3, prediction=Prediction(np.eye(4))), r"shape \(4, 4\), expected \(3, 3\)"),
    (lambda: check(X=X3, prediction=Prediction(np.triu(np.ones((3, 3))))), "not symmetric"),
    (lambda: check(prediction=0.25), "prediction is 0.25, expected a Prediction"),
    (lambda: Family(NET, -1), "gamma is -1, expected a finite number of at least 0"),
    (lambda: Family(CNN, 1.0), "no skip connections"),
    (lambda: Family(rk.Network(1, alpha=0)), "without a residual branch"),
    (lambda: Prediction(0.5, exponent=0), "exponent is 0, expected a positive number"),
    (lambda: Prediction(0.5, log_power=2), "log_power is 2"),
    (lambda: Prediction(2.0), "limit is 2.0, expected correlations from -1 to 1"),
    (lambda: depth.huang_resnet_constant([-1.0]), "rho has the value -1"),
    (lambda: depth.huang_resnet_limit([1.1]), "rho has values from 1.1 .*expected dot products"),
    (lambda: depth.huang_ffnet_distance([[1], [1, 2]]), "depth is not a rectangular array"),
    (lambda: classify(ERF), "'erf' and skip connections, expected no skip connections and kind"),
    (lambda: classify(ERF.replace(skip=False)), "'erf' and trained .*, expected .* kind 'gpk'"),
    (lambda: classify(FLAT, kind="gpk"), r"c_v \* c_w = 0.5, expected more than pi/4"),
    (lambda: classify(FLAT.replace(c_v=1e301), kind="gpk"), r"c_v \* c_w = 1e\+301, .*1e300"),
    (lambda: classify(UNTRAINED), r"trained \(\), expected some parts"),
    (lambda: classify(rk.Network(2, negative_slope=1.0)), "negative_slope 1.0, expected less"),
    (lambda: classify(rk.Network(2, alpha=0)), "without a residual branch"),
    (lambda: depth.mode_scales(ERF, 8), "activation 'erf', expected 'relu'"),
    (
        lambda: depth.mode_scales(rk.Network(2, dilation=(1, 2)), 8),
        r"dilation \(1, 2\), expected one",
    ),
    (lambda: depth.mode_scales(NET, 8, layer=0), "layer is 0, expected an integer of at least 1"),
    (lambda: check(engine=np.ones(2)), r"engine is array\(\[1., 1.\]\), expected"),
    (
        lambda: check(rk.Network, depths=[2, 4, 8, 16, 32, 10**9]),
        "depths has 1000000000, expected at most 10+ layers",
    ),
]
LEARNING = [
    (lambda: curve([-1.0]), "eigenvalues has -1, expected numbers of at"),
    (lambda: curve([1.0, -1.0], [1.0, 1.0]), "eigenvalues has -1, expected numbers of at"),
    (lambda: curve(parts=[1.0, 2.0]), r"coefficients has shape \(2,\), exp"),
    (lambda: curve(sizes=(0,)), "sizes is 0, expected an integer of at least"),
    (lambda: curve(multiplicities=[-2]), "multiplicities has -2"),
    (lambda: learning.pool_curve(np.eye(2), [1, 2], (2,)), "sizes has 2, expected numbers below"),
    (lambda: learning.pool_curve(-np.eye(2), [1, 2], (1,)), "K of .* has the eigenvalue -1, exp"),
    (lambda: learning.learned_fractions(np.eye(2), [0, 0], 1.0), "y is 0 for all signals, expec"),
    (lambda: complexity(0), "max_frequency is 0, expected an integer of at least 1"),
    (lambda: complexity(fraction=0.0), "fraction is 0.0, expected a number between 0 an"),
    (lambda: complexity(fraction=1.0), "fraction is 1.0, expected a number between 0 an"),
    (lambda: complexity(frequencies=[(1, 0)]), "expected sets of 3 integers from 0 to 4"),
    (lambda: complexity(frequencies=[(1, 0, -1)]), "expected sets of 3 integers from 0 to 4"),
    (lambda: complexity(frequencies=[(1, 0, 5)]), "expected sets of 3 integers from 0 to 4"),
    (lambda: complexity(frequencies=[(1, 0, 2.0)]), "expected sets of 3 integers from 0 to 4"),
    (lambda: complexity(frequencies=5), "frequencies is 5, expected sets of 3 integers"),
    (lambda: complexity(frequencies=[[1], [1, 2]]), "frequencies is not a rectangular array"),
    (lambda: complexity(errors=True), "errors is given, expected other options"),
    (lambda: learning.error_exponent(ERF, 2, 3, kind="gpk"), "'erf', expected 'relu'"),
    (lambda: learning.error_exponent(UNTRAINED, 2, 3, kind="ntk"), "ntk is 0 for every signal"),
    (
        lambda: learning.error_exponent(rk.Network(2, alpha=0), 2, 3, kind="gpk"),
        "without a residual",
    ),
    (lambda: clock(-1.0), "times is -1.0, expected real numbers of at"),
    (lambda: clock([]), r"times is \[\], expected"),
    (
        lambda: clock(1.0, max_memory=1),
        "takes .* MB, expected at most max_memory, which is 1e-06 MB",
    ),
    (lambda: clock(1.0, errors=True), "errors is given, expected other options"),
]
LOCALITY = [
    (lambda: field(ERF), "'erf', expected 'relu': this is for like layers of ReLU, whose"),
    (lambda: field(rk.Network(2, alpha=(1, 0.5))), "one value for all layers: .* like layers"),
    (lambda: field(d=10**12), "n_timepoints is 10+, .* GiB"),
    (lambda: locality.width(UNTRAINED, kind="ntk"), "0 for every signal"),
]
PATHS = [
    (lambda: paths.path_counts(rk.Network(2, 4), 5), "filter_size is 4"),
    (lambda: paths.path_pixels(rk.Network(10)), r"network has 10\^9\.1 paths, expected"),
    (lambda: paths.stride_kernel(rk.Network(1), [0.1, 0.2]), r"t has shape \(2,\), expected"),
    (lambda: paths.stride_kernel(rk.Network(1), [0.1, 0.2, 2]), "t has values from 0.1 to 2.0"),
    (lambda: fit_path_counts(RESNET, 1, 2), "expected at least 5 for 4 constants"),
    (lambda: fit_path_counts(n_channels="2"), "n_channels is '2', expected an integer"),
    (
        lambda: fit_path_counts(max_memory=1),
        "takes .*, expected at most max_memory, which is 1e-06 MB",
    ),
    (lambda: fit_path_counts(max_points=1), "expected max_points, 1, at"),
    (
        lambda: fit_path_counts(normalized=True),
        "normalized is given, expected other options: method, no",
    ),
    (
        lambda: fit_path_counts(depths=[2, 2]),
        r"depths is \(2, 2\), expected different ones of at most",
    ),
    (lambda: paths.path_counts(rk.Network(10**5), 10**5), "depth is 100000: counts of"),
    (lambda: paths.path_counts(rk.Network(10**8), 9), "depth is 100000000: .* 9 pixels take hours"),
]
SMOOTHNESS = [
    (lambda: smoothness.gaussian_rkhs_norm(WAVE, -1), "cutoff is -1.*from 0 to 31 for values of"),
    (lambda: smoothness.gaussian_rkhs_norm(np.ones(4096), 141), "integers from 0 to 140"),
    (
        lambda: smoothness.gaussian_rkhs_norm(WAVE, 32),
        "cutoff is 32, expected integers from 0 to 31",
    ),
    (
        lambda: smoothness.gaussian_rkhs_norm(WAVE, np.zeros(0, int)),
        "cutoff is array.*, expected integers from 0 to",
    ),
    (lambda: smoothness.grid(10**400), r"n_samples is 10+\.\.\.0+, expected a finite"),
    (lambda: smoothness.curvature([1.0]), r"values has shape \(1,\), expected \(..., n_samples\)"),
    (
        lambda: smoothness.gaussian_rkhs_ratio(WAVE, smoothness.grid(300), np.ones(300)),
        r"angles of shape \(300,\) are too close for the Gaussian kernel",
    ),
    (lambda: smoothness.curvature(np.zeros(8)), "values is zero everywhere"),
    (lambda: smoothness.gaussian_rkhs_ratio(0 * WAVE, [0.0], [1.0]), "zero up to the cut-off"),
    (lambda: smoothness.gaussian_rkhs_ratio(WAVE, [0.0], TWICE), r"targets has shape \(2,\)"),
    (lambda: smoothness.gaussian_rkhs_ratio(WAVE, TWICE, TWICE), "too close for the Gaussian"),
    (lambda: smoothness.circle([[0.0]]), r"angles has shape \(1, 1\), expected \(n,\)"),
    (lambda: smoothness.jacobian_bound(MLP.replace(c_v=2.0), 10, 2), "network is "),
    (lambda: smoothness.jacobian_bound(MLP, 0, 2), "width is 0"),
    (lambda: smoothness.interpolation(3, [0.0], [1.0]), "kernel is 3, expected a rescntk.Kernel"),
]
NORMED = spectrum.eigenvalues(NET, 2, 1, 2, **GPK)
SPECTRUM = [
    (lambda: NORMED.rkhs_norm([1.0]), r"coefficients has shape \(1,\), expected \(3,\)"),
    (lambda: exponents(ERF), "theorem 5.1 is about ReLU"),
    (lambda: exponents(WINDOW), "input_filter_size 3"),
    (lambda: exponents(top=7), "is 7, expected an integer of at least 8"),
    (lambda: exponents(d=6, pixels=[(0, 3)]), r"pixels has \[0, 3\], .* \[0, 1, 5\]"),
    (lambda: exponents(pixels=[0]), "pixels has 0, expected one or more integers"),
    (lambda: series(ERF, 3, 4), "'erf', expected 'relu': the recursion of Tay"),
    (lambda: series(NET, 5, 30), r"max_degree is 30: .* pairs of coefficients"),
    (lambda: constants(UNTRAINED, "ntk"), "ntk is 0 for every signal"),
    (lambda: constants(WINDOW, "gpk"), "size 3, expected 1: theorem"),
    (lambda: NORMED.effective_dimension(9, 0), "penalty is 0, expected a positive number"),
    (lambda: NORMED.effective_dimension(0, 1), "n is 0, expected a positive number"),
    (lambda: NORMED.significant, "the errors of these eigenvalues were not asked for: errors=True"),
    (lambda: spectrum.harmonics(3, -1), "frequency is -1, expected an integer of at least 0"),
    (
        lambda: depth.limit_classifier(rk.Network(1), kind="ntk", n_pixels=0),
        "n_pixels is 0, expected a positive number",
    ),
    (lambda: eigenvalues(head=4), "head is 4, expected .*: eigenvalues of pooled heads are those"),
    (lambda: eigenvalues(head=0), "head is 0, expected one of .* or a positive integer"),
    (lambda: eigenvalues(1), "n_channels is 1, expected at least 2: on the multi-sphere"),
    (lambda: eigenvalues(n_timepoints=33), "n_timepoints is 33, expected at most 32"),
    (lambda: eigenvalues(max_frequency=(1, 2)), r"max_frequency is \(1, 2\), expected .* 3 pixels"),
    (lambda: eigenvalues(10**400), r"n_channels is 10+\.\.\.0+, expected a finite"),
    (lambda: eigenvalues(max_frequency=10**400), r"max_frequency is 10+\.\.\.0+, expected a fi"),
    (lambda: eigenvalues(n_timepoints=10**400), r"n_timepoints is 10+\.\.\.0+, expected a fin"),
    (lambda: eigenvalues(method="cosine"), "method is 'cosine', expected one of 'auto', 'angles'"),
    (lambda: eigenvalues(nodes=3), "nodes is 3, expected at least 4 for a max_frequency of 4 by"),
    (lambda: eigenvalues(nodes=12, errors=True), "12, expected at least 13 for errors of"),
    (lambda: exponents(errors=True), "errors is given, expected other options"),
    (lambda: eigenvalues(max_points=1e4), "has 1.56e.04 points, 0 hours of one core, expected max"),
    (
        lambda: eigenvalues(n_timepoints=20, max_frequency=8),
        "expected at most max_memory, which is 4.0 GB",
    ),
]
REFUSALS = [
    *MULTISPHERE,
    *CONDITIONING,
    *DEPTH,
    *LEARNING,
    *LOCALITY,
    *PATHS,
    *SMOOTHNESS,
    *SPECTRUM,
]


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize(("call", "message"), REFUSALS)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: multisphere.normalized_gpk(BIASED, T),
        lambda: complements(BIASED),
        lambda: asymptote(network=BIASED),
        lambda: separation(BIASED),
        lambda: means(BIASED),
        lambda: depth.asymptotic_complement(BIASED),
        lambda: depth.flow_limit(BIASED, G, **GPK),
        lambda: Family(BIASED),
        lambda: classify(BIASED),
        lambda: learning.sample_complexity(BIASED, 2, 3, 4, **GPK),
        lambda: learning.learned_by_frequency(BIASED, 2, 2, 2, [1.0], **GPK),
        lambda: learning.error_exponent(BIASED, 2, 3, kind="gpk"),
        lambda: fit_path_counts(BIASED),
        lambda: paths.stride_kernel(BIASED, [T]),
        lambda: smoothness.jacobian_bound(BIASED, 8, 2),
        lambda: spectrum.eigenvalues(BIASED, 2, 3, 4, **GPK),
        lambda: spectrum.cost(BIASED, 2, 3, 4, kind="gpk"),
        lambda: exponents(BIASED),
        lambda: spectrum.decay_law(BIASED, 2, 3, [0], **GPK),
        lambda: constants(BIASED, "gpk"),
        lambda: series(BIASED, 3, 4),
    ],
)
def test_biases_that_a_formula_lacks_are_refused_by_name(call):
    with pytest.raises(ValueError, match=r"^network has bias 0\.3, expected 0"):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: smoothness.grid(10**14),
            "n_samples is 10+: 3 numbers for each sample takes .* 2,400,000.0 GB",
        ),
        (
            lambda: smoothness.interpolation(rk.ResCNTK(2), [0.0, 1.0], [1.0, 2.0], 10**14),
            "n_samples is 10+: 9 numbers",
        ),
        (
            lambda: compare(X=np.ones((100, 1, 8)), depths=(1, 10**11)),
            "depth 10+ for signals of 8 timepoints and filters of 3 takes",
        ),
    ],
)
def test_sizes_beyond_the_memory_are_refused(call, message):
    with pytest.raises(MemoryError, match=f"^{message}"):
        call()
