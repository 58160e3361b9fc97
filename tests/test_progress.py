"""Progress on a terminal and in a log, with and without tqdm; warnings before hours of work."""

import io
import sys
import warnings

import numpy as np
import pytest

import rescntk as rk
from rescntk import progress
from rescntk.progress import progress_bar

KERNEL = rk.ResCNTK(depth=2)
X = np.random.default_rng(1).standard_normal((5, 2, 9))


@pytest.fixture
def clock(monkeypatch):
    """A clock to be set, in seconds."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_gram_in_a_log(capsys, monkeypatch):
    KERNEL(X, progress=True, engine="reference")
    assert capsys.readouterr().err == ""  # it took less than five seconds
    monkeypatch.setattr(progress, "_FIRST_PAUSE", 0.0)
    assert (KERNEL(X, progress=True) == KERNEL(X)).all()
    assert capsys.readouterr().err.splitlines()[-1] == (
        "rescntk: 15/15 pairs, 100 %, 0:00:00, about 0:00:00 left"
    )
    KERNEL.diag(X, progress=True)
    assert "5/5 signals" in capsys.readouterr().err
    KERNEL.paired(X, X[::-1], progress=True)
    assert "5/5 pairs" in capsys.readouterr().err  # of the 25 of a matrix


def test_lines_in_a_log_become_rare(clock, capsys):
    with progress_bar(True, 1000, name="K") as tick:
        for second in range(1, 1001):
            clock[0] = float(second)
            tick(1)
    lines = capsys.readouterr().err.splitlines()
    assert 20 < len(lines) < 100 and "\r" not in "".join(lines)
    assert lines[0] == "K: 6/1000 pairs, 1 %, 0:00:06, about 0:16:34 left"


@pytest.mark.parametrize("has_tqdm", [True, False])
def test_a_bar_on_a_terminal(has_tqdm, monkeypatch):
    """Lines take its place where tqdm is not installed."""
    if has_tqdm:
        pytest.importorskip("tqdm")
    else:
        monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    monkeypatch.setattr(progress, "_FIRST_PAUSE", 0.0)
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    KERNEL(X, progress=True)
    shown = terminal.getvalue()
    assert "15/15" in shown.replace(".0", "") and shown.endswith("\n")
    assert ("\r" in shown) is has_tqdm


@pytest.mark.parametrize("show", [True, False])
def test_hours_of_work_are_announced_once(show, clock):
    with progress_bar(False, 360) as tick, warnings.catch_warnings():
        warnings.simplefilter("error")
        clock[0] = 10.0
        tick(1)  # an hour is not left
    clock[0] = 0.0
    with progress_bar(show, 100_000, advice="save it") as tick, warnings.catch_warnings():
        warnings.simplefilter("error")
        clock[0] = 90.0
        tick(1)  # compilation tells nothing
        clock[0] = 99.0
        tick(1)  # too early to judge
        clock[0] = 100.0
        with pytest.raises(UserWarning, match=r"^rescntk: about 5.8 days of work .* left: save it"):
            tick(1)
        clock[0] = 120.0
        tick(1)


def test_time_left_is_measured_after_the_first_units(clock, capsys):
    """A first step of 500 s, 24 more of one second: no estimate at first, then 0:00:19."""
    with progress_bar(True, 25, "step", name="counterfactual") as tick:
        for second in [500.0, *range(501, 525)]:
            clock[0] = float(second)
            tick(1)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "counterfactual: 1/25 steps, 4 %, 0:08:20",
        "counterfactual: 25/25 steps, 100 %, 0:08:44, about 0:00:00 left",
    ]
    with progress_bar(True, 25, "step", name="counterfactual") as tick:
        for second in [524.0, 564.0, 566.0, 570.0]:
            clock[0] = second
            tick(1)
    assert "2/25 steps, 8 %, 0:00:40, about 0:15:20 left" in capsys.readouterr().err


def test_the_library_advises(monkeypatch):
    """A Gram in memory, whose engine takes long."""
    monkeypatch.setattr(progress, "_JUDGE_AFTER", 0.0)
    monkeypatch.setattr(progress, "_LONG", 0.0)
    with pytest.warns(UserWarning, match="an interruption loses them"):
        KERNEL(np.repeat(X, 20, axis=0), engine="reference")
