import pytest

pytest.importorskip("zarr")
pytest.importorskip("distributed")
