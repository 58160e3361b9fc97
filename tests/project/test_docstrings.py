"""Docstrings of public names follow numpydoc, with an example that the doctests run."""

from inspect import isclass

import pytest

from tests.project.pages import public_names

pytestmark = pytest.mark.slow
validate = pytest.importorskip("numpydoc.validate").validate

HOUSE = {"SA01", "ES01", *(f"PR0{k}" for k in (3, 4, 7, 8, 9)), *(f"RT0{k}" for k in (1, 2, 3, 4))}
"""No "See Also" (names in the text are links) and no second paragraph where the first line says
all; parameters explained together; no type, description or section that says nothing new;
descriptions that begin with a symbol or end with a remark in brackets; results with names."""
# Results of functions have their examples there; fields of records are documented one by one.
OF_CLASSES = {"EX01", "PR01"}


def test_docstrings_are_complete():
    documented = {name: value for name, value in public_names() if callable(value)}
    assert len(documented) > 100
    wrong = []
    for name, value in documented.items():
        allowed = HOUSE | (OF_CLASSES if isclass(value) else set())
        if str(getattr(value, "__annotations__", {}).get("return")).startswith("tuple"):
            allowed -= {"RT01"}  # several things, each with its shape
        errors = [(code, text) for code, text in validate(name)["errors"] if code not in allowed]
        wrong += [f"{name}: {code} {text}" for code, text in errors]
    assert not wrong, "\n".join(wrong)
