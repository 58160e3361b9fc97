"""Verdicts of the GPU benchmark's report."""

import math

import gpu_report
import gpu_rows
import pytest
from gpu_rows import FULL, JAX, OURS, REFERENCE, Row

from tests.benchmarks.gpu_parts import MACHINE, full_report

pytestmark = pytest.mark.slow


def met(report):
    return {name: one["met"] for name, one in gpu_report.verdicts(report).items()}


def changed(report, keep, **fields):
    """Return the report with fields of some rows changed; without these rows if there are none."""
    rows = [r | fields if keep(r) else r for r in report["rows"] if fields or not keep(r)]
    return report | {"rows": rows}


def test_all_is_met():
    found = gpu_report.verdicts(full_report())
    assert len(found) == 8 and all(one["met"] is True for one in found.values())
    assert found["times the better peer, float32"]["value"] == pytest.approx(10.0)
    assert found["picoseconds of a pixel pair and layer, float64"]["value"] == 6.0


def test_all_is_missed():
    report = full_report({"float32": 3.6, "float64": 8.5}, faster=4.9)
    report = changed(report, lambda r: r["part"] == "layer", share_of_bound=0.49)
    assert set(met(report).values()) == {False}
    assert gpu_report.table(report | {"verdicts": gpu_report.verdicts(report)}).count("missed") == 8


@pytest.mark.parametrize("who", [REFERENCE, JAX, OURS])
@pytest.mark.parametrize("how", ["missing", "failed", "nan"])
def test_nothing_is_met_without_its_numbers(who, how):
    """Of any one row: the bars that need it are not judged, the others are."""
    for row in gpu_rows.plan(FULL):
        if row.who != who:
            continue
        fields = {
            "missing": {},
            "failed": {"error": "ModuleNotFoundError: No module named 'jax'"},
            "nan": dict.fromkeys(
                ("seconds", "seconds_of_a_pair", "picoseconds", "share_of_bound"), math.nan
            ),
        }[how]
        report = changed(full_report(), row.of, **fields)
        found = gpu_report.verdicts(report)
        unjudged = {name for name, one in found.items() if one["met"] is None}
        if row.part == "layer":
            expected = {
                "picoseconds of a pixel pair and layer",
                "share of the bound of issue slots",
            }
        else:
            expected = {"times the better peer"}
            expected |= {"seconds of 10 000 signals"} if row.part == "large" else set()
        assert unjudged == {f"{name}, {row.dtype}" for name in expected}
        assert all(str(row) in found[name]["why"] for name in unjudged)
        assert all(found[name]["value"] is None for name in unjudged)
        assert all(one["met"] for name, one in found.items() if name not in unjudged)


def test_one_peer_is_enough_to_miss():
    report = changed(full_report(faster=2.0), lambda r: r["who"] == REFERENCE)
    found = gpu_report.verdicts(report)["times the better peer, float32"]
    assert found["met"] is False and found["value"] == pytest.approx(2.0)


def test_one_slow_size_misses():
    slow = Row("grams", OURS, "float64", 1000, 256, 9)
    report = changed(full_report(), slow.of, seconds=1e-12 * 13 * slow.entries)
    assert met(report)["times the better peer, float64"] is False
    assert met(report)["times the better peer, float32"] is True


def test_a_bound_without_a_clock():
    layer = Row("layer", OURS, "float32", 1024, 128, 3)
    report = changed(full_report(), layer.of, share_of_bound=None, missing=["nvidia-smi: gone"])
    found = gpu_report.verdicts(report)["share of the bound of issue slots, float32"]
    assert found["met"] is None and "nvidia-smi: gone" in found["why"]


@pytest.mark.parametrize("other", [{"hardware": "NVIDIA A100"}, {"sizes": "small"}])
def test_bars_are_for_one_gpu_and_its_sizes(other):
    report = full_report() | {"machine": MACHINE | other}
    assert set(met(report).values()) == {None}
