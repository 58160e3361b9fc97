"""Every pair computed by the compiled recursion of deficits."""

from contextlib import contextmanager

import pytest
from rescntk.engines.scaling import Scaling


@contextmanager
def all_pairs_in_deficits():
    """Let no pair's distances count; the general loops compute them, and compile the least."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Scaling, "allowed_doubt", lambda _, n, c=1.0: 0.0 * n * c - 1.0)
        patch.setattr("rescntk.engines.cpu.gains_by_sweeping", lambda: False)
        yield
