"""A stand-in for CuPy without a GPU: NumPy behind a class that NumPy cannot look into.

Like CuPy's arrays these refuse to be turned into NumPy's silently and to be mixed with them,
so code that passes runs on one library from end to end. It has the functions the engines
use and CuPy has; reaching for any other is an AttributeError.
"""

import types
import weakref

import numpy as np

_FUNCTIONS = (
    "abs add arange arctan arctan2 argmin ascontiguousarray broadcast_to clip concatenate copyto "
    "divide empty empty_like flatnonzero floor floor_divide frexp full full_like isfinite "
    "ldexp maximum minimum multiply nonzero ones ones_like roll sqrt stack subtract take where "
    "zeros zeros_like"
)
_OPERATORS = (
    "add radd iadd sub rsub isub mul rmul imul truediv rtruediv itruediv pow neg abs lt le gt ge "
    "eq ne and or invert matmul mod floordiv"
)


def _inner(value):
    if isinstance(value, ndarray):
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
        inner = {name: _inner(value) for name, value in kwargs.items()}
        return _outer(function(*map(_inner, args), **inner))

    return call


class Memory:
    """A device's memory: what live arrays take of it, in whole blocks of CuPy's pool."""

    def __init__(self, size, block=512):
        self.size, self.block, self.used, self.known = size, block, 0, set()

    def take(self, array):
        while isinstance(array.base, np.ndarray):  # of views what they look at
            array = array.base
        if id(array) in self.known:
            return
        taken = -(-array.nbytes // self.block) * self.block
        if self.used + taken > self.size:
            raise MemoryError(f"{taken} bytes beside {self.used} of {self.size}")
        self.used += taken
        self.known.add(id(array))
        weakref.finalize(array, self.give, id(array), taken).atexit = False

    def give(self, number, taken):
        self.known.remove(number)
        self.used -= taken


LIVE = weakref.WeakValueDictionary()
"""Address -> array, of live arrays whose address was asked for: for kernels that get pointers."""


class ndarray:
    """CuPy's array: a NumPy array that NumPy cannot look into."""

    memory = None  # the device's, if arrays are to be counted

    def __init__(self, array):
        self._array = array
        if self.memory is not None:
            self.memory.take(array)

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
            return _through(value)
        return value if name in ("shape", "ndim", "dtype", "size", "strides") else _outer(value)

    def __getitem__(self, index):
        return ndarray(np.asarray(self._array[_inner(index)]))

    def __setitem__(self, index, value):
        self._array[_inner(index)] = _inner(value)

    def __iter__(self):
        return (self[i] for i in range(len(self._array)))

    def __len__(self):
        return len(self._array)

    def __float__(self):
        return float(self._array)

    def __int__(self):
        return int(self._array)

    def __bool__(self):
        return bool(self._array)


def _operator(name):
    def apply(self, *others):
        result = getattr(self._array, name)(*map(_inner, others))
        if name.startswith("__i") and name != "__invert__":
            return self
        return _outer(result)

    return apply


for _name in _OPERATORS.split():
    setattr(ndarray, f"__{_name}__", _operator(f"__{_name}__"))
ndarray.__module__ = "cupy"


class _Runtime:
    """CuPy's runtime on a machine without a GPU."""

    class CUDARuntimeError(RuntimeError):
        pass

    def getDeviceCount(self):
        raise self.CUDARuntimeError("cudaErrorNoDevice: no CUDA-capable device is detected")


def module():
    """Return the module to put in place of cupy."""
    fake = types.ModuleType("cupy")
    fake.ndarray = ndarray
    fake.float64, fake.dtype = np.float64, np.dtype
    for name in _FUNCTIONS.split():
        setattr(fake, name, _through(getattr(np, name)))
    fake.add.reduceat = _through(np.add.reduceat)
    fake.asarray = lambda a, dtype=None: ndarray(
        np.array(a._array if isinstance(a, ndarray) else a, dtype=dtype)
    )
    fake.asnumpy = lambda a: np.array(_inner(a))
    tricks = types.SimpleNamespace(as_strided=_through(np.lib.stride_tricks.as_strided))
    fake.cuda = types.SimpleNamespace(runtime=_Runtime())
    fake.lib = types.SimpleNamespace(stride_tricks=tricks)
    return fake
