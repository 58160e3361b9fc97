"""Hypothesis strategies: networks and signals of every kind that the library takes."""

from dataclasses import fields

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

import rescntk as rk
from rescntk.network import BASIC_FIELDS

ALL_FIELDS = {kept.name for kept in fields(rk.Network)}
sizes = st.sampled_from([1, 3, 5, 7])
# Few values, so that ties, zero pixels, opposite and parallel signals are common; and any.
values = st.one_of(
    st.integers(-3, 3).map(float),
    st.floats(-4, 4, allow_subnormal=False).map(lambda v: round(v, 3)),
)

SPECIAL = "negative_slope", "bias", "trained"
"""Fields that the loops of "numba" are compiled apart for; "trained" is "inner" or "readout" alone.

A network has none, one or all of them. Those with any have filters of 3 pixels where they have no
skip connections, and only there: the sweep is compiled apart for both. With all combinations,
compiling would take minutes more; --hypothesis-profile=stress has them.
"""


@st.composite
def networks(draw, known=BASIC_FIELDS, max_depth=6, activations=("relu", "erf"), dilated="never"):
    """Return networks with values of the `known` fields; others keep their defaults.

    `dilated` is "never", "evenly" (one for all layers) or "freely".
    """
    depth = draw(st.integers(1, max_depth))
    few = [(), *([name] for name in SPECIAL), *([SPECIAL] if known >= set(SPECIAL) else [])]
    every = st.sets(st.sampled_from(SPECIAL))
    special = draw(st.sampled_from(few) if settings.default.derandomize else every)
    ends = [("inner",), ("readout",)] if "trained" in special else [(), ("inner", "readout")]
    skip, inner, outer = draw(st.booleans()), sizes, st.one_of(st.none(), sizes)
    if special and settings.default.derandomize:
        inner = st.sampled_from([1, 5, 7]) if skip else st.just(3)
        outer, dilated = (outer, dilated) if skip else (st.sampled_from([None, 3]), "never")
    steps = st.integers(1, 4)
    dilations = [st.just(1)] if dilated == "never" else [st.just(1), st.just(1), steps]
    if dilated == "freely":
        dilations.append(st.lists(steps, min_size=depth, max_size=depth))
    strategies = {
        "depth": st.just(depth),
        "filter_size": inner,
        "outer_filter_size": outer,
        "input_filter_size": st.sampled_from([1, 1, 3, 5]),
        "skip": st.just(skip),
        "alpha": st.sampled_from([1.0, 0.1, 0.5, 1.7]),
        "activation": st.sampled_from(activations),
        "c_v": st.sampled_from([2.0, 1.0, 1.3]),
        "c_w": st.sampled_from([1.0, 0.7, 1.9]),
        "readout_scale": st.sampled_from([1.0, 0.25]),
        "input_scale": st.sampled_from([None, None, 1.0]),
        "trained": st.builds(
            lambda ends, others: (*ends, *others),
            st.sampled_from(ends),
            st.sets(st.sampled_from(["input", "outer"])),
        ),
        "dilation": st.one_of(dilations),
        "negative_slope": st.sampled_from([0.01, 0.5] if "negative_slope" in special else [0.0]),
        "bias": st.just(0.3 if "bias" in special else 0.0),
    }
    assert strategies.keys() == ALL_FIELDS, "each field is drawn"
    drawn = {name: draw(values) for name, values in strategies.items() if name in known}
    if drawn.get("activation", "relu") != "relu":  # these fields are about ReLU
        drawn |= dict.fromkeys(("negative_slope", "bias"), 0.0)
    return rk.Network(**drawn)


@st.composite
def signals(draw, max_cases=4, max_channels=3, max_length=7, batches=1, length=None):
    """Return `batches` arrays (cases, channels, length) of the same channels and length."""
    channels = draw(st.integers(1, max_channels))
    length = draw(st.integers(1, max_length)) if length is None else length
    arrays = []
    for _ in range(batches):
        shape = (draw(st.integers(1, max_cases)), channels, length)
        count = int(np.prod(shape))
        flat = draw(st.lists(values, min_size=count, max_size=count))
        arrays.append(np.array(flat).reshape(shape))
    return arrays[0] if batches == 1 else tuple(arrays)


heads = st.sampled_from(["equivariant", "trace", "gap"])
kinds = st.sampled_from(["gpk", "ntk"])


@st.composite
def signal_lists(draw, max_cases=4, max_channels=2, max_length=6):
    """Return a list of signals (channels, length) of different lengths, or of one."""
    channels = draw(st.integers(1, max_channels))
    lengths = draw(st.lists(st.integers(1, max_length), min_size=1, max_size=max_cases))
    several = []
    for length in lengths:
        flat = draw(st.lists(values, min_size=channels * length, max_size=channels * length))
        several.append(np.array(flat).reshape(channels, length))
    return several
