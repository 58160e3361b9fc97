"""Parameters: signature, documentation and checks agree."""

import dataclasses
import inspect
import re

import pytest

pytest.importorskip("sklearn")
from rescntk import Network
from rescntk.learn import (
    ResidualKernelClassifier,
    ResidualKernelRegressor,
    estimator_parameters,
    passes,
)
from rescntk.learn.views import View
from tests.learn.cases import QUICK, waves


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"depth": 0}, "depth is 0"),
        ({"depth": ()}, "depth is empty"),
        ({"depth": None}, "depth is None"),
        ({"filter_size": 4}, "filter_size is 4"),
        ({"input_filter_size": "wide"}, "input_filter_size is 'wide'"),
        ({"kind": "nngp"}, "kind is 'nngp'"),
        ({"head": ("gap", "mean")}, "head is 'mean'"),
        ({"standardize": "yes"}, "standardize is 'yes'"),
        ({"first_differences": "yes"}, "expected True, False or 'only'"),
        ({"penalty": 0.0}, "penalty is 0.0, expected a positive number"),
        ({"max_length": 0}, "max_length is 0"),
        ({"alpha": -1.0}, "alpha is -1.0"),
        ({"time_scale": -1.0}, "time_scale is -1.0"),
        ({"engine": "gpu"}, "engine is 'gpu'"),
        ({"n_jobs": 0}, "n_jobs is 0"),
        ({"landmarks": 1}, "landmarks is 1, expected an integer of at least 2"),
        ({"landmarks": "some"}, "landmarks is 'some', expected None, 'all' or an integer"),
        ({"class_weight": "even"}, "class_weight is 'even', expected None, 'balanced'"),
    ],
)
def test_parameters_are_checked(changes, message, rng):
    X, y = waves(rng, 10, 2)
    with pytest.raises(ValueError, match=message):
        ResidualKernelClassifier(**(QUICK | changes)).fit(X, y)


@pytest.mark.parametrize("cls", [ResidualKernelClassifier, ResidualKernelRegressor])
def test_signature_and_documentation_agree(cls):
    signature = inspect.signature(cls).parameters
    section = inspect.getdoc(cls).partition("Parameters\n")[2].partition("Attributes\n")[0]
    entries = re.findall(r"^(\w[^:\n]*?)(?: : .*)?$", section, re.M)
    assert sorted(re.split(r",\s+", ", ".join(entries))) == sorted(signature)
    defaults = dict(re.findall(r"^(\w+) : .*, default (.*)$", section, re.M))
    for name, default in defaults.items():
        assert repr(signature[name].default).replace("'", '"') == default
    assert {parameter.kind for parameter in signature.values()} == {inspect.Parameter.KEYWORD_ONLY}


def test_settings_are_fields_of_views_networks_and_passes():
    """A plan reads the value of a setting from these, by the name of the setting."""
    known = {f.name for kind in (View, Network, passes.Pass) for f in dataclasses.fields(kind)}
    settings = estimator_parameters.SETTINGS.keys()
    assert settings == passes.COMMON.keys() <= known
    assert {f.name for f in dataclasses.fields(View) if f.compare} <= settings
    assert all(row.keys() <= settings for row in passes.PLAN)
