"""The engine "numba": its polynomials, its threads, its cache, and what it says without them."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import mpmath
import numpy as np
import pytest

import rescntk as rk
from rescntk import engines
from rescntk.engines import polynomials
from rescntk.engines.protocol import Request
from rescntk.vocabulary import KINDS
from tests import tolerances

TOOLS = Path(__file__).parents[2] / "tools"
NETWORK = rk.Network(2)
REQUEST = Request(NETWORK, "gap", KINDS, (2,))
X = np.ones((2, 1, 3))


def test_polynomials_are_what_the_script_derives():
    check = [sys.executable, TOOLS / "polynomials.py", "--check"]
    subprocess.run(check, check=True)


@pytest.mark.parametrize("bits", [64, 32])
def test_polynomials_are_the_functions(bits):
    """Against the closed forms, in the arithmetic in which they are used."""
    mp = mpmath.mp.clone()
    mp.dps = 120  # of which r loses up to 30
    a = np.concatenate([np.linspace(0, 1, 2001)[1:], np.geomspace(1e-30, 1, 301)])
    a = a.astype(f"float{bits}")
    exact = [mp.mpf(float(v)) for v in a]
    p = [mp.acos(1 - v) / (mp.pi * mp.sqrt(v)) for v in exact]
    r = [
        (mp.sqrt(v * (2 - v)) - (1 - v) * mp.acos(1 - v)) / (mp.pi * v ** mp.mpf("1.5"))
        for v in exact
    ]
    for name, function in (("p", p), ("r", r)):
        computed = getattr(polynomials, f"{name}{bits}")(a)
        assert computed.dtype == a.dtype
        error = max(abs(float(c) / f - 1) for c, f in zip(computed, function, strict=True))
        # A quarter of a unit from truncation, a half each from the coefficients, the last
        # product and the last sum.
        assert error <= 1.75 * tolerances.EPS[f"float{bits}"]


def available():
    """Skip where numba cannot serve at all."""
    state = engines.available()["numba"]
    if state is not True:
        pytest.skip(str(state))


def test_auto_takes_the_fastest_engine_that_can_serve():
    available()
    assert engines.choose("auto", REQUEST, X).__name__.endswith("cpu.engine")
    erf = replace(REQUEST, network=NETWORK.replace(activation="erf"))
    assert engines.choose("auto", erf, X).__name__.endswith("reference")
    with pytest.raises(ValueError, match=r"it takes activation 'relu'.*; these can: 'reference'"):
        engines.choose("numba", erf, X)


def run(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()


def test_threads_follow_the_environment_and_the_caller():
    available()
    code = (
        "import numpy as np, rescntk as rk; from rescntk.engines import numba_rows as n\n"
        "pools = []; pool = n.ThreadPoolExecutor\n"
        "n.ThreadPoolExecutor = lambda k: pools.append(k) or pool(k)\n"
        "X = np.ones((2, 1, 3)); k = rk.ResCGPK(2)\n"
        "k(X); k(X, threads=5); k.diag(X, threads=2); k(X)\n"
        "import numba; print(pools, numba.get_num_threads())"
    )
    assert run(code, NUMBA_NUM_THREADS="3") == "[3, 5, 2, 3] 3"


def test_nothing_is_imported_or_compiled_before_it_is_used():
    code = "import sys, rescntk; rescntk.Network(3); print('numba' in sys.modules)"
    assert run(code) == "False"


def test_the_theory_is_imported_part_by_part():
    code = (
        "import sys, rescntk as rk\n"
        "print([m for m in sys.modules if m.startswith('rescntk.theory.')])\n"
        "print(all(getattr(rk.theory, name) for name in rk.theory.__all__))\n"
        "try: rk.theory.nothing\n"
        "except AttributeError as error: print(error)"
    )
    assert run(code).splitlines() == [
        "[]",
        "True",
        "module 'rescntk.theory' has no attribute 'nothing'",
    ]


def test_compiled_code_is_kept_on_disk(tmp_path):
    available()
    code = (
        "import numpy as np, rescntk as rk; rk.ResCGPK(2)(np.ones((2, 1, 3)), engine='numba')\n"
        "from rescntk.engines import numba_loops as n\n"
        "s = n.fill.stats; print(sum(s.cache_hits.values()), sum(s.cache_misses.values()))"
    )
    cache = {"NUMBA_CACHE_DIR": str(tmp_path)}
    assert run(code, **cache) == "0 1"
    assert run(code, **cache) == "1 0"


def test_no_folder_for_compiled_code_is_a_reason_and_no_crash(tmp_path):
    available()
    code = (
        "import numba.core.caching as c, rescntk as rk, numpy as np\n"
        "c.CacheImpl._locator_classes = []\n"
        "print(rk.engines.available()['numba']); rk.ResCGPK(2)(np.ones((2, 1, 3)))\n"
        "try: rk.ResCGPK(2)(np.ones((2, 1, 3)), engine='numba')\n"
        "except ValueError as error: print(error)"
    )
    reason, refusal = run(code).splitlines()
    assert reason.startswith("numba does not work here: ")
    assert "cannot cache" in reason
    assert refusal.startswith(f"engine is 'numba', which cannot serve here: {reason}; these can: ")


def test_without_numba(monkeypatch):
    monkeypatch.setattr(engines, "find_spec", lambda name: None)
    reason = "numba is not installed: pip install 'rescntk[cpu]'"
    assert engines.available()["numba"] == reason
    assert engines.choose("auto", REQUEST, X).__name__.endswith("reference")
    with pytest.raises(ValueError, match=r"rescntk\[cpu\].*; these can: 'reference'"):
        rk.ResCGPK(2)(X, engine="numba")


def test_progress_counts_every_pair(capsys):
    available()
    pytest.importorskip("tqdm")
    signals = np.random.default_rng(0).standard_normal((30, 1, 4))
    rk.ResCGPK(2)(signals, progress=True, engine="numba")
    assert "465/465" in capsys.readouterr().err.replace(".0", "")


@pytest.mark.parametrize("d", [1, 2, 3, 17, 64, 200])
@pytest.mark.parametrize("head", ["trace", "gap"])
def test_every_length_and_filter(d, head, rng):
    """Against the reference engine, where lanes and filters fit badly."""
    available()
    Z = rng.standard_normal((3, 2, d))
    for q, outer in ((1, 3), (3, 1), (3, 5), (7, 9), (11, 13), (15, 17), (31, 3)):
        network = rk.Network(3, q, outer_filter_size=outer)
        for dtype, bar in tolerances.KERNEL.items():
            ours = rk.gram(network, Z[:2], Z, head=head, engine="numba", dtype=dtype)
            theirs = rk.gram(network, Z[:2], Z, head=head, engine="reference", dtype=dtype)
            for A, B in zip(ours, theirs, strict=True):
                assert np.abs(A - B).max() <= bar * np.abs(B).max()


@pytest.mark.parametrize("head", ["trace", "gap"])
def test_long_filters(head, rng):
    """Blocks of a window begin at pixel 0: a shift may change the last bits, nothing else may."""
    available()
    X, Z = rng.standard_normal((2, 9, 2, 20))
    kernel = rk.ResCNTK(3, 31, head=head)
    K = kernel(X, Z, engine="numba")
    assert (kernel(X[2:3], Z[4:5], engine="numba", threads=1) == K[2, 4]).all()
    assert (kernel(X[::-1], Z, engine="numba", threads=5) == K[::-1]).all()
    size = np.sqrt(np.outer(kernel.diag(X), kernel.diag(Z)))
    shifted = kernel(np.roll(X, 7, axis=2), np.roll(Z, 7, axis=2), engine="numba")
    assert (np.abs(shifted - K) <= tolerances.KERNEL["float64"] * size).all()
    assert (
        np.abs(kernel(Z, X, engine="numba").T - K) <= 2 * tolerances.KERNEL["float64"] * size
    ).all()
