"""Plans of passes, their kernels, and the schedule of their time."""

import warnings
from functools import partial

import numpy as np
import pytest

import rescntk as rk
from rescntk.learn import PLAN, ResidualKernelClassifier, base, passes, views
from rescntk.learn.parameters import check_several
from tests import tolerances
from tests.learn.cases import waves

KERNELS = {"kind": ("gpk", "ntk"), "depth": (2,)}


def plan(X, count=99, **given):
    settings = {name: v if isinstance(v, tuple) else (v,) for name, v in given.items()}
    return passes.plan(passes.PLAN[:count], KERNELS | settings, X, 1.0)


@pytest.mark.parametrize("length", [1, 2, 24, 150, 1000])
def test_plans_have_no_repetitions_and_filters_that_fit(length):
    X = np.zeros((3, 2, length))
    found = plan(X)
    assert len(found) == len(set(found)) >= (1 if length < 3 else 5)
    for one in found:
        view, network = one.view, one.network
        shortened = view.fit(X)(X).shape[2]
        assert shortened <= (view.max_length or length)
        assert max(network.filter_size, network.input_filter_size) <= shortened
        assert network.filter_size % 2 == 1
        assert not (view.block_statistics and length <= 32)
        assert one.settings().keys() == passes.COMMON.keys()
    counts = [len(plan(X, passes.EFFORTS[effort])) for effort in ("fast", "default", "thorough")]
    assert counts == sorted(counts)
    assert plan(X, 4) == found[: len(plan(X, 4))]  # the first are the same for all efforts


def test_given_settings_take_the_place_of_the_plans():
    X = np.zeros((3, 2, 24))
    found = plan(X, head="trace", filter_size=(3, 5), first_differences=False, time_scale=0.0)
    assert {(one.head, one.view.first_differences) for one in found} == {("trace", False)}
    assert {one.network.filter_size for one in found} == {3, 5}
    assert [one.network.filter_size for one in found[:2]] == [3, 5]
    alone = plan(X, head="gap", filter_size=99, input_filter_size=1, first_differences=False,
                 time_scale=0.5, standardize=True, constant=False, dilation=2, spectra=False,
                 max_length=99)  # fmt: skip
    assert len(alone) == 1 and alone[0].network.filter_size == 23
    assert alone[0].network.dilation == 2
    assert alone[0].describe() == "signals, time 0.5, filters 1 and 23, dilation 2, gap"


def test_passes_by_hand(rng):
    X, y = waves(rng, 20, 2)
    rows = [{"head": "trace", "standardize": "point"}, {"filter_size": 5, "spectra": "whole"}]
    model = ResidualKernelClassifier(passes=rows, dilation=2).fit(X, y)
    table = model.passes_
    assert table["head"].tolist() == ["trace", "gap"] and table["dilation"].tolist() == [2, 2]
    assert table["filter_size"].tolist() == [9, 5] and model.score(X, y) == 1
    assert len(ResidualKernelClassifier(passes=PLAN[:2]).fit(X, y).passes_["head"]) == 2
    for given, message in (
        ({"head": "gap"}, "expected dicts of settings"),
        ([1], r"passes\[0\] is 1, expected a dict"),
        ([{}, {"heads": "gap"}], r"passes\[1\] has 'heads', expected some of max_length"),
        ([{"head": "mean"}], r"passes\[0\]\['head'\] is 'mean', expected one of"),
    ):
        with pytest.raises(ValueError, match=message):
            ResidualKernelClassifier(passes=given).fit(X, y)
    with pytest.raises(ValueError, match="all passes need signals of one length"):
        ResidualKernelClassifier(passes=rows[:1]).fit([x[:, : 20 + k] for k, x in enumerate(X)], y)


def test_a_limit_in_seconds(rng, monkeypatch):
    """Passes are skipped whose expected end is beyond the limit; cheap ones may still follow."""
    X = rng.standard_normal((10, 1, 20))
    found = plan(X, 4) + plan(X, 1, head="trace")
    works = [one.work(X, 10) for one in found]
    now, said = [0.0], []
    monkeypatch.setattr(passes.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(passes, "_seconds_per_work", lambda *_: 1.0)
    limit = works[0] + works[1] + 0.5 * works[2]
    trace = [one.head for one in found].index("trace")
    assert trace > 2 and works[trace] < 0.5 * works[2]
    done = []
    for one in passes.in_time(found, X, 10, limit, said.append, {}):
        done.append(one)
        now[0] += works[found.index(one)]
    assert done == [found[0], found[1], found[trace]]
    assert said[0] == f"about {sum(works):.2g} s"
    assert sum("out of time" in line for line in said) == len(found) - 3
    assert f"about {sum(works[1:]):.2g} s left" in said[1]
    assert next(passes.in_time(found, X, 10, 1e-9, None, {})) == found[0]
    assert list(passes.in_time(found, X, 10, np.inf, None, {})) == found


@pytest.mark.parametrize(
    ("n", "length", "block"),
    [(10, 100, 2), (40_000, 128, 2), (150_000, 128, 4), (400_000, 512, 32)],
)
def test_many_signals_have_fewer_passes_over_shorter_signals(n, length, block):
    X = np.broadcast_to(0.0, (n, 1, length))
    m = base.count_landmarks(None, n)
    planned = partial(passes.plan, passes.PLAN[:10], KERNELS, X, 1.0)
    kept = passes.affordable(planned, X, m, "default")
    work = [one.work(X, m) for one in kept]
    assert len(kept) >= 3 and (len(kept) == len(planned())) == (n == 10)
    assert views.block_size(length, kept[0].view.max_length) == block
    pairs = n * (n + 1) / 2 if m == n else n * m
    budget = max(n * passes._AFFORDABLE["default"], pairs * passes._OF_A_PAIR["default"])
    assert sum(work) <= min(passes._MOST, budget)
    model = ResidualKernelClassifier(max_length=512)
    found, _ = model._plan(check_several(model), X, m)
    assert {one.view.max_length for one in found} == {None}  # a given length stays


def test_effort_in_seconds(rng):
    X, y = waves(rng, 16, 2)
    one = ResidualKernelClassifier(effort=1e-6).fit(X, y)
    assert len(one.passes_["weight"]) == 1
    fast = ResidualKernelClassifier(effort="fast").fit(X, y)
    default = ResidualKernelClassifier().fit(X, y)
    assert 1 < len(fast.passes_["weight"]) < len(default.passes_["weight"])


def test_changes_that_no_pass_sees_are_named(rng):
    """Tones of six points a period, under blocks of 20: unseen without spectra."""
    X = np.sin(np.arange(600) * np.pi / 3 + rng.uniform(0, 6, (10, 1, 1)))
    X[::2, :, ::2] += 0.3
    slow, y = X + 5 * np.sin(np.arange(600) / 100), np.arange(10) % 2
    options = {"effort": "fast", "max_length": 30}
    with pytest.warns(UserWarning, match="100% of the signals' energy is at frequencies that"):
        ResidualKernelClassifier(spectra=False, **options).fit(X, y)
    for signals, given in ((X, {}), (slow, {"spectra": False})):
        with warnings.catch_warnings(action="error"):
            ResidualKernelClassifier(**options | given).fit(signals, y)


@pytest.mark.parametrize("engine", ["reference", "numba"])
def test_derivatives_are_means_over_kinds_and_depths(engine, rng):
    """With weights that come from the matrix, and with more signals on either side."""
    X, Z = rng.standard_normal((7, 2, 12)), rng.standard_normal((4, 2, 12))
    mean = passes.Pass(views.View(), rk.Network(3), "gap", ("ntk", "gpk"), (3, 1))
    for left, right in ((X, Z), (Z, X), (X, None)):
        result = mean.vjp(left, right, weights=np.tanh, engine=engine)
        assert (result.K == mean(left, right, engine=engine)).all()
        parts = [
            rk.Kernel(rk.Network(depth), kind, normalized=True).vjp(
                left, right, np.tanh(result.K), engine=engine
            )
            for kind in mean.kinds
            for depth in mean.depths
        ]
        for name in ("X", "Z"):
            if (gradient := getattr(result, name)) is not None:
                expected = np.mean([getattr(part, name) for part in parts], axis=0)
                error = np.abs(gradient - expected).max() / np.abs(expected).max()
                assert error <= tolerances.GRADIENT["float64"]
