"""Normalization of kernel matrices, and of their complements."""

import numpy as np

from rescntk.kernels.call import correlation
from rescntk.theory.multisphere import normalize_complements
from tests import tolerances


def test_correlations_of_any_size():
    own = np.array([1e-300, 1e200, 1e300, 0.0, -1e-9])
    root = np.sqrt(np.maximum(own, 0))
    found = correlation(0.5 * np.outer(root, root), own, own)
    assert np.abs(found[:3, :3] - 0.5).max() <= 4 * tolerances.EPS["float64"]
    assert (found[3:] == 0).all() and (found[:, 3:] == 0).all()


def test_complements_are_normalized_like_kernels(rng):
    """Against the quotient where it has no cancellation; near 1 with full relative accuracy."""
    A = np.corrcoef(rng.standard_normal((5, 9)))
    A *= np.outer(*[np.sqrt(rng.uniform(0.2, 1.0, 5))] * 2)
    own = A.diagonal()
    found = normalize_complements(1 - A)
    assert np.abs(found - (1 - correlation(A, own, own))).max() <= 16 * tolerances.EPS["float64"]
    assert (found.diagonal() == 0).all()
    tiny = 1e-12 * np.array([[1.0, 4.0], [4.0, 1.0]])
    exact = 1 - (1 - 4e-12) / (1 - 1e-12)
    assert abs(normalize_complements(tiny)[0, 1] / 3e-12 - 1) <= 1e-11
    assert abs(exact / 3e-12 - 1) > 1e-6  # the quotient has lost six digits
