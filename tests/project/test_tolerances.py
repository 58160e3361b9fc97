"""Tolerances of tests have names, which say what they come from (tests/tolerances.py)."""

import ast
from itertools import pairwise

from tests.project.pages import ROOT

COMPARISONS = {"assert_allclose", "allclose", "isclose", "approx", "assert_within"}
TOLERANCES = {"rtol", "atol", "rel", "abs", "tolerance"}
SIZES = {"abs", "absolute", "max", "norm"}


def called(node):
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def fractions(node):
    """Yield the fractions below 1 that a sum, a product or a quotient has, also within others.

    A quotient by a number has the number's inverse.
    """
    match node:
        case ast.BinOp(left=left, op=operator, right=right) if not isinstance(operator, ast.Pow):
            yield from fractions(left)
            is_divisor = isinstance(operator, ast.Div) and is_arithmetic(right)
            yield from [node] * is_divisor or fractions(right)
        case ast.Constant(value=float(number)) if 0 < number < 1:
            yield node


def is_arithmetic(node):
    """Return whether all of an expression is numbers."""
    leaves = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)
    return all(isinstance(part, leaves) for part in ast.walk(node))


def has_bare_fraction(node):
    """Return whether a sum, a product or a quotient of values has a fraction without a name.

    0.01 · a and a / 100 are the same. So are halves: whoever reads a / 2 cannot tell a formula's
    half from a bar that was halved until the test passed.
    """
    return isinstance(node, ast.BinOp) and any(fractions(node))


def is_bare(value):
    """Return whether a tolerance is a number without any name, or a fraction of a value.

    0 tolerates nothing.
    """
    names = [node for node in ast.walk(value) if isinstance(node, ast.Name | ast.Attribute)]
    is_zero = isinstance(value, ast.Constant) and value.value == 0
    return has_bare_fraction(value) or not (names or is_zero)


def tolerances_of(node):
    """Return the tolerances that a comparison is given, by keyword or place."""
    given = [keyword.value for keyword in node.keywords if keyword.arg in TOLERANCES]
    return given + node.args[2 if called(node) != "approx" else 1 :][:1]


def comparisons(text):
    """Yield the lines of comparisons within a tolerance, and the tolerances."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and called(node) in COMPARISONS:
            yield node.lineno, tolerances_of(node)


def is_size_of_difference(node):
    """Return whether a side of an inequality has a magnitude, maximum or norm of a difference."""
    calls = (call for call in ast.walk(node) if isinstance(call, ast.Call))
    sizes = [call for call in calls if called(call) in SIZES]
    inner = (part for call in sizes for part in ast.walk(call))
    return any(isinstance(part, ast.BinOp) and isinstance(part.op, ast.Sub) for part in inner)


def is_number(node):
    """Return whether a side of an inequality is arithmetic of numbers, or a fraction of a value."""
    return has_bare_fraction(node) or (is_bare(node) and is_arithmetic(node))


def sizes_within_numbers(text):
    """Return lines with the size of a difference at most a bare number."""
    lines = []
    for node in ast.walk(ast.parse(text)):
        sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
        for (left, right), operator in zip(pairwise(sides), getattr(node, "ops", ()), strict=False):
            if isinstance(operator, ast.Gt | ast.GtE):
                left, right = right, left
            elif not isinstance(operator, ast.Lt | ast.LtE):
                continue
            if is_size_of_difference(left) and is_number(right):
                lines.append(node.lineno)
    return sorted(lines)


def bad_lines(text):
    """Return lines whose tolerance is a bare number, or left to NumPy or pytest."""
    bad = [line for line, values in comparisons(text) if not values or any(map(is_bare, values))]
    return sorted(bad)


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
        "np.testing.assert_allclose(a, b, rtol=0, atol=1e-15 * a.max())",
        "assert_within(a, b, n * 1e-15)",
        "assert_within(a, b, 2 * 1e-15 * n)",
        "assert_within(a, b, 2 * EPS)",
        "assert_within(a, b, EPS / 2)",
        "assert_within(a, b, n * EPS / (2 * 5))",
        "np.testing.assert_allclose(a, b, atol=a.max() / 100)",
        "assert_within(a, b, a.max() / n)",
    )
    assert bad_lines("\n".join(lines)) == [5, 6, 7, 8, 9, 10, 11, 13, 14, 15]


def test_bare_numbers_beside_sizes_of_differences_are_seen():
    lines = (
        "assert abs(a - b) <= EPS",
        "assert np.abs(a - b).max() <= 2 * bar",
        "assert abs(a - b) > 1e-9",
        "assert a.max() < 3",
        "assert abs(a - b) <= 0",
        "assert abs(a - b) <= 1e-9",
        "assert np.abs(a / b - 1).max() < 2 * 1e-3",
        "assert (np.abs(a - b) < 0.1).all()",
        "assert 0.1 >= np.linalg.norm(a - b)",
        "assert (a - b).max() < 1e-9",
        "assert abs(a - b) < 1e-4 * b",
        "assert abs(a - b) < EPS + 2 * 1e-4 * b",
        "assert abs(a - b) <= b / 100",
        "assert abs(a - b) <= size / 2 + 1",
        "assert abs(a / 2 - b) <= 2 * bar / n",
    )
    assert sizes_within_numbers("\n".join(lines)) == [6, 7, 8, 9, 10, 11, 12, 13, 14]


def test_tolerances_have_names():
    bad = {}
    for path in sorted((ROOT / "tests").rglob("*.py")):
        text = path.read_text("utf-8")
        if lines := bad_lines(text) + sizes_within_numbers(text):
            bad[path.relative_to(ROOT).as_posix()] = lines
    assert not bad, (
        "give each tolerance a name and its arithmetic, in tests/tolerances.py or the test"
    )
