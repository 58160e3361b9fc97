"""Fixtures: a path, and the blocks that are computed."""

from unittest.mock import Mock

import pytest


@pytest.fixture
def path(tmp_path):
    return tmp_path / "K.zarr"


@pytest.fixture
def computed(monkeypatch):
    """The blocks that are computed in this process."""
    from rescntk.stored import matrix

    compute = Mock(wraps=matrix._compute_block)
    monkeypatch.setattr(matrix, "_compute_block", compute)
    return lambda: [call.args[1] for call in compute.call_args_list]
