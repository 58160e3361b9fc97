"""The definition in 128-bit arithmetic: quadruple.c, thousands of times faster than 40 digits."""

import ctypes
import functools
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from rescntk.checks.values import KINDS, PARTS

from . import definition

SOURCE = Path(__file__).with_suffix(".c")
HEADS = ("equivariant", "trace", "gap")
ACTIVATIONS = ("relu", "erf", "gelu")
"""In the order of quadruple.c."""

SHARE_LEFT = 0.2
"""Least √(K_gap / K_trace) of cases that count for GAP. Its terms have both signs, whose errors are
relative to the terms: where they nearly cancel, no sum of rounded terms is accurate."""


def fields_of_struct():
    """Yield the name of each field of the struct Network in quadruple.c, its type, and whether it
    is a pointer."""
    (body,) = re.findall(r"^typedef struct \{(.*?)\} Network;", SOURCE.read_text(), re.M | re.S)
    for declaration in re.findall(r"(?:long|double) [^;]+", body):
        kind, names = declaration.split(maxsplit=1)
        for name in names.split(","):
            yield name.strip(" *\n"), kind, "*" in name


class Network(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_void_p if is_pointer else getattr(ctypes, f"c_{kind}"))
        for name, kind, is_pointer in fields_of_struct()
    )


PER_LAYER_FIELDS = {
    name: {"long": np.int64, "double": np.float64}[kind]
    for name, kind, is_pointer in fields_of_struct()
    if is_pointer
}
"""The fields of which each layer has a value in quadruple.c, with the types of their arrays."""

OF_NETWORK = "depth input_filter_size activation norm trained readout_scale input_scale"
KNOWN_FIELDS = {"negative_slope", *OF_NETWORK.split(), *PER_LAYER_FIELDS}
"""The fields of a network that stand in quadruple.c."""


@functools.cache
def library():
    """Return the compiled oracle, or the reason why there is none."""
    compiler = shutil.which(os.environ.get("CC", "gcc"))
    if compiler is None:
        return "no C compiler: install gcc"
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder, "quadruple.so")
        options = ["-O2", "-shared", "-fPIC", "-Wall", "-Wextra", "-o", str(built)]
        source = [str(SOURCE), "-lquadmath", "-lm"]
        done = subprocess.run([compiler, *options, *source], capture_output=True, text=True)
        if done.returncode:  # other compilers have no numbers of 128 bits
            return f"{compiler} does not compile quadruple.c: {done.stderr[:200]}"
        return ctypes.CDLL(str(built))


class Grams:
    """Exact kernels of signals with each other, by kind and head."""

    def __init__(self, network, X):
        definition.refuse_other_fields(network, KNOWN_FIELDS, "the arithmetic of 128 bits")
        X = np.ascontiguousarray(X, np.float64)
        n, channels, length = X.shape
        per_layer = {
            name: np.full(network.depth, getattr(network, name), kind)
            for name, kind in PER_LAYER_FIELDS.items()
        }
        per_layer["dilation"] %= length
        values = dict(
            depth=network.depth,
            input=network.input_filter_size,
            activation=ACTIVATIONS.index(network.activation),
            norm=network.norm,
            channels=channels,
            length=length,
            readout=network.readout_scale,
            input_scale=-1.0 if network.input_scale is None else network.input_scale,
            slope=network.negative_slope,
            **{f"of_{part}": part in network.trained for part in PARTS},
            **{name: array.ctypes.data for name, array in per_layer.items()},
        )
        assert values.keys() == dict(Network._fields_).keys()
        record = Network(**values)
        shape = len(KINDS), len(HEADS)
        self.high, self.low = np.empty((2, *shape, n, n))
        self.mantissa, exponent = np.empty((*shape, n)), np.empty((*shape, n), np.intc)
        arrays = (X, self.high, self.low, self.mantissa, exponent)
        x, *results = (ctypes.c_void_p(array.ctypes.data) for array in arrays)
        library().quadruple(ctypes.byref(record), x, ctypes.c_long(n), *results)
        self.exponent = exponent.astype(int)

    def error(self, K, kind, head, normalized=True):
        """Return the largest |ΔK| / √(K(x,x) K(z,z)); 0/0 is 0, and NaN is infinite."""
        of = KINDS.index(kind), HEADS.index(head)
        K, m, e = np.asarray(K, np.float64), self.mantissa[of], self.exponent[of]
        size = np.outer(m, m)
        if not normalized:
            K = np.divide(K, size, out=np.where(K == 0, 0.0, np.inf), where=size > 0)
            K = np.ldexp(np.ldexp(K, -e[:, None]), -e[None, :])
        return np.nan_to_num(np.abs(K - self.high[of] - self.low[of]), nan=np.inf).max()

    def share_left(self, kind):
        """Return the least √(K_gap / K_trace) of the signals, and 1 for signals of zeros."""
        (gap, e), (trace, f) = (
            (self.mantissa[of], self.exponent[of])
            for of in ((KINDS.index(kind), HEADS.index(head)) for head in ("gap", "trace"))
        )
        ratio = np.divide(gap, trace, out=np.ones_like(gap), where=trace > 0)
        return np.ldexp(ratio, e - f).min()

    def resolves(self, kind, head):
        """Return whether the terms of a head leave digits of their sum: see `SHARE_LEFT`."""
        return head != "gap" or self.share_left(kind) >= SHARE_LEFT
