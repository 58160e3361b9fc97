"""NVIDIA's compiler and disassembler, from their wheels or a CUDA toolkit: no GPU is needed."""

import ctypes
import importlib.util
import os
import re
import shutil
import struct
import subprocess
from collections import deque
from pathlib import Path

from rescntk.engines.cuda import doubt, kernels

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
    """Return the cubin of some instances of the kernels, or of other source."""
    nvrtc = ctypes.CDLL(str(LIBRARY))
    program, size = ctypes.c_void_p(), ctypes.c_size_t()

    def text(get_size, get):
        get_size(program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        get(program, buffer)
        return buffer.raw[: size.value]

    assert not nvrtc.nvrtcCreateProgram(
        ctypes.byref(program), (source or kernels.source()).encode(), b"rows.cu", 0, None, None
    )
    for name in names:
        assert not nvrtc.nvrtcAddNameExpression(program, name.encode())
    options = [f"--gpu-architecture={architecture}", *kernels.OPTIONS, "-ftz=true"]  # CuPy adds it
    given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    failed = nvrtc.nvrtcCompileProgram(program, len(options), given)
    log = text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog)
    assert not failed, log.decode()
    cubin = text(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return cubin


_REGISTERS, _FRAME, _STACK = 0x2F, 0x11, 0x12  # EIATTR_… of .nv.info


def resources(cubin):
    """Return kernel name -> (registers, bytes of local memory), from the cubin (64-bit ELF)."""
    assert cubin[:5] == b"\x7fELF\x02"
    (sections_at,) = struct.unpack_from("<Q", cubin, 0x28)
    entry, count, names_at = struct.unpack_from("<HHH", cubin, 0x3A)
    sections = [
        struct.unpack_from("<IIQQQQIIQQ", cubin, sections_at + k * entry) for k in range(count)
    ]

    def content(section):
        return cubin[section[4] : section[4] + section[5]]

    def word(table, offset):
        return table[offset : table.index(b"\0", offset)].decode()

    labels = content(sections[names_at])
    by_name = {word(labels, section[0]): section for section in sections}
    words = content(by_name[".strtab"])
    symbols = content(by_name[".symtab"])
    found = {}
    info = content(by_name[".nv.info"])
    at = 0
    while at < len(info):
        form, attribute, length = struct.unpack_from("<BBH", info, at)
        at += 4
        if form != 4:  # the value is the length itself
            continue
        if attribute in (_REGISTERS, _FRAME, _STACK):
            symbol, value = struct.unpack_from("<II", info, at)
            (name,) = struct.unpack_from("<I", symbols, symbol * 24)
            found.setdefault(word(words, name), {})[attribute] = value
        at += length
    return {
        name: (values[_REGISTERS], max(values.get(_FRAME, 0), values.get(_STACK, 0)))
        for name, values in found.items()
        if _REGISTERS in values
    }


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


def whole_loop(instructions, following, mark):
    """Return all instructions of loops through those that contain `mark`, rare branches too."""
    before = [[] for _ in instructions]
    for k, after in enumerate(following):
        for then in after:
            before[then].append(k)

    def reached(edges):
        seen, queue = set(), [k for k, one in enumerate(instructions) if mark in one]
        while queue:
            new = [k for k in edges[queue.pop()] if k not in seen]
            seen.update(new)
            queue += new
        return seen

    inside = sorted(reached(following) & reached(before))
    return [re.sub(r"^@!?U?P\w+\s+", "", instructions[k]) for k in inside]


def shortest_round(instructions, following, mark):
    """Return the instructions of the shortest loop through one that contains `mark`.

    Layers go around a loop in which branches lead around what is rare: layers whose doubt is
    looked at, depths that are asked for, states that are rescaled.
    """
    best = None
    for start in (k for k, one in enumerate(instructions) if mark in one):
        before, queue = {}, deque()
        for first in following[start]:
            before[first] = start
            queue.append(first)
        while queue and start not in before:
            here = queue.popleft()
            for then in following[here]:
                if then not in before:
                    before[then] = here
                    queue.append(then)
        if start in before:
            path, here = [start], before[start]
            while here != start:
                path.append(here)
                here = before[here]
            if best is None or len(path) < len(best):
                best = path
    return [re.sub(r"^@!?U?P\w+\s+", "", instructions[k]) for k in best]


# What stands in a layer's loop once for each pixel of a lane: its root.
ROOTS = {"float32": "MUFU.SQRT", "float64": "MUFU.RSQ64H"}


def mean_slots(found, launch, dtype, depth):
    """Return the slots of a pixel pair and layer of GAP, mean over `depth` layers.

    Every layer adds GAP's linear part; few layers look at doubt. Loops through these branches are
    longer than the shortest loop by the branches' slots. `found` is a disassembled kernel.
    """
    marks = {"all": ROOTS[dtype], "linear": "LDS.128", "doubt": "FRND"}
    ways = {
        name: slots(shortest_round(*found, mark), launch.pixels) for name, mark in marks.items()
    }
    share = len(doubt.layers_seen(depth)) / depth
    return {
        unit: ways["linear"][unit] + share * (ways["doubt"][unit] - least)
        for unit, least in ways["all"].items()
    }


def slots(instructions, pixels):
    """Return issue slots, and those of the FP64 units, of a pixel pair and layer.

    An FP64 instruction keeps its units, which are half as wide, for two slots.
    """
    double = sum(one.startswith(("DADD", "DMUL", "DFMA", "DSETP")) for one in instructions)
    return {"issued": len(instructions) / pixels, "fp64": 2 * double / pixels}
