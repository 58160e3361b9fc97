"""Docstrings of public names follow numpydoc, with an example that the doctests run."""

import inspect
import re
from importlib import import_module

import pytest

from tests.project.pages import ROOT

pytestmark = pytest.mark.slow

validate = pytest.importorskip("numpydoc.validate").validate

MODULES = re.findall(r"^   (rescntk[\w.]*)$", (ROOT / "docs/api/index.md").read_text(), re.M)

# The house writes less than numpydoc asks for, wherever a reader finds it anyway.
HOUSE = {
    "SA01",  # no "See Also": names in the text are links
    "ES01",  # no second paragraph where the first line says all
    "PR03",  # parameters that are explained together stand together
    "PR04",  # no type where the description is "as for" another function
    "PR07",  # no description where name and type say all
    "PR08",  # a description may begin with a symbol
    "PR09",  # or end with a remark in brackets
    "RT04",  # a result may begin with a symbol
    "RT02",  # and have names of its own
    "RT01",  # no section where the first line says what is returned
    "RT03",  # no description where the type with its shape says all
}
OF_CLASSES = {
    "EX01",  # results of functions have their examples there
    "PR01",  # fields of records are documented one by one
}


def documented():
    """Yield the full names of public classes and functions of the reference, with the object."""
    for module in MODULES:
        found = import_module(module)
        for name in getattr(found, "__all__", vars(found)):
            value = getattr(found, name)
            own = "__all__" in vars(found) or getattr(value, "__module__", None) == module
            if callable(value) and own and not name.startswith("_"):
                yield f"{module}.{name}", value


def test_docstrings_are_complete():
    wrong = []
    for name, value in documented():
        allowed = HOUSE | (OF_CLASSES if inspect.isclass(value) else set())
        errors = [(code, text) for code, text in validate(name)["errors"] if code not in allowed]
        wrong += [f"{name}: {code} {text}" for code, text in errors]
    assert not wrong, "\n".join(wrong)


def test_there_are_some():
    assert len(dict(documented())) > 150
