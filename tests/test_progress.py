"""Bars of progress count every unit; without tqdm an error says what to install."""

import sys

import numpy as np
import pytest

import rescntk as rk
from rescntk.kernels.progress import progress_bar

KERNEL = rk.ResCNTK(depth=2)
X = np.random.default_rng(1).standard_normal((5, 2, 9))


def test_a_bar_counts_every_pair(capsys):
    pytest.importorskip("tqdm")
    for call, counted in (
        (lambda: KERNEL(X, progress=True), "15.0/15.0"),  # half of the pairs
        (lambda: KERNEL(X, X[:2], progress=True), "10.0/10.0"),
        (lambda: KERNEL.diag(X, progress=True), "5.00/5.00"),
        (lambda: KERNEL.paired(X, X[::-1], progress=True), "5.00/5.00"),
    ):
        call()
        assert counted in capsys.readouterr().err.splitlines()[-1]
    assert (KERNEL(X, progress=True) == KERNEL(X)).all()
    capsys.readouterr()
    KERNEL(X)
    assert capsys.readouterr().err == ""


def test_units_that_are_done_twice_do_not_exceed_the_total(capsys):
    pytest.importorskip("tqdm")
    with progress_bar(True, 10) as tick:
        tick(7)
        tick(7)
    assert "10.0/10.0" in capsys.readouterr().err.splitlines()[-1]


def test_without_tqdm_an_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ImportError, match="progress=True needs tqdm: pip install tqdm"):
        KERNEL(X, progress=True)
    assert KERNEL(X).shape == (5, 5)
