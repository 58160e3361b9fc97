"""Weights of features and branch: their digits, the form of their sum, and branches of 0."""

from decimal import Decimal
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import rescntk as rk
from rescntk.checks.values import DTYPES
from rescntk.engines.compiled.records import FORMS
from rescntk.engines.layer.weights import Form, Weights, sqrt_of
from tests import tolerances
from tests.helpers import CPU, ENGINES, HEADS, gram_of, needs_jax
from tests.oracles import quadruple

SLOW_JAX = pytest.mark.slow, needs_jax
X = np.random.default_rng(0).standard_normal((2, 1, 4))


@pytest.mark.parametrize(
    ("features", "branch", "form", "expected"),
    [
        (0.0, 0.5, Form.BRANCH_ALONE, 2.5),
        (0.75, 0.25, Form.MEAN_FROM_FEATURES, 3.5),
        (0.25, 0.75, Form.MEAN_FROM_BRANCH, 4.5),
        (1.0, 1.0, Form.SUM, 8.0),
        (0.25, 1.0, Form.SUM, 5.75),
        (1.0, 0.0, Form.SUM, 3.0),
    ],
)
def test_features_and_branch_are_added(features, branch, form, expected):
    weights = Weights.of(Fraction(features), Fraction(branch))
    assert weights.form is form
    assert weights.rounded.weighted_sum(np.array(3.0), np.array(5.0)) == expected


@pytest.mark.parametrize("smaller", [Fraction(1, 3), Fraction(1, 10**9), Fraction(1, 10**30)])
def test_the_smaller_weight_of_a_mean_keeps_its_digits(smaller):
    """The larger one is 1 minus the smaller one, and has no digits of its own."""
    of_branch, of_features = Weights.of(1 - smaller, smaller), Weights.of(smaller, 1 - smaller)
    assert float(of_branch.branch) == float(of_features.features) == float(smaller)
    assert of_branch.keeps_means and of_features.keeps_means


def test_roots_of_weights_are_the_nearest_numbers():
    """For this weight, the power 0.5 of the GNU C library has an error of one unit."""
    weight = 113 / 129
    assert sqrt_of(weight) == float(Decimal(weight).sqrt())


def test_compiled_loops_have_all_forms():
    assert {*FORMS} == {form.value for form in Form}


@pytest.mark.parametrize("engine", [*ENGINES, pytest.param("jax", marks=SLOW_JAX)])
@pytest.mark.parametrize("alpha", [30.1, 1e4 / 3, 1e9 / 7])
def test_signals_larger_than_alpha_beside_normalized_branches(engine, alpha):
    """K(x, x) = x² + α² for one layer and one pixel: the features have the weight 1/(1 + α²)."""
    network, x = rk.Network(1, 1, alpha=alpha, norm=True), np.array([[[1e6 * alpha]]])
    K = gram_of(engine, network, x, head="trace").gpk[0, 0]
    exact = Fraction(x[0, 0, 0]) ** 2 + Fraction(alpha) ** 2
    assert abs(Fraction(float(K)) / exact - 1) <= tolerances.ROUTES


DEAD = {
    "outer weights of the last layer": {"c_v": (2.0, 0.0)},
    "outer weights of the first layer": {"c_v": (0.0, 2.0)},
    "inner weights": {"c_w": (1.0, 0.0)},
    "all outer weights": {"c_v": 0.0},
    "a layer between two with skip connections": {
        "skip": (True, False, True), "c_v": (2.0, 0.0, 2.0)
    },
}  # fmt: skip


HEADS_OF_ENGINES = [*product(CPU, HEADS), pytest.param("jax", "gap", marks=SLOW_JAX)]


@pytest.mark.parametrize(("engine", "head"), HEADS_OF_ENGINES)
@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("name", DEAD)
def test_nothing_passes_an_ordinary_layer_of_weights_0(name, norm, head, engine):
    fields = {"skip": False} | DEAD[name]
    network = rk.Network(3 if "skip" in DEAD[name] else 2, 3, norm=norm, **fields)
    for K in gram_of(engine, network, X, head=head):
        assert (K == 0).all()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("alpha", [(0.0, 1e-3), (0.0, 1e-5), (0.0, 1e-7, 1.0)])
def test_a_branch_of_weight_0_at_a_pixel_of_0(alpha, dtype, engine):
    """Its variance is infinitely larger than the whole."""
    if isinstance(quadruple.library(), str):
        pytest.skip(quadruple.library())
    signals = np.array([[[0.0, 1, 2, 3]], [[0.0, 2, -1, 1]], [[1.0, 2, -1, 1]]])
    network = rk.Network(len(alpha), 3, alpha=alpha)
    options = {"head": "equivariant", "normalized": True, "engine": engine, "dtype": dtype}
    exact = quadruple.Grams(network, signals)
    for kind, K in rk.gram(network, signals, **options)._asdict().items():
        assert exact.error(K, kind, "equivariant") <= tolerances.KERNEL[dtype]
