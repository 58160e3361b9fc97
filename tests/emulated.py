"""A stand-in for CuPy whose kernels run: on the host, through the C++ compiler.

`fake_cupy` with what the engine "cuda" needs beyond arrays. A kernel is compiled as it is, with
cuda_on_host.h in place of CUDA, and called with the arguments that CuPy would pass.
"""

import ctypes
import hashlib
import shutil
import subprocess
import types
from pathlib import Path

import numpy as np

from . import fake_cupy

COMPILER = shutil.which("g++") or shutil.which("clang++")
MISSING = "no C++ compiler: install g++"
PRELUDE = Path(__file__).parent / "cuda_on_host.h"

# Contraction of a·b + c is asked for where it is meant, on host and device.
FLAGS = "-std=c++17 -O1 -ffp-contract=off -march=native -shared -fPIC -w"

WRAPPER = """
static void **arguments;
extern "C" int run(long long blocks, int threads, int together, size_t shared, void **given)
{{
    arguments = given;
    return host::run(blocks, threads, together, shared, [] {{ host::call({name}, arguments); }});
}}
"""


def build(text, folder):
    """Return a library made of C++ text, compiled if `folder` does not have it."""
    folder.mkdir(parents=True, exist_ok=True)
    key = hashlib.sha256((text + FLAGS).encode()).hexdigest()[:24]
    library = folder / f"{key}.so"
    if not library.exists():
        own = folder / f"{key}-{id(text)}"  # several processes may be at it
        own.with_suffix(".cpp").write_text(text)
        command = [COMPILER, *FLAGS.split(), str(own.with_suffix(".cpp")), "-o", str(own)]
        subprocess.run(command, check=True)
        own.rename(library)
    return ctypes.CDLL(str(library))


class RawModule:
    """Like CuPy's; `folder` keeps what is compiled."""

    folder = None

    def __init__(self, code, options, name_expressions):
        assert "--fmad=false" in options
        self.code, self.names = code, name_expressions

    def get_function(self, name):
        assert name in self.names
        dynamic = "extern __shared__ double memory[];"
        assert self.code.count(dynamic) == 1
        code = self.code.replace(dynamic, "double *const memory = host::memory.data();")
        text = f"{PRELUDE.read_text()}\n{code}\n{WRAPPER.format(name=name)}"
        return Kernel(build(text, self.folder), name)


class Kernel:
    shared_size_bytes = 8192

    def __init__(self, library, name):
        self.library, self.warps_meet = library, name.startswith("short_rows")

    def __call__(self, grid, block, arguments, shared_mem):
        (blocks,), (threads,) = grid, block
        boxes = []
        for value in arguments:
            if isinstance(value, fake_cupy.ndarray):
                array = value._array
                assert array.flags.c_contiguous
                boxes.append(ctypes.c_void_p(array.ctypes.data))
            else:
                assert isinstance(value, np.generic), f"a kernel cannot take {value!r}"
                boxes.append(np.array(value).ctypes)
        addresses = [box.data if hasattr(box, "data") else ctypes.addressof(box) for box in boxes]
        given = (ctypes.c_void_p * len(addresses))(*addresses)
        together = 32 if self.warps_meet else threads
        run = self.library.run
        run.argtypes = [
            ctypes.c_longlong,
            ctypes.c_int,
            ctypes.c_int,
            ctypes.c_size_t,
            ctypes.c_void_p,
        ]
        assert not run(blocks, threads, together, shared_mem, given), "threads parted"


def module(folder, free_bytes=2**30):
    """Return the module to put in place of cupy; `folder` is for compiled kernels."""
    fake = fake_cupy.module()
    runtime = fake.cuda.runtime
    runtime.getDeviceCount = lambda: 1
    runtime.getDevice = lambda: 0
    runtime.memGetInfo = lambda: (free_bytes, 2 * free_bytes)
    attributes = {"MaxSharedMemoryPerBlockOptin": 227 * 1024}
    fake.cuda.Device = lambda number: types.SimpleNamespace(attributes=attributes)
    fake.get_default_memory_pool = lambda: types.SimpleNamespace(free_bytes=lambda: 0)
    fake.RawModule = type("RawModule", (RawModule,), {"folder": folder})
    return fake
