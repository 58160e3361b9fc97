"""The source: who imports whom, in tests too."""

import ast
import re

import pytest

from tests.project.pages import ROOT

FILES = sorted((ROOT / "rescntk").rglob("*.py"))


def room_of(path):
    """Return the room of a file: a file or folder of the package."""
    return path.relative_to(ROOT / "rescntk").parts[0].removesuffix(".py")


ROOMS = sorted({room_of(path) for path in FILES})


def nodes(path):
    return ast.walk(ast.parse(path.read_text("utf-8")))


def imported(path):
    """Yield the parts of the name of each module, and of each name, that a file imports."""
    package = list(path.relative_to(ROOT).parent.parts)
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            module = [*base, *(node.module or "").split(".")]
            yield from ([part for part in (*module, alias.name) if part] for alias in node.names)


def places():
    """Return the place of each room in the order on the page for contributors."""
    page = (ROOT / "docs/project/contributing.md").read_text("utf-8")
    (order,) = re.findall(r"```text\n(__main__ → .*?)```", page, re.S)
    steps = [re.findall(r"\w+", step) for step in order.split("→")]
    return {room: place for place, rooms in enumerate(steps) for room in rooms}


def test_the_order_of_rooms_has_all_of_them():
    assert {*places(), "__init__", "_version"} == set(ROOMS)


@pytest.mark.parametrize("room", [room for room in ROOMS if room not in ("__init__", "_version")])
def test_rooms_import_from_rooms_further_on(room):
    place = places()
    for path in FILES:
        if room_of(path) == room:
            parts = [parts for parts in imported(path) if parts[0] == "rescntk" and parts[1:]]
            for other in {part[1] for part in parts} & place.keys() - {room}:
                assert place[room] < place[other], f"{path} imports {other}"


def test_oracles_share_no_code_with_the_library():
    for path in (ROOT / "tests/oracles").glob("*.py"):
        for parts in imported(path):
            assert parts[0] != "rescntk" or parts[-1].isupper(), f"{path} imports {parts}"


def test_tests_import_no_tests():
    """What several tests use is in a file of its own. The emulated device runs tests of engines."""
    device = ROOT / "tests/engines/cuda/test_agreement.py"
    for path in (ROOT / "tests").rglob("*.py"):
        if path != device:
            for parts in imported(path):
                of_tests = [part for part in parts if part.startswith("test_")]
                assert parts[0] != "tests" or not of_tests, f"{path} imports {parts}"
