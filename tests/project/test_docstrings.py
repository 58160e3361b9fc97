"""Docstrings of public names follow numpydoc, with an example that the doctests run."""

from inspect import isclass

import pytest

from tests.project.pages import public_names

pytestmark = pytest.mark.slow
validate = pytest.importorskip("numpydoc.validate").validate

# The house writes less than numpydoc asks for, wherever a reader finds it anyway.
HOUSE = {
    "SA01",  # no "See Also": names in the text are links, and the site adds pages of the guide.
    "ES01",  # no second paragraph where the first line says all.
    "PR03",  # parameters that are explained together stand together.
    "PR04",  # no type where the description is "as for" another function.
    "PR07",  # no description where name and type say all.
    "PR08",  # a description may begin with a symbol,
    "PR09",  # or end with a remark in brackets.
    "RT04",  # a result may begin with a symbol,
    "RT02",  # and have names of its own.
    "RT01",  # no section where one thing is returned: the first line names it, the site its type.
    "RT03",  # no description where the type with its shape says all.
}
OF_CLASSES = {
    "EX01",  # results of functions have their examples there
    "PR01",  # fields of records are documented one by one
}


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
