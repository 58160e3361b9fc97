"""A stand-in for CuPy whose kernels run: on the host, through the C++ compiler.

Its arrays are NumPy's and, like CuPy's, do not become NumPy's silently. A kernel's own text is
compiled, with cuda_on_host.h in place of CUDA, and called with the record that CuPy would pass.
"""

import collections
import ctypes
import hashlib
import os
import shutil
import subprocess
import types
import weakref
from pathlib import Path

import numpy as np
import pytest

COMPILER = shutil.which("g++") or shutil.which("clang++")
on_host = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler: install g++")
PRELUDE = Path(__file__).parent / "cuda_on_host.h"

# Contraction of a·b + c is asked for where it is meant, on host and device.
FLAGS = "-std=c++17 -O0 -ffp-contract=off -march=native -fPIC -w"

DYNAMIC = "extern __shared__ __align__(16) double memory[];"
DYNAMIC_HERE = "double *const memory = host::memory;"

WRAPPER = """
static void **arguments;
extern "C" int run(long long blocks, int threads, size_t shared, void **given)
{{
    arguments = given;
    return host::run(blocks, threads, shared, [] {{ host::call({name}, arguments); }});
}}
"""

FUNCTIONS = (
    "abs add arange arctan argmin ascontiguousarray broadcast_to clip concatenate empty floor "
    "floor_divide frexp full full_like isfinite isnan ldexp maximum minimum moveaxis nonzero ones "
    "ones_like roll sort sqrt stack take where zeros zeros_like"
)
OPERATORS = (
    "add radd iadd sub rsub isub mul rmul imul truediv rtruediv itruediv pow neg abs lt le gt ge "
    "eq ne and or invert matmul mod floordiv"
)

ATTRIBUTES = {"MaxSharedMemoryPerBlockOptin": 227 * 1024, "MultiProcessorCount": 132,
              "SingleToDoublePrecisionPerfRatio": 2}  # fmt: skip

counts = collections.Counter()
"""What the device was asked to do: operations, launches, and waits of the host for an answer."""


class Device:
    current = 0


def _inner(value):
    if isinstance(value, ndarray):
        if value.number != Device.current:
            raise ValueError("Array device must be same as the current device")
        return value._array
    if isinstance(value, (np.ndarray, np.generic)) and np.ndim(value):
        raise TypeError("Unsupported type <class 'numpy.ndarray'>")
    if isinstance(value, (tuple, list)):
        return type(value)(_inner(item) for item in value)
    return value


def _outer(value):
    if isinstance(value, (np.ndarray, np.generic)):
        return ndarray(np.asarray(value))
    if isinstance(value, tuple):
        return tuple(_outer(item) for item in value)
    return value


def _through(function):
    def call(*args, **kwargs):
        # CuPy's nonzero waits for the number of places that it found.
        counts["waits"] += getattr(function, "__name__", "") in ("nonzero", "flatnonzero")
        inner = {name: _inner(value) for name, value in kwargs.items()}
        return _outer(function(*map(_inner, args), **inner))

    return call


LIVE = weakref.WeakValueDictionary()
"""Address -> array, of live arrays whose address was asked for: for kernels that get pointers."""


class ndarray:
    """CuPy's array: a NumPy array that NumPy cannot look into."""

    def __init__(self, array):
        counts["operations"] += 1
        self._array, self.number = array, Device.current

    @property
    def data(self):
        """The device's memory, of which `ptr` is the address."""
        assert self._array.flags.c_contiguous
        address = self._array.ctypes.data
        LIVE[address] = self
        return types.SimpleNamespace(ptr=address)

    def __array__(self, *args, **kwargs):
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    __array_ufunc__ = None

    def __getattr__(self, name):
        value = getattr(self._array, name)
        if callable(value):
            return _through(getattr(_inner(self), name))
        return value if name in ("shape", "ndim", "dtype", "size", "strides") else _outer(value)

    def __getitem__(self, index):
        return ndarray(np.asarray(self._array[_inner(index)]))

    def __setitem__(self, index, value):
        counts["operations"] += 1
        self._array[_inner(index)] = _inner(value)

    def __iter__(self):
        return (self[i] for i in range(len(self._array)))

    def __len__(self):
        return len(self._array)


def _operator(name):
    def apply(self, *others):
        result = getattr(_inner(self), name)(*map(_inner, others))
        return self if name.startswith("__i") and name != "__invert__" else _outer(result)

    return apply


def _number(convert):
    def apply(self):
        counts["waits"] += 1
        return convert(self._array)

    return apply


for _name in OPERATORS.split():
    setattr(ndarray, f"__{_name}__", _operator(f"__{_name}__"))
for _convert in (float, int, bool):
    setattr(ndarray, f"__{_convert.__name__}__", _number(_convert))
ndarray.__module__ = "cupy"


def build(text, folder):
    """Return a library of C++ text after `PRELUDE`, which the compiler reads once for all."""
    folder.mkdir(parents=True, exist_ok=True)
    prelude = PRELUDE.read_text()
    library, header = folder / f"{_key(prelude + text)}.so", folder / f"{_key(prelude)}.h"
    if not library.exists():
        if not (read := header.with_suffix(".h.gch")).exists():
            _appear(header, lambda new: new.write_text(prelude))
            _appear(read, _compile("-x", "c++-header", header))
        source = library.with_suffix(".cpp")
        _appear(source, lambda new: new.write_text(text))
        _appear(library, _compile("-shared", "-include", header, source))
    return ctypes.CDLL(str(library))


def _key(text):
    return hashlib.sha256((text + FLAGS).encode()).hexdigest()[:24]


def _appear(path, make):
    """Make a file that appears when it is whole: several processes may be at it."""
    make(new := path.with_name(f"{os.getpid()}-{path.name}"))
    new.rename(path)


def _compile(*options):
    command = [COMPILER, *FLAGS.split(), *options]
    return lambda path: subprocess.run([*command, "-o", path], check=True)


class Kernel:
    max_dynamic_shared_size_bytes = 48 * 1024

    def __init__(self, library, name):
        self.library, self.name = library, name

    def __call__(self, grid, block, arguments, shared_mem):
        counts["launches"] += 1
        most = ATTRIBUTES["MaxSharedMemoryPerBlockOptin"]
        assert shared_mem <= self.max_dynamic_shared_size_bytes <= most, "CUDA_ERROR_INVALID_VALUE"
        (blocks,), (threads,), (job,) = grid, block, arguments
        assert job.shape == (1,) and job.dtype.isalignedstruct
        job = job.copy()
        copies = list(_guard_pointers(job))
        record = (ctypes.c_void_p * 1)(job.ctypes.data)
        run = self.library.run
        run.argtypes = [ctypes.c_longlong, ctypes.c_int, ctypes.c_size_t, ctypes.c_void_p]
        assert not run(blocks, threads, shared_mem, record), "threads parted"
        for array, inside, outside in copies:
            assert all((part == 0xFF).all() for part in outside), "written out of bounds"
            array[...] = inside.view(array.dtype).reshape(array.shape)


def _guard_pointers(record, guard=512):
    """Point a record's pointers to copies with NaN around; yield arrays, copies, bytes around."""
    for name, (kind, *_) in record.dtype.fields.items():
        if kind.names:
            yield from _guard_pointers(record[name])
        elif kind == np.uint64 and record[name][0]:
            array = LIVE[int(record[name][0])]._array  # KeyError: the array is gone
            room = np.full(array.nbytes + 3 * guard, 0xFF, dtype=np.uint8)
            start = guard + -room.ctypes.data % guard
            inside = room[start : start + array.nbytes]
            inside[:] = np.ascontiguousarray(array).view(np.uint8).ravel()
            record[name] = inside.ctypes.data
            yield array, inside, (room[:start], room[start + array.nbytes :])


class CUDARuntimeError(RuntimeError):
    """An error with a status, as CuPy's are."""

    def __init__(self, status, text=""):
        super().__init__(text)
        self.status = status


def _asnumpy(array):
    counts["waits"] += 1
    return np.array(_inner(array))


def module(folder):
    """Return the module to put in place of cupy; `folder` is for compiled kernels."""
    fake = types.ModuleType("cupy")
    fake.ndarray, fake.float64, fake.dtype = ndarray, np.float64, np.dtype
    for name in FUNCTIONS.split():
        setattr(fake, name, _through(getattr(np, name)))
    strided = types.SimpleNamespace(as_strided=_through(np.lib.stride_tricks.as_strided))
    fake.lib = types.SimpleNamespace(stride_tricks=strided)
    fake.add.reduceat = _through(np.add.reduceat)
    fake.asarray = lambda a, dtype=None: ndarray(
        np.array(a._array if isinstance(a, ndarray) else a, dtype=dtype)
    )
    fake.asnumpy = _asnumpy
    runtime = types.SimpleNamespace(
        CUDARuntimeError=CUDARuntimeError,
        getDeviceCount=lambda: 1,
        getDevice=lambda: Device.current,
        memGetInfo=lambda: (2**30, 2**30),
        deviceGetAttribute=lambda name, device: ATTRIBUTES[name],
        **{f"cudaDevAttr{name}": name for name in ATTRIBUTES},
    )
    fake.cuda = types.SimpleNamespace(
        runtime=runtime,
        nvrtc=types.SimpleNamespace(getVersion=lambda: (13, 0)),
        get_current_stream=lambda: types.SimpleNamespace(synchronize=lambda: None),
    )
    pool = types.SimpleNamespace(free_bytes=lambda: 0, used_bytes=lambda: 0, get_limit=lambda: 0)
    fake.get_default_memory_pool = lambda: pool

    def raw_module(code, options, name_expressions):
        assert "--fmad=false" in options and code.count(DYNAMIC) == 1
        macros = [f"#define {option[2:]}\n" for option in options if option.startswith("-D")]
        code = "".join(macros) + code

        def get_function(name):
            assert name in name_expressions
            text = code.replace(DYNAMIC, DYNAMIC_HERE) + WRAPPER.format(name=name)
            return Kernel(build(text, folder), name)

        return types.SimpleNamespace(get_function=get_function)

    fake.RawModule = raw_module
    return fake
