"""Tables of measurements on the pages have the rows that the benchmarks wrote."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

TABLES = [
    ("README.md", "cpu.md"),
    ("README.md", "classification.md"),
    ("docs/guide/speed.md", "cpu.md"),
    ("docs/guide/speed.md", "ratios.md"),
    ("docs/guide/classification.md", "classification.md"),
    ("docs/guide/classification.md", "regression.md"),
]
"""Pages, and the results whose table they show, whole or in part."""


@pytest.mark.parametrize(("page", "results"), TABLES)
def test_rows_are_those_of_the_results(page, results):
    measured = (ROOT / "benchmarks/results" / results).read_text(encoding="utf-8").splitlines()
    header = next(line for line in measured if line.startswith("| "))
    shown = (ROOT / page).read_text(encoding="utf-8").splitlines()
    rows = shown[shown.index(header) :]
    rows = rows[: rows.index("")]
    assert len(rows) > 3
    for row in rows:
        assert row in measured, row
