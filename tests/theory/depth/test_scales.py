"""Depth scales of Fourier modes, against pixels of kernels and against the recursion in mpmath."""

import mpmath
import numpy as np
import pytest

import rescntk as rk
from rescntk.theory import multisphere
from rescntk.theory.depth import mode_scales, scales
from tests import tolerances

NETWORKS = [
    rk.Network(1),
    rk.Network(1, 5, outer_filter_size=3, alpha=0.5, dilation=3),
    rk.Network(1, 1, outer_filter_size=7, skip=False),
    rk.Network(1, skip=False, c_v=1.2, bias=0.4),
    rk.Network(1, dilation=4, bias=1.0),
]


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("d", [8, 9])
def test_multipliers_are_those_of_the_pixels_energies(network, d):
    """Off the multi-sphere: in each layer from 2 on, in units of a layer without filters."""
    X = np.random.default_rng(0).standard_normal((1, 2, d))
    energies = [
        rk.pixel_pairs(network.replace(depth=L), X, kind="gpk")[0, 0].diagonal() for L in (3, 4)
    ]
    before, after = (np.fft.rfft(energy)[1:] for energy in energies)
    growth = max(network.growth, 1.0) if network.bias else network.growth
    table = mode_scales(network, d)
    expected = growth * table.column("multiplier")[1:] * before
    assert np.abs(after - expected).max() <= tolerances.ROUTES * energies[1].sum()
    assert (table.column("mode") == np.arange(d // 2 + 1)).all()


@pytest.mark.parametrize("skip", [True, False])
def test_the_slowest_mode_of_deep_kernels(skip):
    """With κ0's correction; the limit itself is several times farther away."""
    network, layers = rk.Network(1, skip=skip), ((120, 140) if skip else (40, 60))
    t = multisphere.dot_products(multisphere.sample(2, 4, 8, rng=0), complement=True)[0, 1]
    waves = [
        np.abs(np.fft.fft(multisphere.normalized_gpk(network.replace(depth=L), t, complement=True)))
        for L in layers
    ]
    measured = (waves[1][1] / waves[0][1]) ** (1 / 20)
    middle = sum(layers) // 2
    row = mode_scales(network, 8, layer=middle).rows[1]
    bar = tolerances.mode(middle, 1 / network.branch_share, t.mean())
    assert abs(measured - row.at_layer) <= bar
    assert abs(measured - row.multiplier) > 3 * abs(measured - row.at_layer)


@pytest.mark.parametrize("skip", [True, False])
def test_mode_0_is_a_change_of_the_mean(skip):
    """The mean of δ falls like l^−2, and the distance of two means like l^−3."""
    several = multisphere.dot_products(multisphere.sample(3, 4, 8, rng=0), complement=True)[0, 1:]
    means = np.array(
        [
            [multisphere.normalized_gpk(rk.Network(L, skip=skip), t, complement=True).mean()]
            for L in (1000, 1100)
            for t in several
        ]
    ).reshape(2, 2)
    (low, high), rows = means.T, mode_scales(rk.Network(1, skip=skip), 8, layer=1050).rows
    change = ((high - low)[1] / (high - low)[0]) ** (1 / 100)
    bar = tolerances.mode(1050, 2 if skip else 1, several.mean())
    assert abs(change - rows[0].at_layer) <= bar
    assert abs((low[1] / low[0]) ** (1 / 100) - (1 - 2 / 1050)) <= bar


def ring(start, layers, p, chi=1.0, bias=0.0):
    """Return complements along 8 pixels over layers by theorem 4.1, filters of 3, in mpmath."""
    delta, variance, found = list(start), mpmath.mpf(1), []

    def mean(values):
        return [(values[j - 1] + values[j] + values[(j + 1) % 8]) / 3 for j in range(8)]

    for _ in range(layers):
        inside = variance + bias**2
        rho = [1 - w * variance / inside for w in mean(delta)]
        sines = [mpmath.sqrt(1 - r * r) for r in rho]
        angles = [mpmath.pi - mpmath.acos(r) for r in rho]
        k1 = [(s + a * r) / mpmath.pi for s, a, r in zip(sines, angles, rho, strict=True)]
        branch = mean([1 - k for k in k1])
        after = chi * inside + bias**2 if p == 1 else variance
        shrink = chi * inside / after if p == 1 else 1
        delta = [(1 - p) * old + p * shrink * new for old, new in zip(delta, branch, strict=True)]
        variance = after
        found.append(delta)
    return found


@pytest.mark.parametrize(
    ("options", "p", "chi", "bias", "bar"),
    [
        # κ0's correction of each factor, and powers of l, are left: k factors err by some 3k/l.
        ({}, 0.5, 1.0, 0.0, 12 / 160),
        # δ falls geometrically, and with it all that is left.
        ({"skip": False, "c_v": 1.0, "bias": 0.3}, 1, 0.5, 0.3, 1e-4),
    ],
)
def test_products_of_slower_modes_lead(options, p, chi, bias, bar):
    start = np.random.default_rng(0).uniform(0.3, 1.7, 8)
    with mpmath.workdps(250):
        p, chi, bias = mpmath.mpf(p), mpmath.mpf(chi), mpmath.mpf(bias)
        path = ring([mpmath.mpf(x) for x in start], 180, p, chi, bias)
        for row in mode_scales(rk.Network(1, **options), 8):
            turns = [mpmath.expjpi(mpmath.mpf(row.mode * j) / 4) for j in range(8)]
            low, high = (abs(mpmath.fdot(path[L - 1], turns)) for L in (140, 180))
            measured = float((high / low) ** (mpmath.mpf(1) / 40))
            assert abs(measured / row.with_products - 1) <= bar, row.mode


def exact_scale(network, mode, d):
    """Return ξ in 400 digits, from the page's formula."""
    with mpmath.workdps(400):
        w = [
            mpmath.fsum(mpmath.cospi(mpmath.mpf(2 * mode * tap) / d) for tap in each.offsets)
            / each.size
            for each in (network.inner_filter(2), network.outer_filter(2))
        ]
        gain = (
            mpmath.mpf(network.alpha) ** 2 * mpmath.mpf(network.c_v) * mpmath.mpf(network.c_w) / 2
        )
        if network.skip:
            multiplier = (1 + gain * w[0] * w[1]) / (1 + gain)
        else:
            multiplier = (gain if network.bias and gain < 1 else 1) * w[0] * w[1]
        return float(-1 / mpmath.log(abs(multiplier)))


@pytest.mark.parametrize("d", [7, 601])
@pytest.mark.parametrize(
    "network",
    [
        *(rk.Network(1, 5, outer_filter_size=3, alpha=a) for a in (1e-150, 1e-8, 1e-3, 1.0, 1e150)),
        rk.Network(1, alpha=1e-9, bias=0.4),
        rk.Network(1, 5, outer_filter_size=3, dilation=2, skip=False),
        rk.Network(1, skip=False, bias=0.4, c_w=0.7, c_v=1.1),
        rk.Network(1, skip=False, bias=0.4, c_v=np.nextafter(2.0, 0.0)),
    ],
)
def test_scales_have_all_digits(network, d):
    """Multipliers that are rounded to 1 have finite scales."""
    with np.errstate(all="raise", under="ignore"):
        rows = mode_scales(network, d).rows
    for row in rows[1:3]:
        expected = exact_scale(network, row.mode, d)
        assert abs(row.scale / expected - 1) <= tolerances.ROUTES
    if network.bias and not network.skip:
        assert abs(rows[0].scale / exact_scale(network, 0, d) - 1) <= tolerances.ROUTES


def test_lengths_that_would_take_minutes_are_refused():
    with pytest.raises(ValueError, match="the products of modes take minutes"):
        mode_scales(rk.Network(1), 5000)


def test_a_weak_branch_with_biases_has_the_correction_of_skip_connections():
    """Also where its growth is rounded to 1, as without skip connections at χ = 1."""
    mean, *_ = mode_scales(rk.Network(1, alpha=1e-9, bias=0.4), 4, layer=10)
    assert abs(mean.at_layer - (1 - 3 / 10)) <= tolerances.CONSTANT
    for row in mode_scales(rk.Network(1, skip=False, bias=0.4, c_v=1.0), 4, layer=1):
        assert row.at_layer == row.multiplier
    mean, *_ = mode_scales(rk.Network(1, skip=False, bias=0.4), 4, layer=10)
    assert abs(mean.at_layer - (1 - 2.5 / 10)) <= tolerances.CONSTANT


def test_scales_in_layers():
    """ξ is the number of layers to 1/e; modes that a filter does not see stay for ever."""
    rings = mode_scales(rk.Network(1, dilation=4), 8)
    assert (rings.column("scale")[[0, 2, 4]] == np.inf).all()
    row = rings.rows[1]
    assert abs(row.multiplier**row.scale - np.exp(-1)) <= tolerances.ROUTES
    assert mode_scales(rk.Network(1, bias=0.3, skip=False, c_v=1.0), 4).rows[0].multiplier == 0.5


def test_as_many_modes_as_the_documentation_says(monkeypatch):
    """Without the products of modes, which take most of the time."""
    monkeypatch.setattr(scales, "_with_products", np.asarray)
    assert len(mode_scales(rk.Network(1), 4096).rows) == 2049
    with pytest.raises(ValueError, match="n_timepoints is 4097, expected at most 4096"):
        mode_scales(rk.Network(1), 4097)
