import pytest

pytest.importorskip("sklearn")
