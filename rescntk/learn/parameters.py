"""Parameters of estimators as data: each is declared once, with default, check and documentation.

scikit-learn reads the parameters of an estimator from the signature of its ``__init__``. The
decorator `estimator` writes this ``__init__`` and the docstring's section "Parameters" from the
declarations in the class body.
"""

from __future__ import annotations

import abc
import inspect
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, TypeVar, dataclass_transform

Check = Callable[[Any, str], Any]
"""Check of one value: (value, name) → the value in its final type, or a ValueError."""

E = TypeVar("E")


class Constraint(NamedTuple):
    """Accepted values of one parameter, with their documentation."""

    type: str
    """Type of the parameter, as a docstring says it."""
    doc: str
    """Meaning of the parameter."""
    check: Check | None
    """Check of each value; None where the code that uses the value checks it."""
    several: bool
    """Whether a sequence of values is accepted beside a single value."""
    is_setting: bool
    """Whether the parameter is a setting of passes, which None leaves to the plan."""


def parameter(
    *, default: Any, type: str, doc: str, check: Check | None = None, several: bool = False
) -> Any:
    """Declare a parameter of an estimator."""
    constraint = Constraint(type, doc, check, several, is_setting=False)
    return field(default=default, metadata={"constraint": constraint})


def setting(*, type: str, doc: str, check: Check) -> Any:
    """Declare a parameter that takes the place of a setting of the planned passes.

    Passes are made with each of several values. None, the default, keeps the plan's values.
    """
    constraint = Constraint(type, doc, check, several=True, is_setting=True)
    return field(default=None, metadata={"constraint": constraint})


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(parameter, setting))
def estimator(cls: type[E]) -> type[E]:
    """Give an estimator its ``__init__``, and its docstring the section of parameters.

    The section replaces the line ``{parameters}`` of the docstring. A subclass has the parameters
    of its base classes too, and comes with a decorator of its own.
    """
    cls = dataclass(kw_only=True, eq=False, repr=False)(cls)
    return _documented(cls, cls, {})


def _documented(cls: type[E], model: type, defaults: dict[str, Any]) -> type[E]:
    """Write the section of a model's parameters into the docstring of a class."""
    if cls.__doc__:
        section = textwrap.indent(parameter_section(model, defaults), "    ").lstrip()
        cls.__doc__ = cls.__doc__.replace("{parameters}", section)
    return cls


def same_parameters_as(model: type, **defaults: Any) -> Callable[[type[E]], type[E]]:
    """Decorate a class of another library that gets the parameters of an estimator.

    Its ``__init__`` sets the parameters, then calls the ``__init__`` of the base classes.
    `defaults` take the place of the estimator's.
    """
    set_parameters = vars(model)["__init__"]
    signature = inspect.signature(set_parameters)
    changed = [
        one.replace(default=defaults.get(name, one.default))
        for name, one in signature.parameters.items()
    ]

    def decorate(cls: type[E]) -> type[E]:
        def initialize(self: Any, **parameters: Any) -> None:
            set_parameters(self, **(defaults | parameters))
            super(cls, self).__init__()

        initialize.__signature__ = signature.replace(parameters=changed)  # type: ignore[attr-defined]
        cls.__init__ = initialize  # type: ignore[method-assign]
        return _documented(abc.update_abstractmethods(cls), model, defaults)

    return decorate


def constraints(cls: Any) -> dict[str, Constraint]:
    """Return the constraint of each parameter of an estimator, in the order of declaration."""
    return {f.name: f.metadata["constraint"] for f in fields(cls)}


def parameter_section(cls: Any, changed: dict[str, Any]) -> str:
    """Return the section "Parameters" of a docstring, without its title."""
    defaults = {f.name: f.default for f in fields(cls)} | changed
    lines = []
    for name, constraint in constraints(cls).items():
        lines.append(f"{name} : {constraint.type}, default {defaults[name]!r}")
        text = " ".join(constraint.doc.split())
        lines += textwrap.wrap(text, 92, initial_indent="    ", subsequent_indent="    ")
    return "\n".join(lines)


def check_parameters(model: Any) -> dict[str, Any]:
    """Return the checked value of each parameter of an estimator, by name.

    A parameter that accepts several values becomes a tuple without repetitions, or stays None.

    Raises
    ------
    ValueError
        Naming the parameter, what came and what was expected.
    """
    checked = {}
    for field_ in fields(model):
        name, constraint = field_.name, field_.metadata["constraint"]
        value = getattr(model, name)
        optional = constraint.several and field_.default is None
        if constraint.check is None or (value is None and optional):
            checked[name] = value
        elif constraint.several:
            checked[name] = check_each(value, name, constraint.check)
        else:
            checked[name] = constraint.check(value, name)
    return checked


def check_each(values: Any, name: str, check: Check) -> tuple[Any, ...]:
    """Return one value or a sequence of values, each checked, as a tuple without repetitions."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        values = (values,)
    checked = tuple(dict.fromkeys(check(value, name) for value in values))
    if not checked:
        raise ValueError(f"{name} is empty, expected at least one value")
    return checked
