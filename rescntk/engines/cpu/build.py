"""Compile loops.cpp, one library for each instruction set: in setup.py, or by running this file.

    python -m rescntk.engines.cpu.build              # beside the sources
    python -m rescntk.engines.cpu.build sanitized    # with address and undefined-behaviour checks

Only the standard library is used: setup.py runs this file where nothing else is installed. The
environment: CXX is the compiler, by default the first of c++, g++ and clang++; CXXFLAGS are added.
On Windows it is MinGW's GCC or Clang; MSVC has no vectors as the text writes them.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
SOURCES = sorted(
    [*HERE.parent.glob("compiled/*.h"), *HERE.glob("*.h"), *HERE.glob("*.cpp"), Path(__file__)]
)

_AVX2 = ("-mavx2", "-mfma", "-mbmi", "-mbmi2")
LEVELS: dict[str, dict[str, tuple[str, ...]]] = {
    "x86_64": {
        "2": ("-msse4.2", "-mpopcnt", "-DLEVELS"),
        "3": _AVX2,
        "4": (*_AVX2, *(f"-mavx512{part}" for part in ("f", "bw", "cd", "dq", "vl"))),
    },
    "aarch64": {"2": ("-DLEVELS",)},
}
"""Options of each level. rescntk_level() asks the processor for these features and no more."""

FUSED: dict[str, dict[str, str]] = {
    "x86_64": {"3": r"\bvfmadd\w+\s.*[yz]mm", "4": r"\bvfmadd\w+\s.*zmm"},
    "aarch64": {"2": r"\bfmla\b"},
}
"""The fused product of each level in an assembler's words. SSE has none."""

OPERATIONS = """
#include "lanes.h"
template <class V> FORMULA V all(V a, V b, V c)
{
    return pick(a, b, fused(a, b, root(c)), smaller(b, c));
}
F64 doubles(F64 a, F64 b, F64 c) { return all(a, b, c); }
F32 floats(F32 a, F32 b, F32 c) { return all(a, b, c); }
"""
"""What `check_vectors` compiles."""

OPTIONS = (
    "-std=c++17",
    "-O2",  # with -O3 GCC 12 took .95 to 1.13 of the time, Clang 22 with AVX2 1.0 to 1.36
    "-ffp-contract=off",  # a·b + c is fused where the text says so: all compilers round alike
    "-fno-math-errno",  # else a root is a branch and a call
    "-fno-trapping-math",  # comparisons may become masks
    "-fno-exceptions", "-fno-rtti", "-fvisibility=hidden", "-Wall", "-Wextra",
)  # fmt: skip
LINKED: dict[str, tuple[str, ...]] = {
    "linux": ("-shared", "-fPIC", "-Wl,--as-needed"),
    "darwin": ("-shared", "-fPIC"),
    "win32": ("-shared", "-static-libgcc", "-static-libstdc++"),
}
"""Options of a library on each system. It needs no libstdc++, of which nothing is used."""

MACHINES = {"linux": ("x86_64", "aarch64"), "darwin": ("x86_64", "aarch64"), "win32": ("x86_64",)}

SANITIZED = ("-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined")


def machine() -> str:
    """Return the architecture to compile for."""
    flags = os.environ.get("ARCHFLAGS", "").split()  # on macOS pip may name another machine's
    name = flags[1] if flags[:1] == ["-arch"] and len(flags) == 2 else platform.machine()
    return {"arm64": "aarch64", "amd64": "x86_64"}.get(name.lower(), name.lower())


@cache
def digest() -> str:
    """Return what stands for the text of all sources."""
    return _digest(*(path.read_bytes() for path in SOURCES))


def _digest(*texts: bytes) -> str:
    return hashlib.sha256(b"\0".join(texts)).hexdigest()[:16]


def compiler() -> list[str]:
    """Return the compiler's command, or raise OSError."""
    if command := shlex.split(os.environ.get("CXX", "")):
        if shutil.which(command[0]) is None:
            raise OSError(f"the compiler CXX={os.environ['CXX']} was not found")
        return command
    for name in ("c++", "g++", "clang++"):
        if path := shutil.which(name):
            return [path]
    more = f"; {_ON_WINDOWS}" if sys.platform == "win32" else ""
    raise OSError(f"no C++ compiler was found (c++, g++, clang++, or the one that CXX names){more}")


_ON_WINDOWS = "on Windows it is MinGW's g++ or clang++, as MSVC has no GCC vectors"


def for_windows(target: str) -> tuple[str, ...]:
    """Return more options for a compiler by the target that it names, or raise OSError."""
    if not target.startswith("x86_64"):
        raise OSError(f"the C++ compiler is for {target or 'an unknown target'}, expected x86_64")
    if "mingw" in target:  # GCC, which does not align the stack for vectors (its bug 54412)
        return ("-Wa,-muse-unaligned-vector-move",)
    if target.endswith("windows-gnu"):  # Clang
        return ()
    raise OSError(f"the C++ compiler is for {target}: {_ON_WINDOWS}")


def compiled(folder: Path, sanitized: bool = False) -> list[Path]:
    """Compile what is not up to date into a folder and return the libraries, or raise OSError."""
    if machine() not in MACHINES.get(sys.platform, ()):
        raise OSError(f"they are not written for {sys.platform} on {machine()}")
    folder.mkdir(parents=True, exist_ok=True)
    levels = LEVELS[machine()]
    if sanitized:
        levels = {"asan": (*SANITIZED, *_AVX2)}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda level: _one(folder, level, levels[level]), levels))


def _one(folder: Path, level: str, options: tuple[str, ...]) -> Path:
    """Compile one library. It is renamed when it is whole: a loaded one is never written to."""
    user_flags = shlex.split(os.environ.get("CXXFLAGS", ""))
    command = [*compiler(), *OPTIONS, *options, *user_flags]
    if sys.platform == "darwin":
        command += ["-arch", {"aarch64": "arm64"}.get(machine(), machine())]
    if sys.platform == "win32":
        asked = [*compiler(), "-dumpmachine"]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        command += for_windows(done.stdout.strip())
    # The command tells what to compile anew. A library loads on machines with other compilers.
    text = f"{digest()}-{_digest(*map(os.fsencode, [*command, *LINKED[sys.platform]]))}"
    library = folder / f"loops-{level}.so"
    if library.exists() and text.encode() in library.read_bytes():
        return library
    if level in LEVELS[machine()]:
        check_vectors(command, level)
    beside = library.with_suffix(f".{os.getpid()}")
    command += [*LINKED[sys.platform], f'-DSOURCES="{text}"']
    try:
        _run([*command, str(HERE / "loops.cpp"), "-o", str(beside)])
        beside.replace(library)
    finally:
        beside.unlink(missing_ok=True)
    return library


def check_vectors(command: list[str], level: str) -> None:
    """Raise OSError if a compiler makes no instructions of a level from operations on vectors.

    Clang has made calls of fused products where it was not told the processor: the loops took
    20 times as long. Without the level's options lanes.h takes shorter vectors.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, assembly = Path(folder, "operations.cpp"), Path(folder, "operations.s")
        source.write_text(OPERATIONS, "utf-8")
        options = f"-I{HERE.parent / 'compiled'}", "-fno-lto", "-S"
        _run([*command, *options, str(source), "-o", str(assembly)])
        text = assembly.read_text("utf-8", "replace")
    calls = re.search(r"^\s+(call|bl)q?\s", text, re.M)
    if calls or not re.search(FUSED[machine()].get(level, ""), text):
        problem = "calls functions for" if calls else "has no instructions of this level for"
        raise OSError(f"{command[0]} at level {level} {problem} products and roots of vectors")


def _run(command: list[str]) -> None:
    """Run the compiler and print its warnings, or raise OSError with its first error."""
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode != 0:
        lines = done.stdout.strip().splitlines() or [f"status {done.returncode}"]
        line = next((line for line in lines if "error" in line), lines[0])
        raise OSError(f"{command[0]} failed: {line[:150]}")
    print(done.stdout, end="", file=sys.stderr)


if __name__ == "__main__":
    try:
        for path in compiled(HERE, "sanitized" in sys.argv[1:]):
            print(path)
        (HERE / "missing.txt").unlink(missing_ok=True)
    except OSError as reason:
        sys.exit(f"rescntk: {reason}")
