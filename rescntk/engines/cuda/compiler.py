"""The kernels' text, its compiled instances, and the device that they run on.

NVRTC compiles an instance of `rows` in a second or two when it is first asked for. CuPy from 14.2
on keeps compiled kernels on disk, older versions compile anew in every process.
"""

from __future__ import annotations

import functools
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

OPTIONS = ("--std=c++17", "--fmad=false", "--prec-sqrt=false", "--prec-div=false")
"""a·b + c is fused where the text says so. Approximate float32 roots err by one unit."""


class DeviceLimits(NamedTuple):
    shared_bytes: int  # shared memory that a block may have
    multiprocessors: int
    double_cost: int  # float32 operations in the time of a float64 operation: 2, or 32 to 64


def source() -> str:
    """Return the text of all kernels: CuPy tells them apart by their text, without includes."""
    seen = set()

    def text(path: Path) -> str:
        path = path.resolve()
        if path in seen or path.name == "lanes.h":  # vectors of processors
            return ""
        seen.add(path)
        lines = path.read_text(encoding="utf-8").replace("#pragma once\n", "")
        return re.sub(r'#include "(.*)".*', lambda match: text(path.parent / match[1]), lines)

    return text(Path(__file__).parent / "rows.cu")


@functools.cache
def compiled(device: int, name: str) -> Any:
    """Return a compiled kernel of the current device, whose number is `device`."""
    cupy = import_module("cupy")
    module = cupy.RawModule(code=source(), options=OPTIONS, name_expressions=[name])
    kernel = module.get_function(name)
    # Set once for signals of all lengths: CuPy's modules of the same text share functions, and
    # the functions share this limit.
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


def free_bytes(cupy: ModuleType) -> int:
    """Return the free memory in bytes: on the device and in CuPy's pool, within its limit."""
    free, _ = cupy.cuda.runtime.memGetInfo()
    pool = cupy.get_default_memory_pool()
    free, limit = int(free) + int(pool.free_bytes()), int(pool.get_limit())
    return min(free, max(0, limit - int(pool.used_bytes()))) if limit else free
