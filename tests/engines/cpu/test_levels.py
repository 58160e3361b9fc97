"""The compiled loops of each instruction set, their build, and sanitizers that watch them."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rescntk as rk
from rescntk.engines.cpu import build, engine, library
from tests import tolerances
from tests.helpers import needs_cpu

CALLS = """
import sys
import numpy as np, rescntk as rk
X = np.random.default_rng(0).standard_normal((19, 2, 17))
X[1:4] = 3 * X[0], -X[0], X[0] * (1 + 1e-9 * X[4])
lists = [x[:, : 1 + k % 9] for k, x in enumerate(X[:9])]
ALL = {"trained": ("input", "inner", "outer", "readout"), "negative_slope": 0.1, "bias": 0.3}
networks = [
    rk.Network(3), rk.Network(2, 1, alpha=1e-3), rk.Network(3, 5, dilation=2, skip=False),
    rk.Network(2, 9, outer_filter_size=7, input_filter_size=3, **ALL), rk.Network(2, 31, alpha=0.1),
    rk.Network(2, 9, dilation=10),
]
found = []
for dtype in ("float64", "float32"):
    for network in networks:
        options = {"engine": "cpu", "dtype": dtype}
        for signals in (X, X[:5, :, :12].reshape(5, 2, 3, 4), X[:3, :, :1]):
            for head in ("gap", "trace", "equivariant", 3, 14):
                found += rk.gram(network, signals, head=head, depths=(1, 2), **options)
                found += rk.gram(network, signals[:2], signals, head=head, normalized=True, **options)
                found.append(rk.Kernel(network, "ntk", head).paired(signals, signals[::-1], **options))
            found.append(rk.pixel_pairs(network, signals[:2], **options))
            for head in ("gap", 3):
                found.append(rk.pixel_shares(network, signals[:2], signals, head=head, **options))
        found += rk.gram(network, lists, **options)
        found += rk.pixel_shares(network, lists[:2], lists[2:], **options)
np.savez(sys.argv[1], *found)
"""  # noqa: E501


def results(level, folder, **environment):
    """Return the kernels of some calls with the loops of a level."""
    file = folder / f"{level}.npz"
    environment = os.environ | {"RESCNTK_ISA": level} | environment
    command = [sys.executable, "-c", CALLS, str(file)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    with np.load(file) as arrays:
        return list(arrays.values())


@pytest.mark.slow
@needs_cpu
def test_levels_agree(tmp_path):
    """Levels with fused products have the same bits; the others agree to rounding."""
    levels = (level for level in build.LEVELS[build.machine()] if int(level) <= library.level())
    found = {level: results(level, tmp_path) for level in levels}
    best = found[max(found)]
    for level, arrays in found.items():
        for ours, theirs in zip(arrays, best, strict=True):
            size = np.abs(theirs).max()
            assert np.abs(ours - theirs).max() <= 2 * tolerances.KERNEL[ours.dtype.name] * size
            assert level == "2" or level == max(found) or (ours == theirs).all()


@needs_cpu
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_tables_too_short_for_vectors_are_refused(monkeypatch, dtype, rng):
    """Vectors would be read beyond the ends of the tables' lines."""
    monkeypatch.setattr(engine, "MOST_LANES", 1)
    with pytest.raises(RuntimeError, match="the compiled loops refuse this job's layout"):
        rk.gram(rk.Network(2), rng.standard_normal((2, 1, 8)), engine="cpu", dtype=dtype)


@pytest.mark.slow
@pytest.mark.nightly
def test_sanitizers_find_nothing(request, tmp_path, monkeypatch):
    """They look for accesses beyond arrays and undefined behaviour. The library is kept."""
    # A fifth of the time to compile; nulls and ends of objects are the address sanitizer's too.
    monkeypatch.setenv("CXXFLAGS", "-O0 -g0 -fno-sanitize=null,alignment,object-size -Werror")
    try:
        compiler = build.compiler()
    except OSError as reason:
        pytest.skip(str(reason))
    runtimes = []
    for name in ("asan", "ubsan"):
        command = [*compiler, f"-print-file-name=lib{name}.so"]
        runtimes.append(subprocess.run(command, capture_output=True, text=True).stdout.strip())
    if not all(Path(path).is_absolute() for path in runtimes):
        pytest.skip("the compiler has no sanitizers' libraries")
    (built,) = build.compiled(request.config.cache.mkdir("sanitized"), sanitized=True)
    there = library.HERE / built.name
    before = there.exists()
    try:
        if not before:
            there.symlink_to(built)
        options = {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "halt_on_error=1"}
        arrays = results("asan", tmp_path, LD_PRELOAD=":".join(runtimes), **options)
    finally:
        if not before:
            there.unlink()
    assert len(arrays) > 100


TARGETS = {
    "x86_64-windows-gnu": ("win32", "x86_64"),
    "aarch64-macos": ("darwin", "aarch64"),
    "aarch64-linux-gnu": ("linux", "aarch64"),
}


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_other_systems_compile_without_warnings(target, tmp_path):
    pytest.importorskip("ziglang", reason="no compiler for others: pip install ziglang (100 MB)")
    system, machine = TARGETS[target]
    assert machine in build.MACHINES[system]
    for level, options in build.LEVELS[machine].items():
        compiler = [sys.executable, "-m", "ziglang", "c++", "-target", target]
        flags = [*build.OPTIONS, *options, "-O0", "-Werror", '-DSOURCES=""']
        files = ["-c", str(build.HERE / "loops.cpp"), "-o", str(tmp_path / f"{level}.o")]
        done = subprocess.run([*compiler, *flags, *files], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize(
    ("target", "options"),
    [
        ("x86_64-w64-mingw32", ("-Wa,-muse-unaligned-vector-move",)),
        ("x86_64-w64-windows-gnu", ()),
    ],
)
def test_compilers_for_windows_are_those_of_mingw(target, options):
    assert build.for_windows(target) == options


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("x86_64-pc-windows-msvc", "is for x86_64-pc-windows-msvc: on Windows it is"),
        ("i686-w64-mingw32", "is for i686-w64-mingw32, expected x86_64"),
        ("", "is for an unknown target, expected x86_64"),
    ],
)
def test_other_compilers_for_windows_are_refused_with_the_reason(target, message):
    with pytest.raises(OSError, match=message):
        build.for_windows(target)


@pytest.fixture
def pretend(tmp_path, monkeypatch):
    """Return a function that puts a script in place of the compiler."""

    def write(*lines):
        compiler = tmp_path / "c++"
        compiler.write_text("\n".join(["#!/bin/bash", *lines, ""]))
        compiler.chmod(0o755)
        monkeypatch.setenv("CXX", str(compiler))

    return write


def test_compilers_that_are_missing_or_fail_are_named(tmp_path, monkeypatch, pretend):
    monkeypatch.setenv("CXX", "/nonexistent")
    with pytest.raises(OSError, match="^the compiler CXX=/nonexistent was not found$"):
        build.compiled(tmp_path)
    command = [sys.executable, "-m", "rescntk.engines.cpu.build"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.endswith("rescntk: the compiler CXX=/nonexistent was not found\n")
    pretend("echo 'loops.cpp:1: error: no such thing'", "exit 1")
    with pytest.raises(OSError, match=r"c\+\+ failed: loops.cpp:1: error: no such thing$"):
        build.compiled(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["c++"]
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(OSError, match="no C[+][+] compiler was found"):
        build.compiled(tmp_path)


def test_libraries_that_are_up_to_date_stay(tmp_path, monkeypatch, pretend):
    """Their text names digests of sources and command; another one is compiled anew."""
    calls, levels = tmp_path / "calls", build.LEVELS[build.machine()]
    monkeypatch.setattr(build, "check_vectors", lambda command, level: None)
    pretend(f'echo "$@" >> {calls}', 'echo "$@" > "${@: -1}"')
    for times in (1, 1, 2, 3, 3, 4):
        if times == 2:
            monkeypatch.setattr(build, "digest", lambda: "other")
        if times > 2:
            monkeypatch.setenv("CXXFLAGS", f"-DNUMBER={times}")
        assert len(build.compiled(tmp_path)) == len(levels)
        assert len(calls.read_text().splitlines()) == times * len(levels)


@pytest.mark.parametrize(
    ("assembly", "level", "message"),
    [
        ("vfmadd231pd %zmm0, %zmm1, %zmm2", "4", None),
        ("vfmadd231pd %ymm0, %ymm1, %ymm2", "3", None),
        ("mulpd %xmm0, %xmm1", "2", None),
        ("vfmadd231pd %ymm0, %ymm1, %ymm2", "4", "at level 4 has no instructions of this level"),
        ("vmulpd %xmm0, %xmm1, %xmm2", "3", "at level 3 has no instructions of this level"),
        ("callq fma", "4", "at level 4 calls functions for products and roots of vectors"),
        ("call sqrt@PLT", "2", "at level 2 calls functions for products and roots of vectors"),
    ],
)
def test_loops_whose_vectors_became_calls_are_refused(
    monkeypatch, pretend, tmp_path, assembly, level, message
):
    """They are refused before anything is compiled, because they would take 20 times as long."""
    monkeypatch.setattr(build, "machine", lambda: "x86_64")
    monkeypatch.setattr(build, "LEVELS", {"x86_64": {level: ()}})
    pretend(f"echo $'\\t{assembly}' > ${{@: -1}}")
    if message is None:
        assert len(build.compiled(tmp_path)) == 1
        return
    with pytest.raises(OSError, match=message):
        build.compiled(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["c++"]


@needs_cpu
def test_libraries_have_the_registers_of_their_level():
    """A processor of a level would stop at an instruction of a higher one."""
    if build.machine() != "x86_64" or not shutil.which("objdump"):
        pytest.skip("needs objdump, and a processor with levels")
    for level, (present, absent) in {
        "2": ("xmm", "[yz]mm"),
        "3": ("ymm", "zmm"),
        "4": ("zmm", None),
    }.items():
        file = library.HERE / f"loops-{level}.so"
        done = subprocess.run(["objdump", "-d", file], capture_output=True, text=True, check=True)
        assert re.search(present, done.stdout)
        assert absent is None or not re.search(absent, done.stdout)
