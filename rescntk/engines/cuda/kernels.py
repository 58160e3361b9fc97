"""The kernels' text, and its compiled instances.

A kernel is compiled when it is first asked for, for one precision, filters, kinds and cut of a row
(`Launch.name`). NVRTC does that in about a second; it comes with a CUDA toolkit or with the
extras cuda12 and cuda13. CuPy from 14.2 on keeps compiled kernels on disk, older versions compile
anew in every process.
"""

from __future__ import annotations

import functools
import re
from importlib import import_module
from pathlib import Path
from typing import Any

from .. import polynomials, scaling
from .launch import ENUMS

FILES = (
    "numbers.h",
    "activations.h",
    "windows.h",
    "rows.h",
    "doubt.h",
    "layers.h",
    "heads.h",
    "short_rows.cu",
    "long_rows.cu",
)
"""Files of the kernels' text, each after the files that it includes."""

OPTIONS = ("--std=c++17", "--fmad=false")


def source() -> str:
    """Return the text of all kernels, with the coefficients of polynomials.py."""
    lines = []
    for name in ("P64", "R64", "P32", "R32"):
        real, end = ("double", "") if name.endswith("64") else ("float", "f")
        numbers = getattr(polynomials, name)
        values = ", ".join(float(number).hex() + end for number in numbers)
        lines.append(f"__constant__ {real} {name}[{len(numbers)}] = {{{values}}};")
    for name in ("DOUBTFUL", "MOST_E"):
        lines.append(f"constexpr double {name} = {getattr(scaling, name)!r};")
    lines += [f"enum {name} {{ {', '.join(members)} }};" for name, members in ENUMS.items()]
    # One text, because CuPy tells compiled kernels apart by their text and not by included files.
    for name in FILES:
        text = (Path(__file__).parent / name).read_text(encoding="utf-8")
        lines.append(re.sub(r'^#include ".*"\n', "", text, flags=re.MULTILINE))
    # CuPy writes the text to a file in the locale's encoding, so Greek in comments becomes "?".
    return "\n".join(lines).encode("ascii", "replace").decode("ascii")


@functools.cache
def compiled(device: int, name: str) -> Any:
    """Return a compiled kernel of the current device, whose number is `device`."""
    cupy = import_module("cupy")
    module = cupy.RawModule(code=source(), options=OPTIONS, name_expressions=[name])
    kernel = module.get_function(name)
    if name.startswith("long_rows"):
        # Set once for signals of all lengths: CuPy's modules of the same text share functions,
        # and the functions share this limit.
        kernel.max_dynamic_shared_size_bytes = shared_bytes(cupy)
    return kernel


def shared_bytes(cupy: Any) -> int:
    """Return the shared memory in bytes that a block may have on the current device."""
    runtime = cupy.cuda.runtime
    attribute = runtime.cudaDevAttrMaxSharedMemoryPerBlockOptin
    return int(runtime.deviceGetAttribute(attribute, runtime.getDevice()))
