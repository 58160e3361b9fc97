"""Without numba there is nothing to test here."""

import pytest

pytest.importorskip("numba")
