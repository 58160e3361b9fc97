"""Parameters of views: which are refused, alone or beside others; equality, and how they show."""

import re
from dataclasses import FrozenInstanceError, fields
from itertools import combinations, permutations

import numpy as np
import pytest

import rescntk as rk
from rescntk.learn import View
from tests.learn.cases import EVERY_STEP


def test_views_of_the_same_parameters_are_equal():
    assert View(length=3) == View(length=3) != View()
    assert hash(View(length=3)) == hash(View(length=3))


def test_views_are_shown_as_the_calls_that_make_them():
    assert repr(View(time=1.0)) == "View(time=1.0)"
    for view in EVERY_STEP:
        assert eval(repr(view)) == view


def test_parameters_of_views_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        View().length = 5


@pytest.mark.parametrize("name", ["differences", "spectra", "statistics"])
@pytest.mark.parametrize("value", [False, True])
def test_flags_of_numpy_are_flags(name, value):
    """As searches over arrays give them; and other numbers of NumPy."""
    plain = View(**{name: value}, length=8, depth=1, time=0.5)
    numbers = {"length": np.uint8(8), "depth": np.int64(1), "time": np.float64(0.5)}
    numpy = View(**{name: np.array([value])[0]}, **numbers)
    assert numpy == plain and repr(numpy) == repr(plain)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"differences": "all"}, "differences is 'all', expected True, False or 'only'"),
        ({"spectra": 1.5}, "spectra is 1.5, expected True, False or 'whole'"),
        ({"standardize": True}, "standardize is True, expected one of 'signal', 'local', 'chan"),
        ({"length": 0}, "length is 0"),
        ({"filter_size": 4}, "filter_size is 4"),
        ({"time": -1.0}, "time is -1.0"),
        ({"head": "mean"}, "head is 'mean'"),
        ({"bands": True}, "bands is True, expected one of 'rectified', 'magnitudes', 'signs'"),
        ({"length": "long"}, "length is 'long', expected one of 'all', 'fine'"),
        ({"bands": "signs", "spectra": True}, "spectra is True, expected False with bands='signs'"),
        ({"bands": "signs", "differences": True}, "differences is True, expected False with bands"),
        ({"linear": True, "time": 1.0}, "time is 1.0, expected 0.0 with linear=True"),
        ({"linear": True, "head": "trace"}, "head is 'trace', expected 'gap' with linear=True"),
        ({"network": 3}, "network is 3, expected a rescntk.Network or None"),
        ({"network": rk.Network(2), "depth": 3}, "depth is 3, expected 2 with network=Network"),
        ({"network": rk.Network(2), "filter_size": 3}, "filter_size is 3, expected 9 with network"),
        ({"head": 0}, "head is 0, expected one of 'equivariant', 'trace', 'gap', or a positive"),
    ],
)
def test_wrong_settings_are_refused(changes, says):
    with pytest.raises(ValueError, match=says):
        View(**changes)


DEFAULTS = {f.name: f.default for f in fields(View)}
NAMES = [*DEFAULTS]


@pytest.mark.parametrize("name", NAMES)
def test_each_setting_is_checked(name):
    with pytest.raises(ValueError, match=f"^{name} "):
        View(**{name: object()})


CHANGED = {
    "differences": True,
    "spectra": True,
    "bands": "signs",
    "covariances": True,
    "statistics": True,
    "standardize": "channel",
    "time": 1.0,
    "length": 5,
    "linear": True,
    "filter_size": 3,
    "input_filter_size": 3,
    "head": "trace",
    "depth": 3,
    "network": rk.Network(3, 3),
}
"""A value of each setting that is not its default."""


def refused_beside(name):
    """Return the settings that the paragraph of one refuses beside it."""
    paragraph = re.search(rf"^    {name} : .*\n((?: {{8}}.*\n)+)", View.__doc__, re.MULTILINE)[1]
    refused = set()
    for sentence in re.split(r"[.:] ", " ".join(paragraph.split()) + " "):
        settings = set(re.findall(r"\w+", sentence)) & set(NAMES) - {name}
        if re.search(r"\bviews\b.* take only ", sentence, re.IGNORECASE):
            refused |= set(NAMES) - {name} - settings
        elif re.search(rf"^Views of {name} have no |must then have their defaults$", sentence):
            refused |= settings
    return refused


@pytest.mark.parametrize("pair", [*combinations(NAMES, 2)], ids="-".join)
def test_two_settings_are_refused_as_documented_or_else_both_act(pair, rng):
    """Of 200 time points, in blocks. Short-time spectra take the place of statistics."""
    both = {name: CHANGED[name] for name in pair}
    if any(one in refused_beside(other) for one, other in permutations(pair)):
        with pytest.raises(ValueError, match=f"expected .* with ({'|'.join(pair)})="):
            View(**both)
        return
    X = rng.standard_normal((6, 2, 200))
    pipeline = View(**both).pipeline(X)
    acting = {
        name for name in pair if View(**both | {name: DEFAULTS[name]}).pipeline(X) != pipeline
    }
    assert acting == {*pair} - ({"statistics"} if "spectra" in pair else set())
