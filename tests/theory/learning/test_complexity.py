"""Numbers of signals on the multi-sphere, against sampled regressions and other routes."""

import numpy as np
import pytest

import rescntk as rk
from rescntk import literature
from rescntk.theory import learning, multisphere, spectrum
from rescntk.validation import HEADS, KINDS
from tests import tolerances

EPS = tolerances.EPS["float64"]
C, D = 2, 4
PLACES = [(2, 0, 0, 0), (1, 1, 0, 0), (1, 0, 1, 0)]


def eigenfunction(X, frequencies, head):
    """Return values of an eigenfunction of mean square 1; GAP has a sum over shifts."""
    angles = np.arctan2(X[:, 1], X[:, 0])
    shifted = [np.roll(angles, s, axis=1) for s in range(D if head == "gap" else 1)]
    norm = np.sqrt(2.0 ** np.count_nonzero(frequencies) / len(shifted))
    return norm * sum(np.cos(each * frequencies + np.arange(D)).prod(axis=1) for each in shifted)


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("kind", KINDS)
def test_sampled_regressions(head, kind):
    """Interpolation of an eigenfunction at the predicted number of signals finds half of it."""
    rng, found = np.random.default_rng(0), []
    for system in (literature.barzilai_cnn, literature.barzilai_resnet):
        kernel = rk.Kernel(system(3), kind, head)
        table = learning.sample_complexity(system(3), C, D, 8, kind, head, frequencies=PLACES)
        for row in table:
            n, k = round(row.n), np.array(row.frequencies)
            for _ in range(8 if head == "gap" else 4):
                X, Z = multisphere.sample(n, C, D, rng), multisphere.sample(500, C, D, rng)
                constants = np.arange(D) * (k == 0)
                scale = np.cos(constants).prod()  # cos of the phase where the frequency is 0
                y, target = (eigenfunction(each, k, head) / scale for each in (X, Z))
                guess = kernel(Z, X) @ rk.regression.interpolate(kernel(X), y)
                found.append(guess @ target / (target @ target))
    error = np.std(found) / np.sqrt(len(found))
    assert error < 0.025
    assert abs(np.mean(found) - 0.5) <= 0.05


@pytest.mark.parametrize("head", HEADS)
def test_bounds_hold_what_more_frequencies_give(head):
    network = literature.barzilai_resnet(2, 3)
    for channels in (2, 3):
        few, more = (
            learning.sample_complexity(
                network, channels, 3, k, "ntk", head, frequencies=[(2, 1, 0)]
            )
            for k in (4, 14)
        )
        (low,), (high,) = few, more
        assert low.least <= high.least <= high.n <= high.most <= low.most
        assert more.tail < few.tail < 0.3
        # The quadrature of tangent kernels of two channels errs by some 1e-3 of an eigenvalue.
        assert abs(low.eigenvalue / high.eigenvalue - 1) <= tolerances.SPECTRUM


def test_curve_of_the_spectrum():
    """`learning.curve` with n signals has κ at the eigenvalue, for any share and ridge."""
    network, ridge = literature.barzilai_cnn(2), 0.2
    space = 3, 3, 6
    values = spectrum.eigenvalues(network, *space, normalized=True).ravel()
    counts = spectrum.multiplicities(*space).ravel()
    rest = 1 - values @ counts
    options = {"frequencies": [(1, 1, 0)], "share": 0.25, "ridge": ridge}
    found = learning.sample_complexity(network, *space, **options)
    row = found.rows[0]
    assert abs(found.tail - rest) <= 10 * EPS * len(values)
    n = np.ceil(row.n)  # the same for a whole number of signals, with a ridge a little larger
    kappa = 3 * row.eigenvalue
    larger = ridge + rest + (n - row.most) * kappa
    known = learning.curve(values, np.ones(len(values)), [int(n)], larger, multiplicities=counts)
    assert abs(known.rows[0].kappa / kappa - 1) <= 1e-10


def test_frequencies_outside_the_receptive_field_are_never_learned():
    """A layer without an inner filter adds functions of single pixels, at distance 1 at most."""
    found = learning.sample_complexity(literature.barzilai_cnn(1), 2, 7, 1)
    assert [np.isinf(row.n) for row in found] == [False, False, *5 * [True]]
    assert str(found).splitlines()[-1].split()[-1] == "inf"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_frequency": 0}, "max_frequency is 0, expected an integer of at least 1"),
        ({"max_frequency": 10**9}, "max_frequency is 1000000000: a grid of .* takes .* GB"),
        ({"share": 1.0}, "share is 1.0, expected a number between 0 and 1"),
        ({"frequencies": [(1, 0)]}, "expected sets of 3 integers from 0 to 4"),
        ({"frequencies": [(5, 0, 0)]}, "expected sets of 3 integers from 0 to 4"),
        ({"frequencies": []}, "expected sets of 3 integers from 0 to 4"),
        ({"normalized": False}, "normalized is given"),
        ({"head": "mean"}, "head is 'mean'"),
    ],
)
def test_refusals(changes, message):
    given = {"network": rk.Network(2), "n_channels": 2, "n_timepoints": 3, "max_frequency": 4}
    with pytest.raises(ValueError, match=message):
        learning.sample_complexity(**(given | changes))
