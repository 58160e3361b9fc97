"""Fits of theorem 5.2 against its inequality and known mixtures."""

import numpy as np
import pytest

import rescntk as rk
from rescntk import literature
from rescntk.theory import locality, spectrum

pytestmark = pytest.mark.slow

CNN, RESNET = literature.geifman_cnn, literature.one_convolution_resnet


@pytest.mark.parametrize("exponent", [None, 4.0])
def test_fitted_constants(exponent):
    network, d, top = RESNET(3), 4, 5
    fit = spectrum.fit_ensemble(network, 2, d, top, exponent=exponent)
    found = spectrum.eigenvalues(network, 2, d, top)
    k = np.argwhere(found > 0)
    model = np.zeros(len(k))
    for depth, constant in zip(fit.depths, fit.constants, strict=True):
        paths = locality.path_counts(depth, 3, d, outer_filter_size=1).astype(float)
        term = constant * fit.base ** np.minimum(paths, k).sum(axis=1)
        model += np.where(((paths > 0) | (k == 0)).all(axis=1), term, 0.0)
    model *= np.maximum(k, 1).prod(axis=1) ** fit.exponent
    values = found[found > 0]
    assert fit.n_eigenvalues == len(values) == (top + 1) ** d
    left = np.log(values / model)
    mean_square = (left**2).mean()
    assert abs(np.sqrt(mean_square) / fit.rms - 1) <= 1e-6
    assert abs(1 - mean_square / np.log(values).var() - fit.r_squared) <= 1e-6
    # The theorem's inequality, with constants that are as large as they may be.
    assert (model * fit.bound_factor <= values * (1 + 1e-9)).all()
    assert (model * fit.bound_factor >= values * (1 - 1e-9)).sum() >= 1
    if exponent is not None:
        assert abs(fit.exponent + exponent) <= 1e-8
    # A minimum: no other base does better with the same constants.
    alone = spectrum.fit_ensemble(network, 2, d, top, exponent=exponent, depths=[3])
    assert fit.rms < alone.rms and alone.base >= 1


WINDOW = rk.Network(1, input_filter_size=3, alpha=0.5, trained=("readout",))


@pytest.mark.parametrize(
    ("network", "kind", "d", "top"),
    [(RESNET(1, alpha=0.5), "gpk", 2, 8), (WINDOW, "gpk", 2, 4), (WINDOW, "ntk", 4, 4)],
)
def test_a_single_layer_is_its_own_ensemble(network, kind, d, top):
    """t + α² κ1(t), weights 1 and α² over their sum; a window longer than the ring sees twice."""
    found = spectrum.mixture(network, 3, d, top, kind)
    assert np.abs(found.weights - [0.8, 0.2]).max() <= 1e-6
    assert found.rms <= 1e-6
    assert np.abs(found.mixed - found.eigenvalues).max() <= 1e-6
    assert found.rms_alone > 0.5 or network is WINDOW


def test_paths_of_a_fit_are_exact():
    """With the input's filter, and where their number exceeds any float."""
    network = RESNET(2).replace(input_filter_size=3)
    fit = spectrum.fit_ensemble(network, 2, 5, (3, 3, 0, 0, 3))
    assert fit.paths.tolist() == [[1, 1, 0, 0, 1], [3, 2, 1, 1, 2]]
    deep = spectrum.fit_ensemble(CNN(700), 2, 1, 10)
    assert deep.paths.tolist() == [[3**699]]
    assert np.isfinite(deep.rms)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: spectrum.mixture(CNN(2), 2, 3, 4), "expected a ResNet"),
        (lambda: spectrum.mixture(rk.Network(1, trained=()), 2, 2, 4, "ntk"), "none of whose"),
        (lambda: spectrum.fit_ensemble(RESNET(2), 2, 1, 2), "too few for 4 constants"),
        (lambda: spectrum.fit_ensemble(CNN(2), 2, 3, 4, depths=[0]), "depths is 0"),
        (
            lambda: spectrum.fit_ensemble(RESNET(2), 2, 3, 4, depths=[2, 2]),
            r"depths is \(2, 2\), expected different ones up to 2",
        ),
        (lambda: spectrum.fit_ensemble(RESNET(2), 2, 3, 4, depths=[3]), r"depths is \(3,\)"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()
