"""The engine that "auto" chooses, and reasons for which an engine refuses a call."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import rescntk as rk
from rescntk import engines
from rescntk.arrays import SignalList
from rescntk.checks.values import KINDS
from rescntk.engines.request import Request
from tests.helpers import needs_cpu

NETWORK = rk.Network(2)
REQUEST = Request(NETWORK, "gap", KINDS, (2,))
X = np.ones((2, 1, 3))
ERF = NETWORK.replace(activation="erf")


SIGNALS = [X, SignalList([X[0], X[0, :, :2]])]


@needs_cpu
@pytest.mark.parametrize("signals", SIGNALS, ids=["array", "list"])
@pytest.mark.parametrize(("network", "name"), [(NETWORK, "cpu"), (ERF, "array")])
def test_auto_is_the_fastest_engine_that_takes_the_call(network, name, signals):
    assert engines.choose("auto", replace(REQUEST, network=network), signals).name == name


@needs_cpu
@pytest.mark.parametrize(
    "call", [rk.Kernel(ERF, "ntk"), partial(rk.gram, ERF), partial(rk.pixel_pairs, ERF)]
)
def test_a_refusal_says_why_and_which_engines_can(call):
    with pytest.raises(ValueError, match=r"^engine='cpu' cannot compute this call") as refusal:
        call(X, engine="cpu")
    reason, serving = str(refusal.value).split("; engines that can: ")
    assert reason.endswith("it supports only activation='relu' (got 'erf')")
    assert "'array'" in serving and "'cpu'" not in serving


def test_an_engine_without_lists_refuses_them():
    with pytest.raises(ValueError, match="signals of one length, and these have different lengths"):
        rk.gram(NETWORK, [X[0], X[0, :, :2]], engine="cuda")


class Newest(type(engines.ENGINES["array"])):
    """An engine after all others in the table."""

    name, missing_warning = "newest", "kernels are computed by another engine"


@pytest.fixture
def newest(monkeypatch):
    engines.warn_of_missing.cache_clear()
    monkeypatch.setattr(engines, "ENGINES", engines.ENGINES | {"newest": Newest()})


@pytest.mark.usefixtures("newest")
@pytest.mark.parametrize("lists", [True, False])
def test_auto_is_the_last_engine_of_the_table_that_serves(lists, monkeypatch):
    monkeypatch.setattr(Newest, "lists", lists)
    array, signals = SIGNALS
    assert engines.choose("auto", REQUEST, array).name == "newest"
    assert (engines.choose("auto", REQUEST, signals).name == "newest") is lists


@pytest.mark.usefixtures("newest")
@pytest.mark.parametrize(("arrays", "serves"), [("numpy", True), ("cupy", False)])
def test_auto_asks_an_engine_for_its_arrays_alone(arrays, serves, monkeypatch):
    monkeypatch.setattr(Newest, "auto_arrays", frozenset((arrays,)))
    assert (engines.choose("auto", REQUEST, X).name == "newest") is serves


@pytest.mark.usefixtures("newest")
def test_auto_tells_why_an_engine_does_not_work_here(monkeypatch):
    monkeypatch.setattr(Newest, "why_not", lambda _: "it is not built")
    with pytest.warns(UserWarning, match="computed by another engine: it is not built"):
        assert engines.choose("auto", REQUEST, X).name != "newest"


@pytest.mark.filterwarnings("ignore:kernels are computed by another engine")
def test_auto_without_any_engine_is_refused(monkeypatch):
    monkeypatch.setattr(Newest, "why_not", lambda _: "it is not built")
    monkeypatch.setattr(engines, "ENGINES", {"newest": Newest()})
    with pytest.raises(ValueError, match="no engine can compute .* numpy arrays: it is not built"):
        engines.choose("auto", REQUEST, X)
