"""The bound of issue slots and the clock, which the GPU benchmark's measurements need."""

import time

import gpu_measure
import gpu_rows
import pytest

from tests.engines.cuda import nvrtc

pytestmark = pytest.mark.slow


def test_the_bound_of_issue_slots():
    """49 slots: 132 multiprocessors issue 128 lanes' instructions a clock of 1980 MHz."""
    found = gpu_measure.bound({"issued": 49.0, "fp64": 0.0}, 132, 1980.0)
    assert found == pytest.approx(1e12 * 49 / (132 * 128 * 1.98e9))
    assert gpu_measure.bound({"issued": 49.0, "fp64": 98.0}, 132, 1980.0) == pytest.approx(
        2 * found
    )


@pytest.mark.skipif(nvrtc.LIBRARY is None or nvrtc.DISASSEMBLER is None, reason=nvrtc.MISSING)
def test_slots_are_counted_in_the_kernel():
    single, double = (gpu_measure.slots(dtype, "90", 128, 3) for dtype in gpu_rows.DTYPES)
    assert 20 < single["issued"] <= 60 and single["fp64"] < 0.2  # sums of doubt
    assert 60 < max(double.values()) <= 140


def test_slots_say_why_they_are_missing(monkeypatch):
    with pytest.raises(LookupError, match="sm_86"):
        gpu_measure.slots("float32", "86", 128, 3)
    monkeypatch.setattr(nvrtc, "DISASSEMBLER", None)
    with pytest.raises(LookupError, match="nvdisasm"):
        gpu_measure.slots("float32", "90", 128, 3)


def watched(bus="0000:18:00.0", seconds=5.0):
    with gpu_measure.Clock(bus) as clock:
        end = time.monotonic() + seconds
        while len(clock.seen) < 3 and not clock.why and time.monotonic() < end:
            time.sleep(0.01)
    return clock


def test_the_clock_is_that_of_the_device(smi):
    smi("echo '00000000:17:00.0, 345'; echo '00000000:18:00.0, 1980'")
    assert watched().mhz == 1980.0
    assert watched("0000:17:00.0").mhz == 345.0
    smi("echo '00000000:01:00.0, 1755'")  # a machine that counts otherwise, with one GPU
    assert watched().mhz == 1755.0


def test_the_clock_says_why_it_is_missing(smi, tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(tmp_path))
        assert watched().mhz is None
        assert "No such file" in watched().why
    smi("exit 9")
    assert "exit status 9" in watched().why
    smi("echo '00000000:18:00.0, [N/A]'")
    assert "no clock of 18:00.0" in watched().why
    smi("sleep 1; echo '00000000:18:00.0, 1980'")
    late = watched(seconds=0.1)
    assert late.mhz is None and "longer than the measurement" in late.why
