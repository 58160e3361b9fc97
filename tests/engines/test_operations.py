"""Networks as lists of operations, against cases that were worked out by hand."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from rescntk import Network, gram
from rescntk.engines.layer.activation import ActivationStep
from rescntk.engines.layer.bias import BiasStep
from rescntk.engines.layer.constants import check_growth
from rescntk.engines.layer.convolution import ConvolutionStep
from rescntk.engines.layer.network_steps import (
    RepeatedLayer,
    ending_with_activation,
    joined,
    may_have_five_taps,
    may_join,
    with_five_taps,
)
from rescntk.engines.layer.norm import NormStep
from rescntk.engines.layer.operations import Operations
from rescntk.engines.layer.skip import SkipStep
from rescntk.engines.layer.taps import Taps, taps_of_filter
from rescntk.network.parts import Filter, Layer
from tests.tolerances import CONSTANT


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (Filter(1), []),
        (Filter(7), [Taps(7, 1, 0)]),
        (Filter(9), [Taps(3, 1, 0), Taps(3, 3, 0)]),
        (Filter(15, dilation=2), [Taps(3, 2, 0), Taps(5, 6, 0)]),
        (Filter(3, n_axes=2), [Taps(3, 1, 1), Taps(3, 1, 0)]),  # of an image: along lines first
    ],
)
def test_a_filter_is_convolutions_of_prime_size(given, expected):
    assert list(taps_of_filter(given)) == expected


def test_convolutions_of_convolutions_are_the_filter():
    """The offsets of all convolutions add up to the filter's offsets, each once."""
    given = Filter(45, dilation=3)
    offsets = [0]
    for taps in taps_of_filter(given):
        offsets = [a + b for a in offsets for b in taps.offsets]
    assert sorted(offsets) == list(given.offsets)


def test_weights_begin_with_the_middle_tap():
    assert Taps(3, 1, 0).weights == (1 / 3,) * 3
    assert Taps(5, 1, 0, is_triangle=True).weights == (3 / 9, 1 / 9, 2 / 9, 2 / 9, 1 / 9)
    assert list(Taps(5, 4, 0).offsets) == [-8, -4, 0, 4, 8]


def test_operations_have_consecutive_table_rows():
    """Two channels and the root are rows 0 to 2. Three taps have four rows, a skip has three."""
    operations = Operations(Network(2, 3), depth=2, n_channels=2)
    assert operations.input == ()
    found = [[(o.step.kind, o.row, o.std_row) for o in layer] for layer in operations.layers]
    assert found == [
        [("activation", 3, 2), ("convolution", 4, 2), ("skip", 8, 4)],
        [
            ("convolution", 11, 8),
            ("activation", 15, 11),
            ("convolution", 16, 11),
            ("skip", 20, 16),
        ],
    ]
    assert operations.n_rows == 23


def test_branches_have_roots_where_activations_are_not_homogeneous():
    operations = Operations(Network(1, 1, activation="erf"), depth=1, n_channels=1)
    activation, skip = operations.layers[0]
    assert (activation.row, activation.std_row, activation.step.n_rows) == (2, 1, 2)
    assert (skip.row, skip.std_row) == (4, 3)


def test_sums_over_pixels_end_with_the_last_activation():
    steps = ending_with_activation(Operations(Network(2, 3), depth=2, n_channels=1).steps)
    assert [step.kind for step in steps[-1].steps] == ["convolution", "activation"]


def with_step_after_activation(network_steps, layer_number, step):
    """Return the steps of a network with one more step before the end of a layer."""
    n_layers, steps = network_steps[layer_number]
    changed = RepeatedLayer(n_layers, (*steps[:-1], step, steps[-1]))
    return (*network_steps[:layer_number], changed, *network_steps[layer_number + 1 :])


@pytest.mark.parametrize("layer_number", [1, 2])
def test_sums_over_pixels_refuse_other_steps_after_an_activation(layer_number):
    """Loops apply skip connections and biases to sums, of which such a step would be no part."""
    steps = Operations(Network(2, 3), depth=2, n_channels=1).steps
    with pytest.raises(NotImplementedError, match="the step 'norm', which follows an activation"):
        ending_with_activation(with_step_after_activation(steps, layer_number, NormStep()))


def test_five_taps_join_convolutions_of_two_layers():
    """Layers 2 and 3 end with the convolutions of the next one's pre-activations, as five taps."""
    plain = Operations(Network(4, 3), depth=4, n_channels=1)
    of_input, first, middle, last = with_five_taps(ending_with_activation(plain.steps))
    activation, skip = ActivationStep(is_homogeneous=True), SkipStep()
    three, five = Taps(3, 1, 0), Taps(5, 1, 0, is_triangle=True)
    assert of_input.steps == () and last.steps == (activation,)
    convolution = ConvolutionStep(three, after_activation=True)
    assert first.steps == (activation, convolution, skip, convolution)
    assert middle == (2, (activation, ConvolutionStep(five, after_activation=True), skip))


@pytest.fixture
def plain():
    return Operations(Network(2, 3), depth=2, n_channels=1)


@pytest.fixture
def merged(plain):
    return replace(plain, rewritten=joined(with_five_taps(ending_with_activation(plain.steps))))


def test_layers_of_filters_of_three_may_have_five_taps(plain):
    assert may_have_five_taps(plain.network, plain.constants, plain.steps)


def test_layers_with_other_steps_may_not_have_five_taps(plain):
    for step in (NormStep(), BiasStep(after_activation=True)):
        steps = with_step_after_activation(plain.steps, 1, step)
        assert not may_have_five_taps(plain.network, plain.constants, steps)


def test_layers_of_filters_of_three_may_join(plain):
    assert may_join(plain.network, plain.constants, 1)


def test_joined_layers_have_one_merge(merged):
    kinds = [[operation.step.kind for operation in layer] for layer in merged.layers]
    assert kinds == [["activation", "joined"], ["activation"]]


@pytest.mark.parametrize(("layer", "eighteenths"), [(1, [1, 5, 6, 5, 1]), (2, [1, 2, 12, 2, 1])])
def test_joined_layers_weigh_features_and_branch_together(layer, eighteenths):
    """Features and branch weigh alike: three taps of the first layer have a third of both."""
    network = Operations(Network(3, 3), depth=3, n_channels=1)
    steps = joined(with_five_taps(ending_with_activation(network.steps)))
    operation = replace(network, rewritten=steps).layers[layer - 1][-1]
    weights = operation.step.tap_weights(network.constants.of_layer(layer).weights.rounded)
    np.testing.assert_allclose(weights, np.array(eighteenths) / 18, rtol=CONSTANT)


@pytest.mark.parametrize("network", [Network(1, 3), Network(5, 9, input_filter_size=3)])
def test_rows_are_counted_without_their_operations(network):
    depth = network.depth
    plain = Operations(network, depth, 2)
    for steps in (plain.steps, joined(ending_with_activation(plain.steps))):
        operations = replace(plain, rewritten=steps)
        layers = (operations.input, *operations.layers)
        assert len(operations.layers) == depth
        assert operations.n_rows == 3 + sum(o.step.n_rows for layer in layers for o in layer)


@pytest.mark.parametrize(
    ("network", "divisor", "branch", "features"),
    [
        (Network(1), 2.0, 0.5, 0.5),
        (Network(1, alpha=0.5), 1.25, 0.2, 0.8),
        (Network(1, skip=False, c_v=3.0), 1.5, 1.0, 0.0),
        (Network(1, skip=False, c_v=0.5, bias=1.0), 1.0, 0.25, 0.0),  # biases keep variances
        (Network(1, activation="erf", alpha=3.0), 1.0, 1.0, 1.0),
        (Network(1, activation="gelu", skip=False), 1.0, 1.0, 0.0),
    ],
)
def test_layers_are_divided_by_their_growth(network, divisor, branch, features):
    constants = Operations(network, 1, 1).constants.of_layer(1)
    weights = constants.weights.rounded
    found = constants.divisor, weights.branch, weights.features
    assert found == pytest.approx((divisor, branch, features), rel=CONSTANT)


LAYERS = {"alpha": (1.0, 0.5, 1.0), "skip": (True, True, False), "c_v": (2.0, 2.0, 3.0)}


def test_layers_have_their_own_constants():
    """β is 1, 1/4 and, without a skip, 3/2."""
    constants = Operations(Network(3, **LAYERS), 3, 1).constants
    layers = [constants.of_layer(k) for k in (1, 2, 3)]
    assert [layer.divisor for layer in layers] == [2.0, 1.25, 1.5]
    weights = [layer.weights.rounded for layer in layers]
    assert [(w.features, w.branch) for w in weights] == [(0.5, 0.5), (0.8, 0.2), (0.0, 1.0)]


def test_products_over_layers_of_their_own():
    constants = Operations(Network(3, **LAYERS), 3, 1).constants
    assert [constants.input_weight(k) for k in range(4)] == [1.0, 0.5, 0.4, 0.0]
    assert constants.total_divisor(3) == (1.875, 1)


def test_normalized_features_have_one_size_in_all_layers():
    """S = 1, 1 + 1, 2 + 1/4, and without a skip 3/2: weights of the branch are β / S."""
    constants = Operations(Network(3, norm=True, **LAYERS), 3, 1).constants
    layers = [constants.of_layer(k) for k in (1, 2, 3)]
    weights = [layer.weights.rounded for layer in layers]
    assert [w.branch for w in weights] == pytest.approx([1 / 2, 1 / 9, 1.0], rel=CONSTANT)
    assert [w.features for w in weights] == pytest.approx([1 / 2, 8 / 9, 0.0], rel=CONSTANT)


def test_total_divisors_of_normalized_features_are_their_size():
    constants = Operations(Network(3, norm=True, **LAYERS), 3, 1).constants
    assert constants.total_divisor(2) == (1.125, 1)  # 2.25
    assert constants.total_divisor(3) == (1.5, 0)


def test_a_layer_of_normalized_features_starts_with_their_norm():
    operations = Operations(Network(3, norm=True, **LAYERS), 3, 1)
    kinds = [operation.step.kind for operation in operations.layers[1]]
    assert kinds[:2] == ["norm", "convolution"]


def test_the_largest_bias_is_the_unit_of_biases():
    """Layer 1 has none: a signal of zeros has the last layer's alone."""
    network = Network(3, bias=(0.0, 0.25, 0.5), c_w=(1.0, 4.0, 1.0), skip=False, c_v=2.0)
    operations = Operations(network, 3, 1)
    assert operations.constants.largest_bias == 0.5
    # Layers of c_v 2 and c_w 4 multiply variances by 4.
    assert [operations.constants.bias_std(k) for k in (1, 2, 3)] == [0.0, 0.5 / 2.0, 1.0 / 2.0]


def test_total_divisors_are_powers_of_the_growth():
    assert Operations(Network(1), 1, 1).constants.total_divisor(7) == (1.0, 7)
    mantissa, exponent = Operations(Network(1, alpha=2.0), 1, 1).constants.total_divisor(
        1000
    )  # 5^1000
    assert mantissa * 2.0 ** (exponent - 2300) == pytest.approx(5**1000 / 2**2300, rel=CONSTANT)


def test_growths_beyond_float64_are_refused():
    assert check_growth(Network(1).layer(1)) == 2.0
    with pytest.raises(ValueError, match="^network multiplies variances by 1e-200 at each layer"):
        check_growth(Network(1, skip=False, c_v=2e-100, c_w=1e-100).layer(1))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, False),
        ({"skip": False, "c_v": 0.5}, False),  # layers are divided by their growth
        ({"bias": (0.0, 1.0)}, True),
        ({"norm": True}, False),
        ({"norm": True, "skip": (True, False)}, True),
        ({"activation": "erf", "bias": 1.0}, False),  # signals are not divided by their sizes
    ],
)
def test_which_networks_may_lose_the_size_of_signals(fields, expected):
    assert Operations(Network(2, **fields), 2, 1).bounds.may_lose_size == expected


def test_a_layer_that_halves_features_does_not_keep_them(monkeypatch):
    network = Network(2, norm=True)
    assert network.layer(1).keeps_features
    monkeypatch.setattr(Layer, "identity_factor", property(lambda layer: layer.skip / 2))
    assert not network.layer(1).keeps_features
    assert Operations(network, 2, 1).bounds.may_lose_size


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rounded_weights_keep_products_over_layers(dtype):
    operations = Operations(Network(1, alpha=0.3), 999, 1)
    weights = np.array([w[:2] for w in operations.rounded_weights(dtype).values()])
    assert (weights == weights.astype(dtype)).all()
    features, branch, _ = operations.constants.of_layer(1).weights
    for rounded, exact in zip(weights.T, (features, branch), strict=True):
        logarithm = sum(Fraction(weight) / exact - 1 for weight in rounded)
        assert abs(logarithm) <= np.finfo(dtype).eps


def test_work_for_constants_grows_with_the_depth(monkeypatch):
    """It does not grow with the square of the depth: each layer is read equally often."""
    read, counts = Network.layer, []

    def counting(network, number):
        counts[-1] += 1
        return read(network, number)

    monkeypatch.setattr(Network, "layer", counting)
    for depth in (30, 60):
        counts.append(0)
        network = Network(depth, alpha=[1 / k for k in range(1, depth + 1)])
        gram(network, np.ones((1, 1, 3)), engine="array")
    assert counts[1] <= 2 * counts[0]
