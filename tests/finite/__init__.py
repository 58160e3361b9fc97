import pytest

pytest.importorskip("jax", reason="rescntk.finite needs jax")
pytest.importorskip("optax", reason="rescntk.finite needs optax")
