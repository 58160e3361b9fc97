"""Parameters as data: signature, documentation and checks come from one declaration."""

import dataclasses
import inspect
from functools import partial

import pytest

pytest.importorskip("sklearn")
from sklearn.base import clone

from rescntk import Network
from rescntk.learn import ResidualKernelClassifier, ResidualKernelRegressor, parameters, passes
from rescntk.learn.base import ResidualKernelEstimator
from rescntk.learn.views import View
from rescntk.validation import check_integer
from tests.learn.cases import QUICK, waves


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"depth": 0}, "depth is 0"),
        ({"depth": ()}, "depth is empty"),
        ({"filter_size": 4}, "filter_size is 4"),
        ({"input_filter_size": "wide"}, "input_filter_size is 'wide'"),
        ({"kind": "nngp"}, "kind is 'nngp'"),
        ({"head": ("gap", "mean")}, "head is 'mean'"),
        ({"standardize": "yes"}, "standardize is 'yes'"),
        ({"penalty": 0.0}, "penalty is 0.0, expected a positive number"),
        ({"max_length": 0}, "max_length is 0"),
        ({"alpha": -1.0}, "alpha is -1.0"),
        ({"time_scale": -1.0}, "time_scale is -1.0"),
        ({"depth": None}, "depth is None"),
        ({"engine": "gpu"}, "engine is 'gpu'"),
    ],
)
def test_parameters_are_checked(parameters, message, rng):
    X, y = waves(rng, 10, 2)
    with pytest.raises(ValueError, match=message):
        ResidualKernelClassifier(**(QUICK | parameters)).fit(X, y)


@pytest.mark.parametrize("cls", [ResidualKernelClassifier, ResidualKernelRegressor])
def test_signature_and_documentation_agree(cls):
    signature = inspect.signature(cls).parameters
    assert list(signature) == list(parameters.constraints(cls))
    section = cls.__doc__.partition("    Parameters\n")[2].partition("    Attributes\n")[0]
    documented = [line for line in section.splitlines() if line[4:5].strip("- ")]
    assert [line.split(" : ")[0].strip() for line in documented] == list(signature)
    for line, own in zip(documented, signature.values(), strict=True):
        assert line.endswith(f", default {own.default!r}")
        assert own.kind is inspect.Parameter.KEYWORD_ONLY
    assert max(map(len, section.splitlines())) <= 100


def test_a_subclass_adds_parameters_to_those_of_its_base():
    """A declaration is enough for signature, documentation, get_params, clone and check."""

    @parameters.estimator
    class Wider(ResidualKernelRegressor):
        """Regress.

        Parameters
        ----------
        {parameters}
        """

        width: int = parameters.setting(
            type="int or sequence", check=partial(check_integer, at_least=2), doc="A width."
        )

    model = clone(Wider(width=[3, 2, 3], depth=2))
    inherited = ResidualKernelRegressor(depth=2).get_params()
    assert model.get_params() == inherited | {"width": [3, 2, 3]}
    checked = parameters.check_parameters(model)
    assert checked["width"] == (3, 2) and checked["depth"] == (2,) and checked["alpha"] == 1.0
    assert parameters.check_parameters(Wider())["width"] is None
    assert "\nwidth : int or sequence, default None\n    A width." in inspect.getdoc(Wider)
    with pytest.raises(ValueError, match="width is 1, expected an integer of at least 2"):
        parameters.check_parameters(Wider(width=1))


def test_settings_are_fields_of_views_networks_and_kernels():
    """A plan reads the value of a setting from these, by the name of the setting."""
    known = {
        f.name for kind in (View, Network, passes.MeanKernel) for f in dataclasses.fields(kind)
    }
    rules = parameters.constraints(ResidualKernelEstimator)
    settings = {name for name, rule in rules.items() if rule.is_setting}
    assert settings == passes._COMMON.keys() <= known
    assert {f.name for f in dataclasses.fields(View)} <= settings
    assert all(row.keys() <= settings for row in passes.PLAN)
