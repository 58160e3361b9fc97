"""NVIDIA's compiler and disassembler, from their wheels or a CUDA toolkit: no GPU is needed."""

import ctypes
import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from rescntk.engines.cuda import compiler

MISSING = (
    "no NVRTC: pip install nvidia-cuda-nvrtc nvidia-cuda-nvdisasm (they come with rescntk[test])"
)


def _find(*patterns):
    """Return what fits the first of the patterns: in the wheels, or else in the CUDA toolkit."""
    spec = importlib.util.find_spec("nvidia")
    folders = spec.submodule_search_locations if spec else []
    wheels = sorted(path for folder in folders for path in Path(folder).glob("*"))
    toolkit = Path(os.environ.get("CUDA_PATH", "/usr/local/cuda"))
    for pattern in patterns:
        for folder in (*wheels, toolkit):
            if found := sorted(folder.glob(pattern)):
                return found[-1]
    return None


LIBRARY = _find("lib*/libnvrtc.so.1[3-9]", "lib*/libnvrtc.so.12")
DISASSEMBLER = _find("bin/nvdisasm") or shutil.which("nvdisasm")


def compile_kernels(names, architecture, source=None):
    """Return the cubin of instances of the kernels, and the compiler's log."""
    nvrtc = ctypes.CDLL(str(LIBRARY))
    program, size = ctypes.c_void_p(), ctypes.c_size_t()

    def text(get_size, get):
        get_size(program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        get(program, buffer)
        return buffer.raw[: size.value]

    assert not nvrtc.nvrtcCreateProgram(
        ctypes.byref(program), (source or compiler.source()).encode(), b"rows.cu", 0, None, None
    )
    for name in names:
        assert not nvrtc.nvrtcAddNameExpression(program, name.encode())
    options = [f"--gpu-architecture={architecture}", *compiler.OPTIONS, "--ptxas-options=-v"]
    options.append("-ftz=true")  # CuPy adds it
    encoded = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    failed = nvrtc.nvrtcCompileProgram(program, len(options), encoded)
    log = text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog).decode()
    assert not failed, log
    cubin = text(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return cubin, log


def resources(log):
    """Return each kernel's pixels of a thread, registers, and bytes of local memory."""
    pattern = r"for _Z4rowsI[fd]Li\d+ELi(\d+)E.*?(\d+) bytes stack.*?Used (\d+) registers"
    found = re.findall(pattern, log, re.DOTALL)
    return [(int(pixels), int(registers), int(local)) for pixels, local, registers in found]


def disassemble(cubin, folder):
    """Return the instructions of a cubin with one kernel, and each one's successors."""
    path = folder / "kernel.cubin"
    path.write_bytes(cubin)
    run = subprocess.run([DISASSEMBLER, "-c", path], check=True, capture_output=True, text=True)
    instructions, labels = [], {}
    for line in run.stdout.splitlines():
        if label := re.match(r"(\.L_x_\d+):", line):
            labels[label[1]] = len(instructions)
        elif found := re.match(r"\s+/\*[0-9a-f]+\*/\s+(.*?)\s*;", line):
            instructions.append(found[1])
    following = []
    for k, instruction in enumerate(instructions):
        predicate, name = re.match(r"(@!?U?P\w+ )?\s*(\S+)", instruction).groups()
        target = re.search(r"`\((\.L_x_\d+)\)", instruction)
        after = [k + 1] if k + 1 < len(instructions) else []
        if name.startswith("BRA"):
            sure = not predicate and not re.search(r"BRA\S*\s+!?U?P", instruction)
            after = [labels[target[1]], *([] if sure else after)]
        elif name.startswith(("EXIT", "RET")) and not predicate:
            after = []
        following.append(after)
    return instructions, following


def joined_layer(instructions, following):
    """Return the instructions of the shortest loop through a joined layer.

    Branches lead around what is rare. The way goes through a root of the activation and through
    the middle tap, which has the weight 3.
    """
    edges = [(k, then) for k, after in enumerate(following) for then in after]
    shape = len(instructions), len(instructions)
    graph = csr_array((np.ones(len(edges)), tuple(zip(*edges, strict=True))), shape)
    marks = r"MUFU\.(SQRT|RSQ64H)", r"^[FD]MUL(\.FTZ)? R\d+, R\d+, 3$"
    starts, middles = (
        [k for k, line in enumerate(instructions) if re.search(mark, line)] for mark in marks
    )
    (there, to), (back, again) = (
        dijkstra(graph, indices=places, unweighted=True, return_predecessors=True)
        for places in (starts, middles)
    )
    lengths = there[:, middles] + back[:, starts].T
    i, j = np.unravel_index(np.argmin(lengths), lengths.shape)
    path = [*_way(to[i], middles[j])[:-1], *_way(again[j], starts[i])[:-1]]
    return [re.sub(r"^@!?U?P\w+\s+", "", instructions[at]) for at in path]


def _way(before, end):
    """Return the places from the start to an end."""
    way = []
    while end >= 0:
        way.append(end)
        end = before[end]
    return way[::-1]
