"""The records of records.h, which tell the compiled loops what to do, as NumPy's types."""

from __future__ import annotations

from typing import Any

import numpy as np

HEADS = ("sums", "shares", "pixel 1", "pixels")
"""What loops return, in the order of `Head`."""


def record(fields: str, **nested: np.dtype) -> np.dtype:
    """Return a record of 8 bytes a field; * marks addresses, . floats, others are integers."""
    kinds = {"*": np.dtype(np.uint64), ".": np.dtype(np.float64)}
    pairs = [
        (name.strip("*."), nested.get(name, kinds.get(name[-1], np.dtype(np.int64))))
        for name in fields.split()
    ]
    return np.dtype(pairs, align=True)


WINDOW = record("taps step axis is_triangle weight. rest.")
LAYER = record(
    "inner n_inner inner_bias root inverse outer n_outer outer_bias skip features joined enters "
    "report inner_product. outer_product. keep. share. kept."
)
SIDE = record("rows* begin* length* key* bias* means* parts* longest")
JOB = record(
    "bytes left right first_left last_left first_right last_right cases columns extent head "
    "all_pairs symmetric paired channels height width n_rows lanes depth n_input n_merges "
    "n_windows has_opposite with_ntk windows* merges* layers* keep. share. linear_share. initial. "
    "inner_minus_readout. outer_plus_readout. readout. gpk* ntk* stop*",
    left=SIDE,
    right=SIDE,
)


def pointer(array: Any) -> int:
    """Return the address of the numbers of a NumPy array, or of a CuPy array on its device."""
    if isinstance(array, np.ndarray):
        plain = array if array.dtype.names is None else array.view(np.uint8)  # which is faster
        return int(plain.__array_interface__["data"][0])
    return int(array.data.ptr)


def filled(kind: np.dtype, **fields: Any) -> np.ndarray:
    """Return one record, (1,), with fields that may be records; others are 0."""
    made = np.zeros(1, kind)
    for name, value in fields.items():
        made[name] = value
    return made
