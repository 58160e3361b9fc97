"""The kernel as NVIDIA's compiler makes it, without a GPU: registers, and layouts of records."""

import ctypes
import importlib.util
import os
import re
from pathlib import Path

import pytest

from rescntk.engines.compiled.records import CONVOLUTION, JOB, LAYER, OFFSET_RANGE, OPERATION, SIDE
from rescntk.engines.cuda import compiler
from rescntk.engines.cuda.launch_plan import LAUNCH


def find():
    """Return NVRTC from NVIDIA's wheels, or else from the CUDA toolkit."""
    spec = importlib.util.find_spec("nvidia")
    places = spec.submodule_search_locations if spec else []
    folders = [*(path for place in places for path in sorted(Path(place).glob("*")))]
    folders.append(Path(os.environ.get("CUDA_PATH", "/usr/local/cuda")))
    patterns = "lib*/libnvrtc.so.1[3-9]", "lib*/libnvrtc.so.12"
    found = (sorted(folder.glob(pattern)) for pattern in patterns for folder in folders)
    return next((paths[-1] for paths in found if paths), None)


LIBRARY = find()
MISSING = "no NVRTC: pip install nvidia-cuda-nvrtc (it comes with rescntk[test])"
pytestmark = [pytest.mark.skipif(LIBRARY is None, reason=MISSING), pytest.mark.slow]


def compile_kernels(names, architecture, source=None):
    """Compile instances of the GPU kernel, and return the compiler's log."""
    nvrtc = ctypes.CDLL(str(LIBRARY))
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    text = (source or compiler.source()).encode()
    assert not nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, b"strips.cu", 0, None, None)
    for name in names:
        assert not nvrtc.nvrtcAddNameExpression(program, name.encode())
    options = [f"--gpu-architecture={architecture}", *compiler.OPTIONS, "--ptxas-options=-v"]
    options.append("-ftz=true")  # CuPy adds it
    encoded = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    failed = nvrtc.nvrtcCompileProgram(program, len(options), encoded)
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    assert not failed, log.value.decode()
    return log.value.decode()


# Lanes, pixels of a thread, many pixel pairs, pooled, U⁺, NTK, heads of pixels.
@pytest.mark.parametrize(
    ("architecture", "instance"),
    [
        ("sm_75", "float, 4, 1, true, false, false, true, false"),
        ("sm_75", "float, 4, 1, true, true, false, true, false"),
        ("sm_90", "double, 2, 1, true, false, false, true, false"),
        ("sm_90", "double, 1, 8, false, false, true, true, true"),
    ],
)
def test_kernels_compile_and_fit(architecture, instance):
    """512 threads have 128 registers each; the states of many pixels are in local memory."""
    log = compile_kernels([f"strips<{instance}>"], architecture)
    ((local, registers),) = re.findall(r"(\d+) bytes stack.*?Used (\d+) registers", log, re.DOTALL)
    assert int(registers) <= 128
    assert int(local) <= (1200 if ", 8, " in instance else 160)


def test_the_compiler_lays_records_out_alike():
    """Text that compiles only if sizes and offsets of all fields agree."""
    lines = [compiler.source()]
    records = {
        "Convolution": CONVOLUTION, "Operation": OPERATION, "Layer": LAYER, "Side": SIDE,
        "OffsetRange": OFFSET_RANGE, "Job": JOB, "Launch": LAUNCH,
    }  # fmt: skip
    for struct, layout in records.items():
        lines.append(f"static_assert(sizeof({struct}) == {layout.itemsize});")
        for field, (kind, offset) in layout.fields.items():
            lines.append(f"static_assert(__builtin_offsetof({struct}, {field}) == {offset});")
            lines.append(f"static_assert(sizeof((({struct} *)0)->{field}) == {kind.itemsize});")
    compile_kernels([], "sm_90", "\n".join(lines))
