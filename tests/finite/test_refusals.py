"""Refusals of finite networks: arguments one at a time, and numbers beyond the range."""

import numpy as np
import pytest

import rescntk as rk
from rescntk import finite
from tests.finite.networks import parameters

pytestmark = pytest.mark.slow

NETWORK, X = rk.Network(2, 3), np.random.default_rng(0).standard_normal((3, 2, 4))
PARAMS, TRACE = parameters(NETWORK), parameters(NETWORK, "trace")
GIVEN = {"network": NETWORK, "params": PARAMS, "X": X}
TRAINING = GIVEN | {"y": np.ones(3), "optimizer": 0.1, "steps": 2}
SAMPLES = {"key": 0, "network": NETWORK, "X": X, "width": 3, "n_samples": 2}
REFUSALS = [
    (finite.init, {"key": 0, "network": NETWORK, "n_channels": 2, "width": 3}, {
        "key is 'a', expected an integer": {"key": "a"},
        "network is 3, expected a rescntk.Network": {"network": 3},
        "width is 0, expected an integer of at least 1": {"width": 0},
        "n_channels is 1.5, expected an integer": {"n_channels": 1.5},
        "n_timepoints is 0, expected": {"n_timepoints": 0},
        "images is 2, expected True or False": {"images": 2},
        "dtype is": {"dtype": "int8"},
    }),
    (finite.apply, GIVEN, {
        "params has inner of shapes": {"network": NETWORK.replace(depth=3)},
        "params has inner .*: call finite.init with the net": {"network": NETWORK.replace(bias=1)},
        "params is dict, expected Parameters": {"params": {}},
        "head is 'max', expected one of": {"head": "max"},
        r"n_timepoints=None\), which the head \"trace\" needs": {"head": "trace"},
        "head is 'gap' and X has 4 pixels, expected what params": {"params": TRACE},
        r"X has 3 pixels, .* n_timepoints=4": {"params": TRACE, "X": X[:, :, :3], "head": "trace"},
        r"X has shape \(3, 1, 4\), expected \(n_cases, 2, n_timepoints\)": {"X": X[:, :1]},
        r"X has shape \(2, 4\), expected": {"X": X[0]},
        r"X has shape \(3, 2, 4, 1\), expected \(n_cases, 2, n": {"X": X[..., None]},
        r"expected \(n_cases, 2, height, width\)": {
            "params": parameters(NETWORK, sides=(2, 2))},
        "NaN or infinity": {"X": X * np.nan},
        "X is a list of signals, expected one array": {
            "X": [X[0], X[1, :, :2]], "head": "equivariant"},
        "X is empty": {"X": []},
        "X is a masked array": {"X": np.ma.masked_array(X, X > 0)},
    }),
    (finite.ntk, GIVEN, {r"Z has shape \(3, 1, 4\), expected": {"Z": X[:, :1]}}),
    (finite.gpk, SAMPLES, {"n_samples is 1, expected an integer of at least 2": {"n_samples": 1}}),
    (finite.train, TRAINING, {
        "optimizer is 'adam', expected a learning rate": {"optimizer": "adam"},
        "optimizer is -1, expected": {"optimizer": -1},
        r"y has shape \(2,\), expected \(3,\)": {"y": np.ones(2)},
        r"y has shape \(3, 2\), expected \(3,\)": {"y": np.ones((3, 2))},
        "record is 'weights', expected one of": {"record": ("weights",)},
        "record is 3, expected one of": {"record": 3},
        "steps is 0": {"steps": 0},
        "every is 0": {"every": 0},
    }),
]  # fmt: skip


@pytest.mark.parametrize(("function", "arguments", "refusals"), REFUSALS)
def test_arguments(function, arguments, refusals):
    for message, change in refusals.items():
        with pytest.raises(ValueError, match=message):
            function(**arguments | change)


def test_sizes_beyond_memory():
    with pytest.raises(MemoryError, match=r"width 10000000 with 2.9e\+15 parameters takes .* GB"):
        finite.init(0, rk.Network(4, 3, outer_filter_size=5), 1, 10_000_000)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [(finite.apply, GIVEN), (finite.ntk, GIVEN), (finite.gpk, SAMPLES), (finite.train, TRAINING)],
)
def test_numbers_beyond_the_range(function, arguments):
    with pytest.raises((OverflowError, FloatingPointError), match="exceed float|the loss is"):
        function(**arguments | {"X": np.sign(X) * 1e308})
