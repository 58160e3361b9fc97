"""Code in backquotes of docstrings names what there is: of its function, its file, the package."""

import ast
import builtins
import inspect
import re
import textwrap
from functools import cache
from importlib import import_module
from importlib.util import find_spec

import pytest

from tests.helpers import parameters_of
from tests.project.pages import ROOT, public_names, skip_without_modules

skip_without_modules()
ENGINES = ROOT / "rescntk" / "engines"
FILES = sorted((ROOT / "rescntk").rglob("*.py"))
SPAN = re.compile(r"(?<![:`])(`{1,2})(?!`)([^`]+)\1(?!`)")
"""Code, and no formula, which stands behind the role ``math``."""

PATH = re.compile(r"[\w./-]+\.(?:py|md|h|cpp|cu|gz)")
SYMBOL = re.compile(r"[A-Za-z](_\w)?")
"""A letter of a formula, such as K, or f_0 with an index."""

LIBRARIES = {"np": "numpy", "jax": "jax", "optax": "optax", "functools": "functools"}
OUTSIDE = {
    *("CUDA_VISIBLE_DEVICES", "jax_enable_x64"),
    *("GaussianProcessRegressor", "SVC"),
    *("nbytes", "reshape"),
    *("p_i", "rescntk"),
}
"""Names of CUDA and JAX, scikit-learn, NumPy; p with an index and an exponent, and this package."""


def names_in(node):
    """Return the names that a function, a class or a module defines or uses."""
    found = set()
    for child in ast.walk(node):
        match child:
            case ast.arg(arg=name) | ast.Name(id=name) | ast.Attribute(attr=name):
                found.add(name)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.keyword(arg=str(name)):
                found.add(name)
    return found


def names_of_file(tree):
    """Return what all docstrings of a file may name: not the parameters of other functions."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in (tree, *(child for child in tree.body if isinstance(child, ast.ClassDef))):
        for child in node.body:
            if isinstance(child, (*functions, ast.ClassDef)):
                found.add(child.name)
            else:
                found |= names_in(child)
    return found


def docstrings(node, around=()):
    """Yield each text that stands alone: its line, and the function or class that it describes."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield child.lineno, text, around
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield from docstrings(child, (*around, child))


@cache
def words_of_the_package():
    """Return names of modules, what they define, and what public classes and functions have."""
    found = {*dir(builtins)}
    for path in FILES:
        found |= {path.stem, path.parent.name}
        for node in ast.parse(path.read_text("utf-8")).body:
            is_definition = isinstance(node, ast.FunctionDef | ast.ClassDef)
            found |= {node.name} if is_definition else names_in(node)
    for name, value in public_names():
        found |= set(name.split("."))
        if inspect.isclass(value):
            members = [vars(base).get("__annotations__", ()) for base in value.__mro__]
            found = found.union(dir(value), *members, names_in(ast.parse(source_of(value))))
        if callable(value):
            found |= set(parameters_of(value))
    return found | OUTSIDE | LIBRARIES.keys()


NO_CODE = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'""", re.DOTALL)
"""Comments, texts and characters of C++, whichever begins first."""


def words_of_code(text):
    """Return the words of C++, without comments and texts in quotes."""
    return set(re.findall(r"[A-Za-z_]\w*", NO_CODE.sub(" ", text)))


@cache
def words_of_the_loops(folder):
    """Return the words of code in a folder's C++ and CUDA, which docstrings there may name."""
    loops = (path for path in folder.rglob("*") if path.suffix in (".h", ".cpp", ".cu"))
    return set().union(*(words_of_code(path.read_text("utf-8")) for path in loops))


def source_of(kind):
    """Return the source of a class."""
    return textwrap.dedent(inspect.getsource(kind))


def parsed(code):
    """Return the syntax tree of Python's code; None of formulas and other languages."""
    try:
        return ast.parse(" ".join(code.split()).replace("…", "..."))
    except SyntaxError:
        return None


def is_of_library(node):
    """Return whether an attribute of a library, such as np.add, exists, if the library is there."""
    match node:
        case ast.Attribute(value=ast.Name(id=short), attr=name) if short in LIBRARIES:
            library = LIBRARIES[short]
            return not find_spec(library) or hasattr(import_module(library), name)
    return False


def unknown_words(code, scope):
    """Return the names in code that neither its scope, nor the package, nor a library has."""
    if PATH.fullmatch(code):
        return set() if [*ROOT.glob(code), *ROOT.glob(f"*/**/{code}")] else {code}
    nodes = [] if (tree := parsed(code)) is None else [*ast.walk(tree)]
    words = {part for name in names_in_all(nodes) for part in name.split("__") if part}
    words -= {node.attr for node in nodes if is_of_library(node)}
    package = words_of_the_package()
    return {w for w in words if not (w in scope or w in package or SYMBOL.fullmatch(w))}


def names_in_all(nodes):
    """Return the names in nodes of a syntax tree."""
    return set().union(*(names_in(node) for node in nodes))


def wrong(path, engines=ENGINES):
    """Return code of a file's docstrings that has unknown words: line, code and words.

    Files in the folder `engines` may name what its C++ has.
    """
    found, tree = [], ast.parse(path.read_text("utf-8"))
    of_file = names_of_file(tree)
    of_file |= words_of_the_loops(engines) if engines in path.parents else set()
    for line, text, around in docstrings(tree):
        scope = of_file | names_in_all(around)
        for _, code in SPAN.findall(text):
            if words := unknown_words(code, scope):
                found.append((line, code, words))
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_code_in_docstrings_names_what_there_is(path):
    assert not wrong(path)


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("`rank` and `rang`", {"rang"}),
        ("`rank` and another function's `n_lines`", {"n_lines"}),
        ("``kernel.diag_of(X)``, not `kernel.diag`", {"diag_of"}),
        ("``network.replace(filter_sise=3)``", {"filter_sise"}),
        ("`np.add` and `np.addition`", {"addition"}),
        ("`engines/work.py`, `engines/disorder.py`", {"engines/disorder.py"}),
        (":math:`wrong_word`, `f_0`, `K`", set()),
    ],
)
def test_a_wrong_word_is_seen(text, unknown, tmp_path):
    file = tmp_path / "file.py"
    file.write_text(f'def f(rank):\n    """{text}"""\ndef g(n_lines):\n    pass\n', "utf-8")
    assert set().union(*(words for *_, words in wrong(file))) == unknown


LOOPS = r"""
/* A word of a remark
   and of_its_next_line. */
const char *text = "of_text \" and the rest_of_it", quote = '"';
int n_rows = 0;  // a row's of_a_comment
"""


def test_a_wrong_word_is_seen_in_engines(tmp_path):
    """Words of comments and texts in quotes are not names of C++."""
    (tmp_path / "loops.cpp").write_text(LOOPS, "utf-8")
    unknown = {"remark", "of_its_next_line", "of_text", "rest_of_it", "of_a_comment"}
    words = " ".join(f"`{word}`" for word in ("n_rows", "quote", *sorted(unknown)))
    (tmp_path / "file.py").write_text(f'"""{words}"""', "utf-8")
    assert set().union(*(words for *_, words in wrong(tmp_path / "file.py", tmp_path))) == unknown
