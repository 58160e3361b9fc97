"""Doctests of a module that needs a package which is not there are left out, and say so."""

from importlib.util import find_spec

NEEDED = {
    "rescntk/learn": "sklearn",
    "rescntk/learn/aeon.py": "aeon",
    "rescntk/learn/sktime.py": "sktime",
}

collect_ignore = [path for path, package in NEEDED.items() if find_spec(package) is None]


def pytest_report_header() -> str | None:
    """Name what is left out."""
    return f"doctests left out: {', '.join(collect_ignore)}" if collect_ignore else None
