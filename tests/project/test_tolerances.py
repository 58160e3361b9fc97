"""Tolerances of tests have names, which say what they come from (tests/tolerances.py)."""

import ast

from tests.project.pages import ROOT

COMPARISONS = {"assert_allclose", "allclose", "isclose", "approx", "assert_within"}
TOLERANCES = {"rtol", "atol", "rel", "abs", "tolerance"}


def called(node):
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def is_bare(value):
    """Return whether a tolerance is a number without any name; 0 tolerates nothing."""
    names = [node for node in ast.walk(value) if isinstance(node, ast.Name | ast.Attribute)]
    return not names and not (isinstance(value, ast.Constant) and value.value == 0)


def tolerances_of(node):
    """Return the tolerances that a comparison is given, by keyword or place."""
    given = [keyword.value for keyword in node.keywords if keyword.arg in TOLERANCES]
    return given + node.args[2 if called(node) != "approx" else 1 :][:1]


def comparisons(text):
    """Yield the lines of comparisons within a tolerance, and the tolerances."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and called(node) in COMPARISONS:
            yield node.lineno, tolerances_of(node)


def bad_lines(text):
    """Return lines whose tolerance is a bare number, or left to NumPy or pytest."""
    return [line for line, values in comparisons(text) if not values or any(map(is_bare, values))]


def test_bare_tolerances_are_seen():
    lines = (
        "np.testing.assert_allclose(a, b, rtol=EPS)",
        "assert a == pytest.approx(b, abs=4 * tolerances.EPS)",
        "assert_within(a, b, tolerances.ROUTES)",
        "np.testing.assert_allclose(a, b, rtol=0, atol=EPS)",
        "np.testing.assert_allclose(a, b)",
        "np.testing.assert_allclose(a, b, 1e-3)",
        "assert a == pytest.approx(b, rel=2 * 1e-3)",
        "assert a == approx(b)",
    )
    assert bad_lines("\n".join(lines)) == [5, 6, 7, 8]


def test_tolerances_have_names():
    bad = {}
    for path in sorted((ROOT / "tests").rglob("*.py")):
        if lines := bad_lines(path.read_text("utf-8")):
            bad[path.relative_to(ROOT).as_posix()] = lines
    assert not bad, (
        "give each tolerance a name and its arithmetic, in tests/tolerances.py or the test"
    )
