"""Operations as records of the compiled loops, against cases that were worked out by hand."""

from fractions import Fraction

import numpy as np
import pytest

from rescntk import Network
from rescntk.checks.values import KINDS
from rescntk.engines.compiled.program import Program, operations_of
from rescntk.engines.compiled.records import CONVOLUTION, LAYER, OPERATION, OPERATION_KINDS, OUTPUTS
from rescntk.engines.layer import operations as operations_module
from rescntk.engines.layer.network_steps import RepeatedLayer, steps_of
from rescntk.engines.layer.norm import NormStep
from rescntk.engines.request import Request
from tests.tolerances import CONSTANT


def program(network, head="equivariant", dtype="float64", depths=None, **options):
    request = Request(network, head, ("ntk",), depths or (network.depth,), dtype, **options)
    return Program(request, 2, 1, np)


def layers(found):
    return found.arrays["layers"].view(LAYER)


def operations(found, number=1):
    """Return the operations of a layer by their kind and side: ("bias", True) is of the branch."""
    layer, records = layers(found)[number - 1], found.arrays["operations"].view(OPERATION)
    of_layer = records[layer["first"] : layer["first"] + layer["count"]]
    return {
        (OPERATION_KINDS[each["kind"]], bool(each["after_activation"])): each for each in of_layer
    }


@pytest.fixture
def convolutions():
    """Return the records of convolutions of three layers with filters of nine pixels."""
    return program(Network(3, 9)).arrays["convolutions"].view(CONVOLUTION)


def test_equal_convolutions_of_all_layers_have_one_record(convolutions):
    assert convolutions["n_taps"].tolist() == [3, 3]
    assert convolutions["dilation"].tolist() == [1, 3]


def test_convolutions_of_signals_are_along_lines(convolutions):
    assert convolutions["axis"].tolist() == [1, 1]


def test_the_weight_of_a_convolution_has_twice_the_precision(convolutions):
    third = Fraction(convolutions["weight"][0]) + Fraction(convolutions["weight_error"][0])
    assert abs(third - Fraction(1, 3)) < Fraction(1, 2**105)


@pytest.fixture
def two_layers():
    """Return the program of two layers: seven operations, of which the first layer has three."""
    return program(Network(2, 3))


def test_operations_have_the_order_of_the_steps(two_layers):
    kinds = two_layers.arrays["operations"].view(OPERATION)["kind"]
    first = ["activation", "convolution", "skip"]
    assert [OPERATION_KINDS[kind] for kind in kinds] == [*first, "convolution", *first]


def test_layers_say_which_operations_are_theirs(two_layers):
    found = [(layer["first"], layer["count"]) for layer in layers(two_layers)]
    assert found == [(0, 3), (3, 4)]


def test_operations_have_the_numbers_of_their_table_rows(two_layers):
    """Rows 0 to 2 are those of the input. A convolution has four rows, a skip connection three."""
    records = two_layers.arrays["operations"].view(OPERATION)
    assert records["row"].tolist() == [3, 4, 8, 11, 15, 16, 20]
    assert records["std_row"].tolist() == [2, 2, 4, 8, 11, 11, 16]


def test_operations_say_on_which_side_of_the_activation_they_are(two_layers):
    records = two_layers.arrays["operations"].view(OPERATION)
    assert records["after_activation"].tolist() == [1, 1, 1, 0, 1, 1, 1]


def test_convolutions_have_the_index_of_their_taps(two_layers):
    records = two_layers.arrays["operations"].view(OPERATION)
    assert records["convolution"].tolist() == [-1, 0, -1, 0, -1, 0, -1]


def test_features_have_a_table_row_unless_a_skip_connection_adds_them(two_layers):
    assert [layer["std_row"] for layer in layers(two_layers)] == [-1, -1]
    assert layers(program(Network(1, 3, skip=False)))[0]["std_row"] == 4


def test_records_have_the_weights_of_features_and_branch():
    found = program(Network(1, 3, alpha=0.5))
    (layer,), skip = layers(found), operations(found)["skip", True]
    assert (layer["feature_weight"], layer["branch_weight"]) == pytest.approx(
        (0.8, 0.2), rel=CONSTANT
    )
    assert (skip["feature_weight"], skip["branch_weight"]) == pytest.approx(
        (0.8, 0.2), rel=CONSTANT
    )
    assert layer["input_weight"] == pytest.approx(0.8, rel=CONSTANT)


def test_records_have_the_variances_of_biases():
    """They are σ_b²/c_w before the activation and 2/c_v times as much after it, in units of the
    largest σ_b."""
    found = program(Network(1, 1, c_v=4.0, c_w=2.0, bias=0.3))
    inner, outer = (
        operations(found)["bias", after_activation] for after_activation in (False, True)
    )
    assert inner["bias_variance"] == pytest.approx(1 / 2, rel=CONSTANT)
    assert (
        outer["bias_variance"]
        == layers(found)[0]["bias_variance"]
        == pytest.approx(1 / 4, rel=CONSTANT)
    )


def test_networks_without_biases_have_no_such_operation():
    assert not any(kind == "bias" for kind, _ in operations(program(Network(3))))


@pytest.mark.parametrize(
    ("head", "options", "expected"),
    [
        ("gap", {}, "sums"),
        ("trace", {"shares": True}, "shares"),
        ("equivariant", {}, "pixel 1"),
        ("pixels", {}, "pixels"),
    ],
)
def test_each_head_has_its_output(head, options, expected):
    job = program(Network(2), head, **options).job({}, (1, 1), 5, paired=False, symmetric=False)
    assert OUTPUTS[job["output"][0]] == expected


def test_depths_are_reported_in_their_order():
    found = program(Network(5), depths=(2, 5))
    assert [record["depth_index"] for record in layers(found)] == [-1, 0, -1, -1, 1]


class MadeUpStep(NormStep):
    kind = "made up"


@pytest.mark.parametrize("head", ["gap", "trace", "equivariant", 3, "pixels"])
@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("place", [0, -1])
def test_steps_that_the_loops_lack_are_refused_by_name(head, depth, place, monkeypatch):
    def with_a_made_up_step(*arguments):
        *before, (n_layers, steps) = steps_of(*arguments)
        steps = (*steps[:place], MadeUpStep(), *steps[place:])
        return (*before, RepeatedLayer(n_layers, steps))

    monkeypatch.setattr(operations_module, "steps_of", with_a_made_up_step)
    with pytest.raises(NotImplementedError, match="compiled engines have no step 'made up'"):
        operations_of.__wrapped__(Request(Network(depth, 3), head, KINDS, (depth,)), 1, 1)


@pytest.mark.parametrize(
    ("network", "joined"),
    [
        (Network(1000), True),
        (Network(1001), False),
        (Network(3, 5), False),
        (Network(3, 9), True),
        (Network(3, trained="input"), False),
        (Network(3, trained=("input", "readout")), False),
        (Network(3, trained="readout"), True),
    ],
)
def test_sums_join_layers_of_filters_that_are_powers_of_three(network, joined):
    """They are not joined if layers do not change the tangent kernel."""
    operations = program(network, "gap").operations
    is_joined = any(o.step.taps.is_triangle for layer in operations.layers for o in layer)
    assert is_joined == joined


def test_jobs_have_the_addresses_of_results():
    """A kind that is not computed has the address 0."""
    values = {"ntk": np.zeros((1, 3, 4))}
    job = program(Network(1), "gap").job(values, (3, 4), 7, paired=False, symmetric=False)
    assert job["ntk"][0] == values["ntk"].__array_interface__["data"][0]
    assert job["gpk"][0] == 0


def test_jobs_have_the_shape_of_results():
    """The pixels of signals are one line, without a height."""
    job = program(Network(1), "gap").job({}, (3, 4), 7, paired=False, symmetric=False)
    names = "cases", "columns", "extent", "height", "line_pixels"
    assert [job[name][0] for name in names] == [3, 4, 7, 0, 7]
