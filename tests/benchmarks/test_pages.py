"""Committed results load, and give the committed pages, to the last letter."""

import json
import re
import shutil

import numpy as np
import pytest

import rescntk as rk

pytest.importorskip("sklearn")
pytest.importorskip("aeon")
pytest.importorskip("jax")
import accuracy
import channels
import classification_report
import cpu
import estimators
import forecast
import gpu_report
import harness
import images
import learned_signals
import quoted
import ratios
import regression
import scale
import ucr
import unequal
import unseen
from harness import RESULTS

pytestmark = pytest.mark.slow


PAGES = {
    "accuracy.json": accuracy.table,
    "channels.csv": channels.report,
    "classification.csv": classification_report.table,
    "classification_curves.csv": classification_report.curve_table,
    "classification_noise.csv": classification_report.noise_tables,
    "cpu.json": cpu.table,
    "estimators.json": estimators.text,
    "forecast.csv": forecast.report,
    "gpu.json": gpu_report.page,
    "images.json": images.text,
    "learned_signals.json": learned_signals.text,
    "many_signals.json": scale.thousands,
    "regression.csv": regression.report,
    "scale.json": scale.text,
    "ucr.csv": ucr.table,
    "unequal.json": unequal.tables,
    "unseen.csv": unseen.table,
}


@pytest.mark.parametrize("name", PAGES)
def test_results_give_their_page(name, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)  # of the machine that measured
    path = RESULTS / name
    assert PAGES[name](harness.load(path)) == path.with_suffix(".md").read_text(encoding="utf-8")


def test_a_page_is_written_without_measuring(tmp_path):
    for name in ("accuracy.json", "unseen.csv"):
        shutil.copy(RESULTS / name, tmp_path)
        arguments = ["--page", "--out", str(tmp_path)]
        harness.script("", name, None, PAGES[name], arguments=arguments)
        page = (RESULTS / name).with_suffix(".md").name
        assert (tmp_path / page).read_bytes() == (RESULTS / page).read_bytes()


@pytest.mark.parametrize("page", quoted.pages())
def test_pages_quote_the_results(page):
    """Numbers in sentences and rows of tables; if they differ: python benchmarks/quoted.py."""
    text = quoted.pages()[page].read_text(encoding="utf-8")
    assert quoted.updated(page, text) == text


def test_other_numbers_are_written_anew():
    page, wrong = "docs/guide/neural_tangents.md", "is 1 to 2.5\ntimes as fast"
    right = re.search(r"is \d+ to \d+ times as fast", quoted.pages()[page].read_text("utf-8"))[0]
    assert quoted.updated(page, wrong) == right.replace(" times", "\ntimes")
    table = "| set | MiniRocket |\n|---|--:|\n| a | 1 |\n"
    assert quoted.updated("other", table) == table  # of no results
    with pytest.raises(AssertionError, match="has 0 times: is "):
        quoted.updated(page, "none")


def test_the_table_of_ratios_has_the_cases_of_the_script():
    lines = (RESULTS / "ratios.md").read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("| ")][1:]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == list(ratios.cases())


def test_neural_tangents_agrees_on_images():
    for race in json.loads((RESULTS / "images.json").read_text())["peers"]:
        assert race["relative_difference"]["numba float64"] < 1e-12


def test_entries_are_pixel_pairs_of_half_a_gram(monkeypatch):
    monkeypatch.setattr(harness, "processor_seconds", lambda call: 1.0)
    signals, images = [np.ones((1, 3)), np.ones((1, 2))], np.ones((2, 1, 2, 4))
    entries = 1e9 / harness.entry_costs(rk.gram, (signals, images), 2)
    assert entries == pytest.approx(np.array([[3 * 3 + 3 * 2 + 2 * 2] * 2, [3 * 8 * 8] * 2]))
    assert 1e9 / harness.entry_costs(rk.gram, (images,), 1, "trace") == pytest.approx(3 * 8)


def test_the_first_split_is_the_official_one():
    splits = regression.splits(10, 7, 3)
    assert list(splits[0][0]) == list(range(7)) and len({tuple(train) for train, _ in splits}) == 4
    for train, test in splits:
        assert len(train) == 7 and sorted([*train, *test]) == list(range(10))
