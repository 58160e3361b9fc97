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
    """Return each kernel's name, pixels, bytes of a number, registers, bytes of local memory."""
    pattern = (
        r"properties for _Z\d+(\w+_rows)I([fd])Li(\d+)E.*?(\d+) bytes stack.*?Used (\d+) registers"
    )
    return [
        (name, int(pixels), 4 if real == "f" else 8, int(registers), int(local))
        for name, real, pixels, local, registers in re.findall(pattern, log, re.DOTALL)
    ]


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


def shortest_round(instructions, following, mark):
    """Return the instructions of the shortest loop through one that contains `mark`.

    Layers go around a loop in which branches lead around what is rare: layers whose doubt is
    looked at, depths that are asked for, states that are rescaled.
    """
    edges = [(k, then) for k, after in enumerate(following) for then in after]
    shape = len(instructions), len(instructions)
    graph = csr_array((np.ones(len(edges)), tuple(zip(*edges, strict=True))), shape)
    starts = [k for k, line in enumerate(instructions) if mark in line]
    lengths, before = dijkstra(graph, indices=starts, unweighted=True, return_predecessors=True)
    ends = ((i, k) for i, start in enumerate(starts) for k, then in edges if then == start)
    i, at = min(ends, key=lambda end: lengths[end])
    path = []
    while at >= 0:
        path.append(re.sub(r"^@!?U?P\w+\s+", "", instructions[at]))
        at = before[i, at]
    return path


# What stands in a layer's loop once for each pixel of a lane: its root.
ROOTS = {"float32": "MUFU.SQRT", "float64": "MUFU.RSQ64H"}


def mean_slots(found, pixels, dtype, depth):
    """Return the slots of a pixel pair and layer of GAP, mean over `depth` layers.

    Every layer adds GAP's linear part; few layers look at doubt. Loops through these branches are
    longer than the shortest loop by the branches' slots. `found` is a disassembled kernel.
    """
    marks = {"all": ROOTS[dtype], "linear": "LDS.128", "doubt": "FLOOR"}
    ways = {name: slots(shortest_round(*found, mark), pixels) for name, mark in marks.items()}
    share = len(launch_plan.layers_seen(depth)) / depth
    return {
        unit: ways["linear"][unit] + share * (ways["doubt"][unit] - least)
        for unit, least in ways["all"].items()
    }


def slots(instructions, pixels):
    """Return issue slots, and slots of the FP64 units, of a pixel pair and layer.

    An FP64 instruction keeps its units, which are half as wide, for two slots.
    """
    double = sum(line.startswith(("DADD", "DMUL", "DFMA", "DSETP")) for line in instructions)
    return {"issued": len(instructions) / pixels, "fp64": 2 * double / pixels}
