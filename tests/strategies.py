"""Hypothesis strategies: networks and signals of every kind that the library takes."""

from dataclasses import fields

import numpy as np
from hypothesis import strategies as st

import rescntk as rk
from rescntk.checks.values import PARTS
from rescntk.network import PER_LAYER_FIELDS
from rescntk.network.activations import ACTIVATIONS
from rescntk.network.parameters import BASIC_FIELDS
from tests.helpers import HEADS

EVERY_FIELD = {field.name for field in fields(rk.Network)}
sizes = st.sampled_from([1, 3, 5, 7])
# Few values, so that ties, zero pixels, opposite and parallel signals are common; and any.
values = st.one_of(
    st.integers(-3, 3).map(float),
    st.floats(-4, 4, allow_subnormal=False).map(lambda v: round(v, 3)),
)


@st.composite
def networks(
    draw,
    known=BASIC_FIELDS,
    max_depth=6,
    activations=tuple(ACTIVATIONS),
    dilated="never",
    layers="alike",
):
    """Return networks that vary the `known` fields; `dilated` is "never", "evenly" or "freely".

    Half of the networks have layers that differ in other fields too if `layers` is "of their own".
    """
    depth = draw(st.integers(1, max_depth))
    steps = st.integers(1, 4)
    dilations = [st.just(1)] if dilated == "never" else [st.just(1), st.just(1), steps]
    if dilated == "freely":
        dilations.append(st.lists(steps, min_size=depth, max_size=depth))
    strategies = {
        "depth": st.just(depth),
        "filter_size": sizes,
        "outer_filter_size": st.one_of(st.none(), sizes),
        "input_filter_size": st.sampled_from([1, 1, 3, 5]),
        "skip": st.booleans(),
        "alpha": st.sampled_from([1.0, 0.1, 0.5, 1.7]),
        "activation": st.sampled_from(activations),
        "c_v": st.sampled_from([2.0, 1.0, 1.3]),
        "c_w": st.sampled_from([1.0, 0.7, 1.9]),
        "readout_scale": st.sampled_from([1.0, 0.25]),
        "input_scale": st.sampled_from([None, None, 0.3]),
        "trained": st.sets(st.sampled_from(PARTS), min_size=1).map(tuple),
        "dilation": st.one_of(dilations),
        "negative_slope": st.sampled_from([0.0, 0.0, 0.01, 0.5]),
        "bias": st.sampled_from([0.0, 0.0, 0.3]),
        "norm": st.sampled_from([False, False, True]),
    }
    assert strategies.keys() == EVERY_FIELD, "each field is drawn"
    if layers == "of their own" and draw(st.booleans()):
        for name in PER_LAYER_FIELDS - {"dilation"}:
            value = strategies[name]
            if name == "outer_filter_size":
                value = sizes
            every = st.lists(value, min_size=depth, max_size=depth)
            strategies[name] = st.one_of(strategies[name], every)
    drawn = {name: draw(values) for name, values in strategies.items() if name in known}
    if not ACTIVATIONS[drawn.get("activation", "relu")].has_negative_slope:
        drawn |= {"negative_slope": 0.0}
    return rk.Network(**drawn)


@st.composite
def signals(draw, max_cases=4, max_channels=3, max_length=7, batches=1, length=None, channels=None):
    """Return `batches` arrays (cases, channels, length) of the same channels and length."""
    channels = draw(st.integers(1, max_channels)) if channels is None else channels
    length = draw(st.integers(1, max_length)) if length is None else length
    arrays = []
    for _ in range(batches):
        shape = (draw(st.integers(1, max_cases)), channels, length)
        count = int(np.prod(shape))
        flat = draw(st.lists(values, min_size=count, max_size=count))
        arrays.append(np.array(flat).reshape(shape))
    return arrays[0] if batches == 1 else tuple(arrays)


heads = st.sampled_from([*HEADS, 2])
kinds = st.sampled_from(["gpk", "ntk"])


@st.composite
def batches(draw, shapes=("signals", "images", "lists")):
    """Return two batches of the same channels: signals or images of one size, or lists of any."""
    shape = draw(st.sampled_from(shapes))
    if shape == "lists":
        channels = draw(st.integers(1, 2))
        lengths = st.lists(st.integers(1, 6), min_size=1, max_size=4)
        return tuple(
            [draw(signals(max_cases=1, channels=channels, length=d))[0] for d in draw(lengths)]
            for _ in range(2)
        )
    X, Z = draw(signals(batches=2, length=12 if shape == "images" else None))
    sides = draw(st.sampled_from([(2, 6), (3, 4), (4, 3)])) if shape == "images" else X.shape[2:]
    return tuple(batch.reshape(*batch.shape[:2], *sides) for batch in (X, Z))
