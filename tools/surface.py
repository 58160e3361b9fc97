"""List what version 1 will freeze: public names, parameters and defaults, commands, file formats.

    python tools/surface.py            # write the list of docs/project/surface.md
    python tools/surface.py --check    # only say whether the list is up to date

Names are those of the modules of the reference (docs/api/index.md).
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/project/surface.md"


def module_names() -> list[str]:
    """Return the modules of the reference."""
    index = (ROOT / "docs/api/index.md").read_text("utf-8")
    return re.findall(r"^   (rescntk[\w.]*)$", index, re.M)


def names_of(module: Any) -> Iterator[tuple[str, Any]]:
    """Yield the public names of a module, sorted, and what they name."""
    for name in sorted(getattr(module, "__all__", vars(module))):
        value = getattr(module, name)
        is_own = getattr(value, "__module__", None) == module.__name__
        if (
            name[0] != "_"
            and not inspect.ismodule(value)
            and (hasattr(module, "__all__") or is_own)
        ):
            yield name, value


def parameters_of(function: Any) -> str:
    """Return the parameters of a function and their defaults, without annotations."""
    signature = inspect.signature(function)
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    text = str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def own_members(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield public members of a class, its own and those of the package's bases."""
    seen = set[str]()
    for base in kind.__mro__:
        if base.__module__.startswith("rescntk"):
            for name, member in vars(base).items():
                if name[0] != "_" and name not in seen:
                    seen.add(name)
                    yield name, member


def lines_of_class(kind: type) -> Iterator[str]:
    """Yield a line for each public method, and one for attributes."""
    documented = re.findall(r"^((?:\w+_, )*\w+_) :", inspect.getdoc(kind) or "", re.M)
    attributes = {name for names in documented for name in names.split(", ")}
    for name, member in sorted(own_members(kind)):
        if isinstance(member, classmethod | staticmethod):
            member = member.__func__
        if inspect.isfunction(member):
            yield f"    .{name}{parameters_of(member)}"
        elif not isinstance(member, type) and "RequestMethod" not in type(member).__name__:
            attributes.add(name)
    for base in kind.__mro__:
        if base.__module__.startswith("rescntk"):
            attributes |= {name for name in vars(base).get("__annotations__", ()) if name[0] != "_"}
    if attributes:
        yield f"    attributes: {', '.join(sorted(attributes))}"


def lines_of_command() -> Iterator[str]:
    """Yield the commands of rescntk and their options."""
    from rescntk.__main__ import _parser

    (commands,) = (
        action for action in _parser()._actions if isinstance(action, argparse._SubParsersAction)
    )
    for name, command in sorted(commands.choices.items()):
        options = (" ".join(a.option_strings) or a.dest for a in command._actions)
        yield f"rescntk {name}: {', '.join(sorted(options))}"


def surface() -> str:
    """Return the list."""
    lines = []
    for module_name in module_names():
        lines += [f"# {module_name}"]
        for name, value in names_of(import_module(module_name)):
            if inspect.isclass(value):
                is_error = issubclass(value, BaseException)
                lines.append(name if is_error else f"{name}{parameters_of(value)}")
                lines += [] if is_error else lines_of_class(value)
            elif callable(value):
                lines.append(f"{name}{parameters_of(value)}")
            else:
                lines.append(f"{name} = {value!r}" if isinstance(value, str | tuple) else name)
        lines.append("")
    return "\n".join([*lines, "# commands", *lines_of_command(), ""])


def page_with(listed: str) -> str:
    """Return the page with this list."""
    begin, end = "```text\n", "```\n"
    text = PAGE.read_text("utf-8")
    return (
        text[: text.index(begin) + len(begin)]
        + listed
        + text[text.index(end, text.index(begin) + 3) :]
    )


if __name__ == "__main__":
    new = page_with(surface())
    if "--check" in sys.argv:
        sys.exit(None if new == PAGE.read_text("utf-8") else f"{PAGE} is not up to date")
    PAGE.write_text(new, "utf-8")
