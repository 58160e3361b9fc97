"""Each step of a layer on its own: what it does to covariances, which its deficits must follow."""

import numpy as np
import pytest

from rescntk import Network
from rescntk.engines.layer.bias import BiasStep
from rescntk.engines.layer.convolution import ConvolutionStep
from rescntk.engines.layer.norm import NormStep
from rescntk.engines.layer.operations import Operations
from rescntk.engines.layer.skip import SkipStep
from rescntk.engines.layer.step import Deficits, Kernels, PairState, Variances
from rescntk.engines.layer.taps import Taps
from rescntk.engines.signals.context import ArraySignalContext
from tests.tolerances import ROUTES

D, BIASES, SIZES = 5, (0.7, 0.4), (1.25, 0.5)
"""Pixels, standard deviations of biases, and of normalized features, of both signals."""

OTHER = np.random.default_rng(0).standard_normal((2, 2, 3, D))
"""Features and branch of two signals of three channels."""


def covariances(x, z):
    return np.einsum("cj,ck->jk", x, z)[None]


def state(x, z):
    """Return the state of all pixel pairs of two signals. The tangent kernel is 3 F."""
    F = covariances(x, z)
    g = np.sqrt(np.multiply.outer((x**2).sum(axis=0), (z**2).sum(axis=0)))
    return PairState(Deficits(g - F, g + F), Kernels(F, 3.0 * F))


class Pairs:
    """The `PairContext` of a step in layer 1, with its rows."""

    def __init__(self, operations, step, rows):
        self.constants = operations.constants
        self.layer_constants = operations.constants.of_layer(1)
        self.weights, self.rows, self.step = self.layer_constants.weights.rounded, rows, step

    def row(self, index):
        left, right = (rows[index] for rows in self.rows)
        return left[:, :, None], right[:, None, :]

    def mean(self, taps, values):
        moved = (np.roll(values, (-k, -k), (1, 2)) for k in taps.offsets)
        return sum(moved) / taps.n_taps

    def bias_product(self, after_activation):
        return self.constants.bias_std(1, after_activation) ** 2 * BIASES[0] * BIASES[1]


def context_of(network, input_variance, s=0):
    """Return the `SignalContext` of a signal in layer 1."""
    bias, size = np.array([BIASES[s]]), np.array([SIZES[s]])
    operations = Operations(network, network.depth, 3)
    return ArraySignalContext(
        operations, np, input_variance, bias=bias, normalized_std=size
    ).of_layer(1)


def passed(network, step):
    """Return the variances of both signals after a step, and the state of their pixel pairs."""
    operations = Operations(network, network.depth, 3)
    features, branch = OTHER
    after, rows = [], []
    for s in range(2):
        variances = [(of[s] ** 2).sum(axis=0)[None] for of in (branch, features)]
        context = context_of(network, variances[1], s)
        found, of_step = step.variances(context, *map(context.exact_variances, variances))
        after.append(found.variance)
        rows.append(list(of_step))
    context = Pairs(operations, step, rows)
    return after, step.pairs(context, state(*branch), state(*features))


def expected(network, step, x, z):
    """Return what a step makes of the covariances of signals x and z, which are 0 or 1."""
    features, branch = (covariances(of[x], of[z]) for of in OTHER)
    constants = Operations(network, network.depth, 3).constants
    if isinstance(step, ConvolutionStep):
        return sum(np.roll(branch, (-k, -k), (1, 2)) for k in step.taps.offsets) / step.taps.n_taps
    if isinstance(step, BiasStep):
        return branch + constants.bias_std(1, step.after_activation) ** 2 * BIASES[x] * BIASES[z]
    if isinstance(step, NormStep):
        sizes = [(OTHER[1][s] ** 2).sum(axis=0) for s in (x, z)]
        return SIZES[x] * SIZES[z] * branch / np.sqrt(np.multiply.outer(*sizes))
    weights = constants.of_layer(1).weights.rounded
    return weights.features * features + weights.branch * branch


CASES = {
    "convolution": (Network(2, 3), ConvolutionStep(Taps(3, 1, 0))),
    "dilated convolution": (Network(2, 5, dilation=2), ConvolutionStep(Taps(5, 2, 0))),
    "bias": (Network(2, bias=0.5), BiasStep(after_activation=False)),
    "bias of the branch": (Network(2, bias=0.5), BiasStep(after_activation=True)),
    "normalization": (Network(2, norm=True), NormStep()),
    "mean from features": (Network(2, alpha=0.5), SkipStep()),
    "mean from branch": (Network(2, alpha=3.0), SkipStep()),
    "sum": (Network(2, activation="erf"), SkipStep()),
    "branch alone": (Network(2, skip=(False, True)), SkipStep()),
}


@pytest.mark.parametrize("case", CASES)
def test_variances_are_covariances_of_a_signal_with_itself(case):
    found, _ = passed(*CASES[case])
    for s, variance in enumerate(found):
        exact = expected(*CASES[case], s, s)[0].diagonal()
        np.testing.assert_allclose(variance[0], exact, rtol=ROUTES)


ERRORS = np.random.default_rng(1).uniform(-1e-3, 1e-3, (2, 1, D))
"""Errors of the variances of features and branch, far above rounding errors."""


@pytest.mark.parametrize("case", [case for case in CASES if case != "normalization"])
def test_rounding_errors_stay_with_their_variances(case):
    """Variance and error together are what the step makes of variances without these errors."""
    network, step = CASES[case]
    features, branch = (OTHER[:, 0] ** 2).sum(axis=1)[:, None]
    context = context_of(network.replace(bias=0.5), features)

    def total(before, features):
        found, _ = step.variances(context, before, features)
        return found.variance + found.rounding_error

    pairs = list(zip((branch, features), ERRORS, strict=True))
    found = total(*(Variances(variance, error, np.sqrt(variance)) for variance, error in pairs))
    exact = total(*(context.exact_variances(variance + error) for variance, error in pairs))
    np.testing.assert_allclose(found, exact, rtol=ROUTES)


def test_coordinates_of_proportional_variances_are_equal_to_the_last_bit(rng):
    """Variances are integers, so that three times their sums is exact."""
    context = context_of(Network(1), np.ones((1, 100)))
    first, second = rng.integers(1, 1000, (2, 1, 100)).astype(float)

    def coordinates(factor):
        parts = factor * first, factor * second
        _, rows = SkipStep().merged(context, parts, [0.5, 0.5], sum(parts), None)
        return [*rows][2:]

    assert np.array_equal(coordinates(1.0), coordinates(3.0))


@pytest.mark.parametrize("case", CASES)
def test_deficits_are_products_of_standard_deviations_less_covariances(case):
    (left, right), found = passed(*CASES[case])
    g, F = np.sqrt(left[:, :, None] * right[:, None, :]), expected(*CASES[case], 0, 1)
    assert np.abs((found.deficits.U - (g - F)) / g).max() <= ROUTES
    assert np.abs((found.deficits.U_plus - (g + F)) / g).max() <= ROUTES


@pytest.mark.parametrize("case", [case for case in CASES if case != "normalization"])
def test_kernels_follow_covariances(case):
    """Normalization, which does not change F, is left out, and so is what biases add to A."""
    (left, right), found = passed(*CASES[case])
    g, F = np.sqrt(left[:, :, None] * right[:, None, :]), expected(*CASES[case], 0, 1)
    assert np.abs((found.kernels.F - F) / g).max() <= ROUTES
    if "bias" not in case:
        assert np.abs((found.kernels.A - 3.0 * F) / g).max() <= ROUTES
