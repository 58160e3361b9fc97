"""Committed results load, and give the committed pages, to the last letter."""

import shutil

import numpy as np
import pytest

import rescntk as rk

pytest.importorskip("sklearn")
pytest.importorskip("aeon")
pytest.importorskip("jax")
import accuracy
import cpu
import harness
import images
import ratios
import regression
import scale
import ucr
from harness import RESULTS

pytestmark = pytest.mark.slow


PAGES = {
    "accuracy.json": accuracy.table,
    "cpu.json": cpu.table,
    "images.json": images.text,
    "regression.csv": regression.report,
    "scale.json": scale.text,
    "ucr.csv": ucr.table,
}


@pytest.mark.parametrize("name", PAGES)
def test_results_give_their_page(name, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)  # of the machine that measured
    path = RESULTS / name
    assert PAGES[name](harness.load(path)) == path.with_suffix(".md").read_text(encoding="utf-8")


def test_a_page_is_written_without_measuring(tmp_path):
    for name in ("accuracy.json", "ucr.csv"):
        shutil.copy(RESULTS / name, tmp_path)
        arguments = ["--page", "--out", str(tmp_path)]
        harness.script("", name, None, PAGES[name], arguments=arguments)
        page = (RESULTS / name).with_suffix(".md").name
        assert (tmp_path / page).read_bytes() == (RESULTS / page).read_bytes()


def test_the_table_of_ratios_has_the_cases_of_the_script():
    lines = (RESULTS / "ratios.md").read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("| ")][1:]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == list(ratios.cases())


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
