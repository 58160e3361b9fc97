"""Steps: what they declare, against what they do. Tests of views have the formulas of steps."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from rescntk.learn import View
from rescntk.learn.views.steps import BlockStep, LengthKeepingStep, Step, WholeSpectrum
from tests import tolerances
from tests.helpers import assert_within
from tests.learn.cases import EVERY_STEP
from tests.tolerances import EPS


def leaves(kind):
    """Yield the classes of steps that views can have."""
    if not kind.__abstractmethods__:
        yield kind
    for derived in kind.__subclasses__():
        yield from leaves(derived)


STEPS = set(leaves(Step))


DECLARED = {
    "stage": "time",
    "depends_on_levels": True,
    "reach": 0,
    "n_points_after": None,
    "transform": None,
    "contributions_before": None,
    "channel_scale": None,
}
"""Names that a class of steps gives."""

LEFT_OUT = [
    *((Step, name) for name in DECLARED if name != "channel_scale"),
    *((LengthKeepingStep, name) for name in ("stage", "depends_on_levels", "reach", "transform")),
    *((BlockStep, name) for name in ("depends_on_levels", "reach", "transform", "channel_scale")),
]
"""Bases of steps, and names that they do not have by themselves."""


@pytest.mark.parametrize(("base", "missing"), LEFT_OUT)
def test_a_step_declares_what_it_does(base, missing):
    names = {name: value for name, value in DECLARED.items() if name != missing}
    with pytest.raises(TypeError, match=f"abstract.*{missing}"):
        type("Doubled", (base,), names)()


def test_the_views_of_tests_have_every_step(rng):
    X = rng.standard_normal((6, 2, 200))
    assert {type(step) for view in EVERY_STEP for step in view.pipeline(X).steps} == STEPS


@pytest.mark.parametrize("view", EVERY_STEP)
def test_steps_of_the_same_settings_are_equal_whatever_they_were_fitted_to(view, rng):
    X = rng.standard_normal((6, 2, 200))
    pipeline = view.pipeline(X)
    steps = [pipeline.fit_and_transform(S, np.ones(6))[0].steps for S in (X, 1e100 * (1 + X))]
    assert steps[0] == steps[1] == pipeline.steps and len({*steps, pipeline.steps}) == 1


@pytest.mark.parametrize("view", EVERY_STEP)
def test_the_docstring_has_the_order_of_steps(view, rng):
    """Its list begins with the stages of steps."""
    listed = re.findall(r"^ +(\d+)\. (.*)", View.__doc__, re.MULTILINE)
    assert [int(number) for number, _ in listed] == [*range(1, 1 + len(listed))]
    steps = [step.stage for step in view.pipeline(rng.standard_normal((6, 2, 200))).steps]
    places = [k for stage in steps for k, (_, text) in enumerate(listed) if text.startswith(stage)]
    assert len(places) == len(steps) > 0 and places == sorted(places)


def test_each_stage_of_the_docstring_has_a_step(rng):
    listed = re.findall(r"^ +\d+\. (.*)", View.__doc__, re.MULTILINE)
    X = rng.standard_normal((6, 2, 200))
    stages = {step.stage for view in EVERY_STEP for step in view.pipeline(X).steps}
    assert all(any(text.startswith(stage) for stage in stages) for text in listed)


def fitted_steps(view, X):
    """Yield the steps of a view, fitted, with the signals before each."""
    for step in view.pipeline(X).steps:
        step = step.fit(X, np.ones(len(X)))
        yield step, X
        X = step.transform(X)


@pytest.mark.parametrize("view", EVERY_STEP)
def test_a_point_changes_points_within_reach(view, rng):
    """Two points change places: mean and deviation of the signal stay.

    They are neighbours, or half of the signal apart, where a running sum changes in between.
    """
    for step, X in fitted_steps(view, rng.standard_normal((3, 2, 150)).cumsum(axis=2)):
        length, after = X.shape[2], step.transform(X)
        size = -(-length // after.shape[2])
        farthest = 0
        for pair in [(j, j + gap) for gap in (1, length // 2) for j in range(0, length - gap, 7)]:
            changed = X.copy()
            changed[:, :, pair] = X[:, :, pair[::-1]]
            differs = np.abs(step.transform(changed) - after).max(axis=(0, 1)) > tolerances.CHANGED
            distances = np.abs(np.flatnonzero(differs)[:, None] - np.array(pair) // size)
            farthest = max(farthest, distances.min(axis=1).max(initial=0))
        if math.isinf(step.reach):
            assert farthest >= (after.shape[2] - 1) / 4
        else:
            assert farthest == step.reach


@pytest.mark.parametrize("view", EVERY_STEP)
def test_channels_come_from_the_channels_that_change_them(view, rng):
    """What is seen of one of three channels changes if it does, and no other channel does."""
    X = rng.standard_normal((6, 3, 200)).cumsum(axis=2)
    pipeline, seen = view.pipeline(X).fit_and_transform(X, np.ones(6))
    channels = pipeline.source_channels(3)
    for k in range(3):
        changed = X.copy()
        changed[:, k] = X[:, k, ::-1] ** 3
        after = pipeline.separated(pipeline.transform(changed))
        differs = np.abs(after - pipeline.separated(seen)).max(axis=(0, 2)) > tolerances.CHANGED
        if view.covariances:  # a covariance of two channels is in the rows of both
            assert differs[channels == k].all() and not differs[channels == -1].any()
        else:
            assert (differs == (channels == k)).all()


@pytest.mark.parametrize("n_channels", [1, 3, 40])
@pytest.mark.parametrize("view", EVERY_STEP)
def test_separated_channels_have_the_same_inner_products_at_points(view, n_channels, rng):
    X = rng.standard_normal((6, n_channels, 90)).cumsum(axis=2)
    pipeline, seen = view.pipeline(X).fit_and_transform(X, np.ones(6))
    products = [np.einsum("ncp,mcp->nmp", Z, Z) for Z in (pipeline.separated(seen), seen)]
    assert_within(*products, tolerances.SEEN, np.abs(products[1]).max())


@pytest.mark.parametrize("factor", [1.0, 428.0, 1e9])
@pytest.mark.parametrize("view", EVERY_STEP)
def test_no_step_magnifies_rounding_errors_of_a_constant_channel(view, factor, rng):
    """The same signals with a constant of few digits, which has no rounding errors, are near."""
    X, errors = rng.standard_normal((6, 2, 200)), rng.integers(-1, 2, (6, 200))
    seen = []
    for constant, relative in ((1 / 3, EPS["float64"] * errors), (21845 / 2**16, 0 * errors)):
        X[:, 1] = factor * constant * (1 + relative)
        seen.append(view.pipeline(X).fit_and_transform(X, np.ones(6))[1])
    three_digits = 1e-3  # the constants differ by 2e-5, and spectra have roots of magnitudes
    assert_within(*seen, three_digits, max(1, np.abs(seen[1]).max()))


STRUCTURED = {
    "ramp": np.arange(200) / 3,
    "impulse": np.where(np.arange(200) == 77, 1 / 3, 0.0),
}
"""Channels whose differences are constant, or whose points are, but for rounding errors."""


@pytest.mark.parametrize("shape", STRUCTURED)
@pytest.mark.parametrize("view", EVERY_STEP)
def test_no_step_magnifies_rounding_errors_of_a_ramp_or_an_impulse(view, shape, rng):
    """Such as a column of time stamps, the same in all signals."""
    X, errors = rng.standard_normal((6, 2, 200)), rng.integers(-1, 2, (6, 200))
    seen = []
    for relative in (0, 2 * EPS["float64"] * errors):
        X[:, 1] = STRUCTURED[shape] * (1 + relative)
        seen.append(view.pipeline(X).fit_and_transform(X, np.ones(6))[1])
    roots = 1e-5  # spectra are roots of magnitudes, of which rounding errors are 1e-15
    assert_within(*seen, roots, max(1, np.abs(seen[1]).max()))


@pytest.mark.parametrize("length", [200, 37])
@pytest.mark.parametrize("view", EVERY_STEP)
def test_signals_have_as_many_points_after_a_step_as_it_says(view, length, rng):
    """Also shorter and longer signals than in the fit, if it takes lists; and behind all steps."""
    for step, X in fitted_steps(view, rng.standard_normal((6, 2, length))):
        others = [1, length // 2, 3 * length] if not step.reason_against_lists else []
        for n_points in (*others, X.shape[2]):
            after = step.transform(np.resize(X, (*X.shape[:2], n_points)))
            assert after.shape[2] == step.n_points_after(n_points)
    assert view.pipeline(np.zeros((6, 2, length))).n_points == after.shape[2]


REACHING = [
    View(length=12, differences=True, standardize="channel", filter_size=3),
    View(length=12, spectra=True, differences=True, filter_size=5),
    View(differences="only", filter_size=3),
]


class FirstStep(LengthKeepingStep):
    """A step that changes nothing, and remembers how far what comes behind it reaches."""

    stage, reach, depends_on_levels = "", 0, True

    def transform(self, X):
        return X

    def contributions_before(self, contributions, x, reach):
        self.reach_behind = reach
        return contributions


@pytest.mark.parametrize("view", REACHING)
def test_the_reach_of_what_comes_behind_is_in_points_after_a_step(view, rng):
    """Of time points that are seen together, by what a change of one changes behind."""
    X = rng.standard_normal((3, 2, 120)).cumsum(axis=2)
    fitted, seen = view.pipeline(X).fit_and_transform(X, np.ones(3))
    first = FirstStep()
    replace(fitted, steps=(first, *fitted.steps)).to_time(np.eye(seen.shape[2]), X[0])
    block, farthest = 120 // seen.shape[2], 0
    for j in range(119):  # neighbours change places: mean and deviation of the signal stay
        changed = X.copy()
        changed[:, :, [j, j + 1]] = X[:, :, [j + 1, j]]
        differs = np.abs(fitted.transform(changed) - seen).max(axis=(0, 1)) > tolerances.CHANGED
        points = np.flatnonzero(differs)
        if not len(points):
            continue
        end = min(119, (points[-1] + fitted.kernel.reach + 1) * block - 1)
        begin = max(0, (points[0] - fitted.kernel.reach) * block)
        farthest = max(farthest, end - (j + 1), j - begin)
    spare = block if view.spectra else 0  # windows of spectra end in the middle of a block
    assert farthest <= first.reach_behind <= farthest + spare


@pytest.mark.parametrize("centre", [31, 108])
@pytest.mark.parametrize("view", EVERY_STEP)
def test_shares_go_back_to_where_a_burst_is(view, centre, rng):
    """Points that a burst changes, beside silence, are divided over its time points."""
    time, X = np.arange(150), rng.standard_normal((20, 1, 150))
    burst = np.exp(-(((time - centre) / 3) ** 2)) * np.cos(2.0 * (time - centre))
    fitted = view.pipeline(X).fit_and_transform(X, np.ones(20))[0]
    seen, silence = fitted.transform(np.array([[burst], [0 * burst]]))
    apart = seen - silence
    apart -= np.median(apart, axis=1, keepdims=True)
    energy = (apart**2).sum(axis=0)
    shares = energy / energy.sum() if len(energy) > 1 else np.ones(1)
    found = fitted.to_time(shares, burst[None])
    block = -(-150 // len(energy))
    spread = np.sqrt(found @ (time - centre) ** 2)
    to_the_middle = block / 2  # of the burst's block, over all of which its share is spread
    assert abs(found @ time - centre) <= to_the_middle
    is_local = all(math.isfinite(step.reach) for step in fitted.steps)
    assert spread <= (2 * block + 4 if is_local else 20)  # by equal parts: 43


def test_bands_of_a_spectrum_are_seen_with_all_that_comes_behind(rng):
    """Differences of bands reach one band farther than the network."""
    X = rng.standard_normal((3, 1, 80))
    view = View(spectra="whole", differences=True, filter_size=3)
    fitted, seen = view.pipeline(X).fit_and_transform(X, np.ones(3))
    scale, spectrum, *_ = fitted.steps
    shares = np.eye(seen.shape[2])
    before = scale.transform(X)[0]
    expected = spectrum.contributions_before(shares, before, fitted.kernel.reach + 1)
    assert np.array_equal(fitted.to_time(shares, X[0]), expected)


def test_a_bell_of_frequencies_divides_a_block_of_a_spectrum(rng):
    """By squared envelopes of what the network sees, by a sum over frequencies."""
    X = rng.standard_normal((3, 2, 60))
    view = View(spectra="whole", length=10)
    scale, spectrum, *_ = view.pipeline(X).fit_and_transform(X, np.ones(3))[0].steps
    seen, reach = scale.transform(X)[0], 2
    found, time = spectrum.contributions_before(np.eye(10), seen, reach), np.arange(60)
    coefficients = np.fft.rfft(standardize(seen), axis=1)
    for block in range(10):
        waves = np.zeros((2, 60), dtype=complex)
        for k in range(1, 31):
            far = abs((k - 1) // 3 - block)
            if far <= reach:
                bell = np.cos(np.pi * far / (2 * (reach + 1))) ** 2
                waves += bell * coefficients[:, k : k + 1] * np.exp(2j * np.pi * k * time / 60)
        energy = (np.abs(waves) ** 2).sum(axis=0)
        assert_within(found[block], energy / energy.sum(), tolerances.FOURIER)


def standardize(x):
    return (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True)


def test_a_weak_frequency_is_found_where_it_is(rng):
    """A burst of a billionth of the signal is no rounding error."""
    time = np.arange(128)
    burst = np.exp(-(((time - 90) / 6) ** 2)) * np.sin(2 * np.pi * 45 * time / 128)
    x = np.sin(2 * np.pi * 5 * time / 128) + 1e-9 * burst
    view = View(spectra="whole", filter_size=3, length="all").pipeline(x[None, None])
    *_, spectrum = (step for step in view.steps if isinstance(step, WholeSpectrum))
    parts = spectrum.contributions_before(np.eye(64), x[None], 1)
    deviation = 3  # of energy over time, exp(−2 ((t − place)/6)²)
    assert abs(parts[44] @ time - 90) < deviation


def test_frequencies_without_energy_are_divided_equally():
    """Beside those of a sine, whose rounding errors have no place in time."""
    x = np.sin(2 * np.pi * 5 * np.arange(128) / 128)
    view = View(spectra="whole", filter_size=3, length="all").pipeline(x[None, None])
    *_, spectrum = (step for step in view.steps if isinstance(step, WholeSpectrum))
    assert_within(
        spectrum.contributions_before(np.eye(64), x[None], 1)[20:], 1 / 128, tolerances.SEEN
    )


def test_blocks_of_signs_are_divided_equally(rng):
    X = rng.standard_normal((2, 1, 40))
    fitted, seen = View(bands="signs", length=8).pipeline(X).fit_and_transform(X, np.ones(2))
    parts = fitted.to_time(np.eye(seen.shape[2]), X[0])
    assert_within(parts, np.repeat(np.eye(8) / 5, 5, axis=1), tolerances.SEEN)


@pytest.mark.parametrize("kind", ["rectified", "magnitudes"])
def test_energy_of_bands_divides_a_block(kind, rng):
    """A burst in the first points of a block has the block's share."""
    time, X = np.arange(160), 1e-6 * rng.standard_normal((1, 2, 160))
    X[0, 0] += np.exp(-(((time - 43) / 2) ** 2)) * np.cos(2.5 * time)
    view = View(bands=kind, length=8).pipeline(X)
    fitted, seen = view.fit_and_transform(X, np.ones(1))
    parts = fitted.to_time(np.eye(seen.shape[2]), X[0])
    near = 3  # less than half of the way to the middle of the block, 6.5 points
    assert (parts >= 0).all() and abs(parts[2] @ time - 43) < near
    assert_within(parts.sum(axis=1), 1, tolerances.SEEN)
    flat = fitted.to_time(np.eye(seen.shape[2]), np.zeros((2, 160)))  # no energy: equal parts
    assert_within(flat[2, 40:60], 1 / 20, tolerances.SEEN)


@pytest.mark.parametrize("view", EVERY_STEP)
def test_steps_depend_on_levels_as_they_say_and_views_if_all_steps_do(view, rng):
    X = rng.standard_normal((6, 2, 200))
    for step, before in fitted_steps(view, X):
        levels = rng.uniform(1.0, 3.0, (before.shape[1], 1))
        change = np.abs(step.transform(before + levels) - step.transform(before)).max()
        assert (change > tolerances.CHANGED) == step.depends_on_levels
    fitted, seen = view.pipeline(X).fit_and_transform(X, np.ones(6))
    changed = (
        np.abs(fitted.transform(X + np.array([[3.0], [-2.0]])) - seen).max() > tolerances.CHANGED
    )
    assert changed == fitted.depends_on_levels
