"""A stand-in for CuPy whose kernels run: on the host, through the C++ compiler.

`fake_cupy` with what the engine "cuda" needs beyond arrays. A kernel's own text is compiled, with
cuda_on_host.h in place of CUDA, and called with the record that CuPy would pass.
"""

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import sys
import types
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from tests.engines.cuda import fake_cupy

COMPILER = shutil.which("g++") or shutil.which("clang++")
MISSING = "no C++ compiler: install g++"
on_host = pytest.mark.skipif(COMPILER is None, reason=MISSING)
PRELUDE = Path(__file__).parent / "cuda_on_host.h"

# Contraction of a·b + c is asked for where it is meant, on host and device.
FLAGS = "-std=c++17 -O0 -ffp-contract=off -march=native -fPIC -w"

# What a C++ compiler cannot know.
DYNAMIC = "extern __shared__ double memory[];"
DYNAMIC_HERE = "double *const memory = host::memory;"
SHARED = re.compile(r"__shared__ ([^;]+?) (\w+)((?:\[[^;]+\])?);")
SHARED_HERE = r"""static \1 \2\3;
    static long long \2_spoilt_in;
    host::spoil_once(&\2, sizeof(\2), \2_spoilt_in);"""

WRAPPER = """
static void **arguments;
extern "C" int run(long long blocks, int threads, int together, size_t shared, void **given)
{{
    arguments = given;
    return host::run(blocks, threads, together, shared, [] {{ host::call({name}, arguments); }});
}}
"""


def on_the_host(source):
    """Return the kernels' text for a C++ compiler that reads `PRELUDE` first."""
    assert source.count(DYNAMIC) == 1
    return SHARED.sub(SHARED_HERE, source.replace(DYNAMIC, DYNAMIC_HERE))


def build(text, folder):
    """Return a library made of C++ text behind `PRELUDE`, compiled if `folder` does not have it."""
    folder.mkdir(parents=True, exist_ok=True)
    prelude = PRELUDE.read_text()
    library = folder / f"{_key(prelude + text)}.so"
    if not library.exists():
        # Reading the prelude takes as long as compiling a kernel: the compiler keeps what it read.
        header = folder / f"{_key(prelude)}.h"
        if not (read := header.with_suffix(".h.gch")).exists():
            _write(header, lambda path: path.write_text(prelude))
            _write(read, lambda path: _compile(["-x", "c++-header", str(header)], path))
        source = library.with_suffix(".cpp")
        _write(source, lambda path: path.write_text(text))
        options = ["-shared", "-include", str(header), str(source)]
        _write(library, lambda path: _compile(options, path))
    return ctypes.CDLL(str(library))


def _key(text):
    return hashlib.sha256((text + FLAGS).encode()).hexdigest()[:24]


def _compile(options, path):
    subprocess.run([COMPILER, *FLAGS.split(), *options, "-o", str(path)], check=True)


def _write(path, write):
    """Let `write` make a file, which appears when it is whole: several processes may be at it."""
    own = path.with_name(f"{os.getpid()}-{path.name}")
    write(own)
    own.rename(path)


class RawModule:
    """Like CuPy's; `folder` keeps what is compiled."""

    folder = None
    limits: ClassVar[dict] = {}

    def __init__(self, code, options, name_expressions):
        assert "--fmad=false" in options
        self.code, self.names = code, name_expressions

    def get_function(self, name):
        assert name in self.names
        text = on_the_host(self.code) + WRAPPER.format(name=name)
        return Kernel(build(text, self.folder), name, self.limits)


class Kernel:
    """A function of a module. All of one name share what they may take of shared memory.

    So it is with CuPy, whose modules of one text are one.
    """

    def __init__(self, library, name, limits):
        self.library, self.name, self.limits = library, name, limits

    @property
    def max_dynamic_shared_size_bytes(self):
        return self.limits.get(self.name, 48 * 1024)

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, most):
        runtime = sys.modules["cupy"].cuda.runtime
        assert most <= runtime.deviceGetAttribute(97, 0), "CUDA_ERROR_INVALID_VALUE"
        self.limits[self.name] = most

    def __call__(self, grid, block, arguments, shared_mem):
        assert shared_mem <= self.max_dynamic_shared_size_bytes, "CUDA_ERROR_INVALID_VALUE"
        (blocks,), (threads,) = grid, block
        (job,) = arguments
        assert job.shape == (1,) and job.dtype.isalignedstruct
        job = job.copy()
        guarded = list(_guard_pointers(job))
        given = (ctypes.c_void_p * 1)(job.ctypes.data)
        together = 32 if self.name.startswith("short_rows") else threads
        run = self.library.run
        run.argtypes = [
            ctypes.c_longlong,
            ctypes.c_int,
            ctypes.c_int,
            ctypes.c_size_t,
            ctypes.c_void_p,
        ]
        assert not run(blocks, threads, together, shared_mem, given), "threads parted"
        for array, copy in guarded:
            copy.back(array)


def _guard_pointers(record):
    """Point a record's pointers to guarded copies, and yield each array with its copy."""
    for name, (kind, *_) in record.dtype.fields.items():
        if kind.names:
            yield from _guard_pointers(record[name])
        elif kind == np.uint64:
            (address,) = record[name].tolist()
            if not address:
                continue
            array = fake_cupy.LIVE[address]._array  # KeyError: the array is gone
            copy = _Guarded(array)
            record[name] = copy.inside.ctypes.data
            yield array, copy


class _Guarded:
    """A copy of an array, aligned as CuPy does it, between bytes that no kernel may touch.

    They are NaN as numbers, so that reading them shows.
    """

    def __init__(self, array, guard=512):
        self.bytes = np.full(array.nbytes + 3 * guard, 0xFF, dtype=np.uint8)
        start = guard + -self.bytes.ctypes.data % guard
        self.inside = self.bytes[start : start + array.nbytes]
        self.inside[:] = np.ascontiguousarray(array).view(np.uint8).ravel()
        self.outside = self.bytes[:start], self.bytes[start + array.nbytes :]

    def back(self, array):
        assert all((part == 0xFF).all() for part in self.outside), "written out of bounds"
        array[...] = self.inside.view(array.dtype).reshape(array.shape)


def module(folder, memory=None):
    """Return the module to put in place of cupy.

    `folder` is for compiled kernels, and `memory` counts what arrays take.
    """
    fake = fake_cupy.module()
    memory = fake_cupy.Memory(2**30) if memory is None else memory
    fake_cupy.ndarray.memory = memory
    runtime = fake.cuda.runtime
    runtime.getDeviceCount = lambda: 1
    runtime.getDevice = lambda: 0
    runtime.memGetInfo = lambda: (memory.size - memory.used, memory.size)
    runtime.cudaDevAttrMaxSharedMemoryPerBlockOptin = 97
    runtime.deviceGetAttribute = lambda what, device: {97: 227 * 1024}[what]
    pool = types.SimpleNamespace(
        free_bytes=lambda: 0, used_bytes=lambda: memory.used, get_limit=lambda: 0
    )
    fake.get_default_memory_pool = lambda: pool
    fake.cuda.nvrtc = types.SimpleNamespace(getVersion=lambda: (13, 0))
    fake.cuda.get_current_stream = lambda: types.SimpleNamespace(synchronize=lambda: None)
    fake.RawModule = type("RawModule", (RawModule,), {"folder": folder, "limits": {}})
    return fake
