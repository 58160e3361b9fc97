"""Docstrings of public names follow numpydoc."""

import ast
import inspect
import re
from contextlib import suppress
from typing import get_args, get_type_hints

import pytest

from rescntk.theory.tools.report_table import ReportTable
from tests.helpers import parameters_of
from tests.project.pages import public_names

validate = pytest.importorskip("numpydoc.validate").validate
docscrape = pytest.importorskip("numpydoc.docscrape")

HOUSE = {"SA01", "ES01", *(f"PR0{k}" for k in (3, 4, 7, 8, 9)), *(f"RT0{k}" for k in (1, 2, 3, 4))}
"""No "See Also" (names in the text are links) and no second paragraph where the first line says
all; parameters explained together; no type, description or section that says nothing new;
descriptions that begin with a symbol or end with a remark in brackets; results with names."""
OF_CLASSES = {"EX01"}
"""Results of functions have their examples there."""

DOCUMENTED = {name: value for name, value in public_names() if callable(value)}


def has_parameters(name):
    """Return whether a class documents all its parameters, as estimators do and `View` does.

    Fields of records are documented one by one, and aeon's forms share those of estimators.
    """
    value = DOCUMENTED[name]
    is_estimator = hasattr(value, "get_params") and not name.startswith("rescntk.learn.aeon.")
    return is_estimator or bool(docscrape.ClassDoc(value)["Parameters"])


@pytest.mark.parametrize("name", DOCUMENTED)
def test_docstring(name):
    value = DOCUMENTED[name]
    allowed = HOUSE | (OF_CLASSES if inspect.isclass(value) else set())
    if inspect.isclass(value) and not has_parameters(name):
        allowed |= {"PR01"}
    if str(getattr(value, "__annotations__", {}).get("return")).startswith("tuple"):
        allowed -= {"RT01"}  # several things, each with its shape
    assert not [(code, text) for code, text in validate(name)["errors"] if code not in allowed]


def test_many_names_are_documented():
    assert len(DOCUMENTED) > 100


METHODS = {
    f"{name}.{method}": value
    for name, kind in DOCUMENTED.items()
    if inspect.isclass(kind)
    for method, value in inspect.getmembers(kind, inspect.isfunction)
    if value.__module__.startswith("rescntk.") and not method.startswith("_") and value.__doc__
}
CALLS = DOCUMENTED | METHODS
OF_ESTIMATORS = [name for name in METHODS if hasattr(DOCUMENTED[name.rpartition(".")[0]], "fit")]


@pytest.mark.parametrize("name", OF_ESTIMATORS)
def test_docstring_of_a_method_of_an_estimator(name):
    """Examples are in the docstrings of classes."""
    allowed = HOUSE | {"EX01"}
    assert not [(code, text) for code, text in validate(name)["errors"] if code not in allowed]


def defaults(name):
    """Return the parameters of a public name that have defaults, with these."""
    parameters = parameters_of(CALLS[name]).values()
    return {p.name: p.default for p in parameters if p.default is not p.empty}


def documented_defaults(name):
    """Return the defaults that a docstring tells as literals of Python."""
    told = {}
    docstring = docscrape.NumpyDocString(inspect.getdoc(CALLS[name]))
    for parameter in docstring["Parameters"]:
        if default := re.search(r", default (.*)$", parameter.type):
            with suppress(SyntaxError, ValueError):  # such as "both"
                value = ast.literal_eval(default[1])
                told |= dict.fromkeys(parameter.name.split(", "), value)
    return told


TELLING = [name for name in CALLS if documented_defaults(name)]


@pytest.mark.parametrize("name", TELLING)
def test_defaults_are_those_of_the_docstring(name):
    told, found = documented_defaults(name), defaults(name)
    assert {each: repr(found[each]) for each in told} == {k: repr(v) for k, v in told.items()}


def test_many_docstrings_tell_defaults():
    assert len(TELLING) > 40


@pytest.mark.parametrize(
    "parameter", ["engine", "head", "normalized", "progress", "filter_size", "alpha"]
)
def test_a_default_that_no_docstring_tells_is_the_same_in_all_calls(parameter):
    found = {
        name: defaults(name)[parameter]
        for name in CALLS
        if parameter in defaults(name) and parameter not in documented_defaults(name)
    }
    assert len(found) > 1 and len(set(found.values())) == 1, found


TABLES = [v for v in DOCUMENTED.values() if inspect.isclass(v) and issubclass(v, ReportTable)]


@pytest.mark.parametrize("table", TABLES)
def test_the_class_of_a_table_documents_its_columns(table):
    """Users get rows and make none: their types are not public."""
    (row,) = get_args(table.__orig_bases__[0])
    names = [*row._fields]
    for part in get_type_hints(row).values():
        names += getattr(part, "_fields", ())
    assert row not in DOCUMENTED.values()
    assert not [name for name in names if f"``{name}``" not in table.__doc__]


def test_all_tables_are_documented():
    assert len(TABLES) == len(ReportTable.__subclasses__())
