"""Responses to changed pixels: against sampled functions, windows, and symmetries of heads."""

import numpy as np
import pytest

import rescntk as rk
from rescntk import literature
from rescntk.theory import locality
from tests import tolerances


def test_random_functions_have_the_kernels_responses(rng):
    """A linear model of random features, whose kernel is known exactly."""
    X, Z = rng.standard_normal((2, 3, 2, 4))
    weights = rng.standard_normal((9, 2, 4))

    def features(X):
        return np.maximum(np.einsum("ncd,kcd->nk", X, weights), 0)

    expected = locality.kernel_responses(lambda X: features(X) @ features(X).T, X, Z)
    # The mean over 9 orthogonal readouts is the mean over random ones.
    parts = [locality.responses(lambda X, k=k: features(X)[:, k], X, Z) for k in range(9)]
    for name in ("single", "pair"):
        found = sum(getattr(own, name) for own in parts)
        values = getattr(expected, name)
        assert np.isnan(found[0]) == np.isnan(values[0]) == (name == "pair")
        assert np.nanmax(np.abs(found - values)) <= 1e-12 * np.nanmax(values)


@pytest.mark.parametrize("kind", ["gpk", "ntk"])
def test_pixels_act_together_within_windows(rng, kind):
    """Depth 2, filters of 3: pre-activations see 5 pixels, no two of them 5 apart."""
    network, d = literature.barzilai_resnet(2), 12
    X, Z = rng.standard_normal((2, 2, 2, d))
    floor = 1e3 * tolerances.KERNEL["float64"]
    for head in ("trace", "gap"):
        found = locality.kernel_responses(rk.Kernel(network, kind, head), X, Z)
        size = found.single.max()
        assert (found.single > 0).all()
        near, far = found.pair[[1, 2, 3, 4]], found.pair[5:-4]
        assert (np.abs(far) <= floor * size).all()
        assert (near > 10 * floor * size).all() and near[0] > near[3]
    found = locality.kernel_responses(rk.Kernel(network, kind, "equivariant"), X, Z)
    inside = locality.effective_receptive_field(network, d) > 0
    assert (found.single[inside] > 0).all() and (found.single[~inside] == 0).all()


def test_refusals():
    X = np.ones((2, 1, 3))
    with pytest.raises(ValueError, match=r"Z has shape \(1, 1, 3\), expected \(2, 1, 3\)"):
        locality.responses(len, X, X[:1])
    with pytest.raises(ValueError, match="kernel"):
        locality.kernel_responses(None, X, X)
