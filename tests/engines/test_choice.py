"""The choice of an engine: "auto", engines that cannot serve, and the reasons they give."""

from dataclasses import replace

import numpy as np
import pytest

import rescntk as rk
from rescntk import engines
from rescntk.arrays import SignalList
from rescntk.engines.protocol import Request
from rescntk.validation import KINDS
from tests.engine_names import needs_numba
from tests.processes import run

NETWORK = rk.Network(2)
REQUEST = Request(NETWORK, "gap", KINDS, (2,))
X = np.ones((2, 1, 3))
ERF = NETWORK.replace(activation="erf")


@needs_numba
@pytest.mark.parametrize("signals", [X, SignalList([X[0], X[0, :, :2]])])
def test_auto_takes_the_fastest_engine_that_can_serve(signals):
    assert engines.choose("auto", REQUEST, signals).name == "numba"
    erf = replace(REQUEST, network=ERF)
    assert engines.choose("auto", erf, signals).name == "reference"


@needs_numba
def test_numba_refuses_erf_with_a_reason():
    assert engines.available()["numba"] is True
    with pytest.raises(ValueError, match="supports only activation='relu'") as refusal:
        rk.gram(ERF, X, engine="numba")
    message = str(refusal.value)
    assert message.startswith(
        "engine='numba' cannot compute this call: it supports only activation"
    )
    assert "(got 'erf')" in message
    assert "'reference'" in message.split("engines that can: ")[1]
    assert "'numba'" not in message.split("engines that can: ")[1]
    for call in (
        lambda: rk.Kernel(ERF, "ntk", "gap").diag(X, engine="numba"),
        lambda: rk.pixel_pairs(ERF, X, engine="numba"),
    ):
        with pytest.raises(ValueError, match="supports only activation"):
            call()


@needs_numba
def test_deep_networks_on_lists_go_to_the_reference_engine():
    """Open rows would have margins much longer than themselves."""
    signals = SignalList([X[0], X[0, :, :2]])
    deep = replace(REQUEST, depths=(501,))
    assert engines.choose("auto", deep, X).name == "numba"
    assert engines.choose("auto", deep, signals).name == "reference"
    with pytest.raises(ValueError, match="margin of 1001 pixels.*; engines that can: 'reference'"):
        engines.choose("numba", deep, signals)
    # "auto" looks at the network alone, so that bits do; by name, steps count modulo 6, or 2991.
    dilated = replace(REQUEST, network=NETWORK.replace(dilation=6335))
    assert engines.choose("auto", dilated, signals).name == "reference"
    assert engines.choose("numba", dilated, signals).name == "numba"
    with pytest.raises(ValueError, match="margin of 1059 pixels"):
        engines.choose("numba", dilated, SignalList([X[0], np.ones((1, 997))]))


def test_cuda_refuses_lists_with_a_reason():
    signals = [X[0], X[0, :, :2]]
    with pytest.raises(ValueError, match="signals of one length, and these have different lengths"):
        rk.gram(NETWORK, signals, engine="cuda")


@needs_numba
def test_no_folder_for_compiled_code_is_a_reason_and_no_crash():
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
    assert refusal.startswith(
        f"engine='numba' cannot compute this call: {reason}; engines that can: "
    )


def test_without_numba(monkeypatch):
    monkeypatch.setattr(engines, "find_spec", lambda name: None)
    reason = "numba is not installed: pip install 'rescntk[cpu]'"
    assert engines.available()["numba"] == reason
    assert engines.choose("auto", REQUEST, X).name == "reference"
    with pytest.raises(ValueError, match=r"rescntk\[cpu\].*; engines that can: 'reference'"):
        rk.ResCGPK(2)(X, engine="numba")
