"""The table of ratios has the Grams that the script measures."""

import pytest
import ratios

pytestmark = pytest.mark.slow


def test_the_table_has_the_cases_of_the_script():
    lines = ratios.PATH.read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("| ")][1:]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == list(ratios.cases())
    assert rows[0].endswith("| 1 |")
