"""The source text of the GPU kernel, its compiled instances, and the limits of the device.

NVRTC compiles an instance of the template `rows` when it is first needed, in a second or two. CuPy
from 14.2 on keeps compiled instances on disk; older versions compile them again in each process.
"""

from __future__ import annotations

import functools
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

OPTIONS = ("--std=c++17", "--fmad=false", "--prec-sqrt=false", "--prec-div=false")
"""Compiler options: a·b + c is fused only where the text does so, and approximate float32 roots are
allowed, whose error is one unit in the last place."""


class DeviceLimits(NamedTuple):
    """Limits and numbers of a CUDA device."""

    shared_bytes: int
    """The bytes of shared memory that a block may have."""
    multiprocessors: int
    """The number of multiprocessors."""
    double_cost: int
    """How many float32 operations take as long as a float64 operation: 2, or 32 to 64."""


def source() -> str:
    """Return the source text of the GPU kernel with the text of all included files.

    CuPy recognizes compiled kernels by their text, but does not look into included files.
    """
    seen = set()

    def text(path: Path) -> str:
        path = path.resolve()
        if path in seen or path.name == "lanes.h":  # lanes.h has the vectors of processors
            return ""
        seen.add(path)
        lines = path.read_text(encoding="utf-8").replace("#pragma once\n", "")
        return re.sub(r'#include "(.*)".*', lambda match: text(path.parent / match[1]), lines)

    return text(Path(__file__).parent / "rows.cu")


@functools.cache
def compiled(device: int, name: str) -> Any:
    """Return the compiled instance `name` for the current device, whose number is `device`."""
    cupy = import_module("cupy")
    module = cupy.RawModule(code=source(), options=OPTIONS, name_expressions=[name])
    kernel = module.get_function(name)
    # The limit is set once, for signals of all lengths: CuPy's modules with the same text share
    # their functions, and so this limit.
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
    """Return the bytes of memory that CuPy can still allocate on the device.

    They include the free memory of CuPy's pool, and respect the pool's limit.
    """
    free, _ = cupy.cuda.runtime.memGetInfo()
    pool = cupy.get_default_memory_pool()
    free, limit = int(free) + int(pool.free_bytes()), int(pool.get_limit())
    return min(free, max(0, limit - int(pool.used_bytes()))) if limit else free
