"""A new field of `Network` stands in every place, and what does not know it refuses it by name."""

import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import rescntk as rk
from rescntk import engines
from rescntk.checks.values import KINDS
from rescntk.engines.request import Request
from rescntk.network import PER_LAYER_FIELDS
from rescntk.network.activations import ACTIVATIONS
from rescntk.network.parameters import FILTER_FIELDS
from rescntk.network.parts import BRANCH_POWERS, Layer
from tests.helpers import Wider
from tests.oracles import quadruple

THEORY = Path(__file__).parents[2] / "docs/theory"
SIGNALS = np.random.default_rng(0).standard_normal((3, 2, 3))


@pytest.mark.parametrize("engine", engines.ENGINES)
def test_no_engine_takes_a_made_up_field(engine):
    for value in (0.5, (0.0, 0.5)):
        request = Request(Wider(2, made_up=value), "gap", KINDS, (2,))
        refusal = engines.ENGINES[engine].refuses(request, SIGNALS)
        assert f"made_up {value}, expected 0.0" in refusal


def test_the_gain_of_a_branch_refuses_a_made_up_number():
    for value in (0.5, (0.0, 0.5)):
        with pytest.raises(ValueError, match="network has made_up .*, expected 0.0"):
            _ = Wider(2, made_up=value).branch_gain


NUMBERS = [name for name in Layer._fields if isinstance(getattr(rk.Network(2), name, 0), float)]


@pytest.mark.parametrize("field", NUMBERS)
def test_numbers_that_are_too_large_are_refused_by_a_sentence(field):
    """An error of arithmetic, such as that of a fraction beyond float64, would name no field."""
    with pytest.raises((ValueError, OverflowError), match="expected|the kernel exceeds"):
        rk.gram(rk.Network(2, **{field: 1e200}), SIGNALS)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_stand_in_the_docstring_and_on_their_page(name):
    (choices,) = re.findall(r"^    activation : (.*)$", rk.Network.__doc__, re.M)
    page = (THEORY / "activations.md").read_text("utf-8")
    assert f'"{name}"' in choices
    assert re.search(rf"^## {name}$", page, re.M | re.I)


def test_numbers_of_layers_stand_in_every_place():
    """The places of docs/project/contributing.md that do not refuse a new number by themselves."""
    page = (THEORY / "network.md").read_text("utf-8")
    for field in fields(rk.Network):
        assert re.search(rf"^    [\w, ]*\b{field.name}\b[\w, ]* : ", rk.Network.__doc__, re.M)
        assert f"`{field.name}" in page or field.name not in PER_LAYER_FIELDS
    numbers = set(Layer._fields) - {"inner", "outer", "activation_gain"}
    assert numbers <= PER_LAYER_FIELDS - FILTER_FIELDS and BRANCH_POWERS.keys() <= numbers
    assert quadruple.PER_LAYER_FIELDS.keys() == PER_LAYER_FIELDS
