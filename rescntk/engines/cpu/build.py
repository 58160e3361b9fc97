"""Compile loops.cpp into one library for each instruction set.

setup.py does this, and this file can be run as a program: ::

    python -m rescntk.engines.cpu.build              # writes the libraries beside the sources
    python -m rescntk.engines.cpu.build sanitized    # with address and undefined-behaviour checks

This file uses only the standard library, because setup.py runs it where nothing else is installed.
The environment variable CXX names the compiler; without it, the first of c++, g++ and clang++ that
exists is used. The options in CXXFLAGS are added. On Windows the compiler must be MinGW's GCC or
Clang, because MSVC does not have the vector types of the sources.
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
"""The compiler options of each level of instruction sets.

rescntk_level() in loops.cpp says which level a processor has.
"""

FUSED: dict[str, dict[str, str]] = {
    "x86_64": {"3": r"\bvfmadd\w+\s.*[yz]mm", "4": r"\bvfmadd\w+\s.*zmm"},
    "aarch64": {"2": r"\bfmla\b"},
}
"""A pattern of each level's fused multiply-add instruction in assembly text. SSE has none."""

OPERATIONS = """
#include "lanes.h"
template <class V> FORMULA V all(V a, V b, V c)
{
    return pick(a, b, fused(a, b, root(c)), smaller(b, c));
}
F64 doubles(F64 a, F64 b, F64 c) { return all(a, b, c); }
F32 floats(F32 a, F32 b, F32 c) { return all(a, b, c); }
"""
"""The source text that `check_vectors` compiles."""

OPTIONS = (
    "-std=c++17",
    "-O2",  # with -O3 GCC 12 took .95 to 1.13 of the time, Clang 22 with AVX2 1.0 to 1.36
    "-ffp-contract=off",  # fuse a·b + c only where the text does: all compilers round equally
    "-fno-math-errno",  # otherwise a square root needs a branch and a call
    "-fno-trapping-math",  # so that comparisons may become masks
    "-fno-exceptions", "-fno-rtti", "-fvisibility=hidden", "-Wall", "-Wextra",
)  # fmt: skip
LINKED: dict[str, tuple[str, ...]] = {
    "linux": ("-shared", "-fPIC", "-Wl,--as-needed"),
    "darwin": ("-shared", "-fPIC"),
    "win32": ("-shared", "-static-libgcc", "-static-libstdc++"),
}
"""The options that make a library on each system. The library does not use or need libstdc++."""

MACHINES = {"linux": ("x86_64", "aarch64"), "darwin": ("x86_64", "aarch64"), "win32": ("x86_64",)}

SANITIZED = ("-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined")


def machine() -> str:
    """Return the architecture to compile for."""
    # On macOS, pip may ask for another architecture than that of the machine.
    flags = os.environ.get("ARCHFLAGS", "").split()
    name = flags[1] if flags[:1] == ["-arch"] and len(flags) == 2 else platform.machine()
    return {"arm64": "aarch64", "amd64": "x86_64"}.get(name.lower(), name.lower())


@cache
def digest() -> str:
    """Return a hash of the text of all sources."""
    return _digest(*(path.read_bytes() for path in SOURCES))


def _digest(*texts: bytes) -> str:
    return hashlib.sha256(b"\0".join(texts)).hexdigest()[:16]


def compiler() -> list[str]:
    """Return the command of the compiler, or raise an OSError if there is none."""
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
    """Return the options that a compiler for `target` needs on Windows.

    An OSError is raised if the target is not supported.
    """
    if not target.startswith("x86_64"):
        raise OSError(f"the C++ compiler is for {target or 'an unknown target'}, expected x86_64")
    if "mingw" in target:  # GCC, which does not align the stack for vectors (its bug 54412)
        return ("-Wa,-muse-unaligned-vector-move",)
    if target.endswith("windows-gnu"):  # Clang
        return ()
    raise OSError(f"the C++ compiler is for {target}: {_ON_WINDOWS}")


def compiled(folder: Path, sanitized: bool = False) -> list[Path]:
    """Return the libraries in a folder, after compiling those that are missing or out of date.

    An OSError is raised if this fails.
    """
    if machine() not in MACHINES.get(sys.platform, ()):
        raise OSError(f"they are not written for {sys.platform} on {machine()}")
    folder.mkdir(parents=True, exist_ok=True)
    levels = LEVELS[machine()]
    if sanitized:
        levels = {"asan": (*SANITIZED, *_AVX2)}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda level: _compiled_library(folder, level, levels[level]), levels))


def _compiled_library(folder: Path, level: str, options: tuple[str, ...]) -> Path:
    """Compile the library of one level, unless it is up to date, and return its path.

    The library gets its name only when it is complete, so that a loaded library is not overwritten.
    """
    user_flags = shlex.split(os.environ.get("CXXFLAGS", ""))
    command = [*compiler(), *OPTIONS, *options, *user_flags]
    if sys.platform == "darwin":
        command += ["-arch", {"aarch64": "arm64"}.get(machine(), machine())]
    if sys.platform == "win32":
        asked = [*compiler(), "-dumpmachine"]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        command += for_windows(done.stdout.strip())
    # A library contains this text. It is compiled again if the sources or the command differ; when
    # it is loaded only the sources count, since the machine may have another compiler.
    text = f"{digest()}-{_digest(*map(os.fsencode, [*command, *LINKED[sys.platform]]))}"
    library = folder / f"loops-{level}.so"
    if library.exists() and text.encode() in library.read_bytes():
        return library
    if level in LEVELS[machine()]:
        check_vectors(command, level)
    partial = library.with_suffix(f".{os.getpid()}")
    command += [*LINKED[sys.platform], f'-DSOURCES="{text}"']
    try:
        _run([*command, str(HERE / "loops.cpp"), "-o", str(partial)])
        partial.replace(library)
    finally:
        partial.unlink(missing_ok=True)
    return library


def check_vectors(command: list[str], level: str) -> None:
    """Raise an OSError if the compiler does not use the vector instructions of a level.

    Without an option for the processor, Clang has compiled fused products as function calls, and
    the loops took 20 times as long. Without the options of the level, lanes.h uses shorter vectors.
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
    """Run the compiler and print its warnings, or raise an OSError with its first error."""
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
