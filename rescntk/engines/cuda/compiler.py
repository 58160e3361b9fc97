"""The kernels' text, its compiled instances, and the device that they run on.

NVRTC compiles a kernel (`LaunchPlan.name`) in about a second when it is first asked for. CuPy from
14.2 on keeps compiled kernels on disk, older versions compile anew in every process.
"""

from __future__ import annotations

import functools
import re
from importlib import import_module
from pathlib import Path
from typing import Any

from .. import polynomials
from . import doubt
from .launch_plan import DeviceLimits

FILES = (
    *("numbers.h", "activations.h", "windows.h", "rows.h", "doubt.h", "layers.h", "heads.h"),
    *("short_rows.cu", "long_rows.cu"),
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
    for name, value in (("DOUBTFUL", doubt.DOUBTFUL), ("MOST_E", doubt.MOST_E["float64"])):
        lines.append(f"constexpr double {name} = {value!r};")
    # One text, because CuPy tells compiled kernels apart by their text and not by included files.
    for name in FILES:
        text = (Path(__file__).parent / name).read_text(encoding="utf-8")
        lines.append(re.sub(r'^#include ".*"\n', "", text, flags=re.MULTILINE))
    # CuPy writes the text to a file in the locale's encoding, so Greek in comments becomes "?".
    return "\n".join(lines).encode("ascii", "replace").decode("ascii")


@functools.cache
def compiled(device: int, name: str, constants: tuple[str, ...] = ()) -> Any:
    """Return a compiled kernel of the current device, whose number is `device`.

    `constants` are the names of `Activation.constants`, in capitals macros of the text.
    """
    cupy = import_module("cupy")
    options = *OPTIONS, *(f"-D{constant.upper()}" for constant in constants)
    module = cupy.RawModule(code=source(), options=options, name_expressions=[name])
    kernel = module.get_function(name)
    if name.startswith("long_rows"):
        # Set once for signals of all lengths: CuPy's modules of the same text share functions,
        # and the functions share this limit.
        kernel.max_dynamic_shared_size_bytes = device_limits().shared_bytes
    return kernel


def device_limits() -> DeviceLimits:
    runtime = import_module("cupy").cuda.runtime
    attributes = (
        runtime.cudaDevAttrMaxSharedMemoryPerBlockOptin,
        runtime.cudaDevAttrMultiProcessorCount,
        runtime.cudaDevAttrSingleToDoublePrecisionPerfRatio,
    )
    device = runtime.getDevice()
    return DeviceLimits(*(int(runtime.deviceGetAttribute(what, device)) for what in attributes))


def free_bytes(cupy: Any) -> int:
    """Return the free memory in bytes: on the device and in CuPy's pool, within its limit."""
    free, _ = cupy.cuda.runtime.memGetInfo()
    pool = cupy.get_default_memory_pool()
    free, limit = int(free) + int(pool.free_bytes()), int(pool.get_limit())
    return min(free, max(0, limit - int(pool.used_bytes()))) if limit else free
