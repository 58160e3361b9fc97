"""A letter means one thing on a page: formulas are read, and each letter is in one table."""

import re

import pytest

from tests.project.pages import ROOT, pages

PAGES = {name: text for name, text in pages().items() if name.startswith("docs/theory/")}
GLOSSARY = "docs/theory/glossary.md"
TABLES = {GLOSSARY: "## Letters of every page"}
"""Headlines of the tables of symbols; of pages without one, "## Symbols"."""

GREEK = (
    "alpha beta gamma delta epsilon varepsilon zeta eta theta iota kappa lambda mu nu xi rho sigma "
    "tau phi varphi chi psi omega Gamma Delta Theta Lambda Sigma Phi Psi Omega ell"
)
LETTER = rf"(?:\\(?:{GREEK.replace(' ', '|')})(?![A-Za-z])|(?<![A-Za-z\\])[A-Za-z](?![A-Za-z]))"
SYMBOL = re.compile(rf"({LETTER})(?:'|\^\{{?[+\-]\}}?)*(?:_(?:\{{([^{{}}]*)\}}|({LETTER}|\d)))?")
INDICES = {"i", "j", "k"}


def formulas(text):
    """Return the formulas of a page's prose, without words in them."""
    prose = re.sub(r"^( *)```.*?^\1```$|`[^`\n]*`", "", text, flags=re.S | re.M)
    found = re.findall(r"\$\$(.*?)\$\$|\$([^$]+)\$", prose, re.S)
    words = r"\\(?:text|mathrm|operatorname|mathcal|mathbb|begin|end)\{[^{}]*\}"
    spaced = (re.sub(words, " ", shown or inline) for shown, inline in found)
    other = rf"\\(?!(?:{GREEK.replace(' ', '|')})(?![A-Za-z]))[A-Za-z]+"
    return [re.sub(r"\s*_\s*", "_", re.sub(other, " ", each)) for each in spaced]


def symbols(formula):
    """Yield the symbols of a formula: a letter, and its subscript up to a comma, or ""."""
    for letter, braced, bare in SYMBOL.findall(formula):
        yield letter, re.sub(r"[\s{}]", "", braced or bare).split(",")[0]


def table(page):
    """Return the page's prose without its table of symbols, and the symbols of the table."""
    prose, _, below = PAGES[page].partition(TABLES.get(page, "## Symbols"))
    rows = re.findall(r"^\|([^|]*)\|.*\|$", below.partition("\n## ")[0], re.M)[2:]
    cells = [formula for row in rows for formula in formulas(row)]
    found = [next(symbols(cell), ("", "")) for cell in cells]
    return prose, [name + (f"_{below}" if below else "") for name, below in found]


def unexplained(letter, below, known):
    """Return the letters of a symbol that no table has: alone or, as $c_v$, with the subscript."""
    letters = [letter, *re.findall(LETTER, below)]
    alone = [each for each in letters if each not in known | INDICES]
    return [] if f"{letter}_{below}" in known else alone


EVERYWHERE = table(GLOSSARY)[1]
WITH_SYMBOLS = [page for page, text in PAGES.items() if "\n## Symbols\n" in text]


def test_every_page_of_derivations_has_a_table():
    derived = [p for p, text in PAGES.items() if "$$" in text and p != GLOSSARY]
    assert set(derived) <= set(WITH_SYMBOLS)
    assert len(EVERYWHERE) == len(set(EVERYWHERE)) > 15


@pytest.mark.parametrize("page", WITH_SYMBOLS)
def test_letters_of_formulas_are_in_one_table_once(page):
    """In the page's or the glossary's; the page's table has no letter that its prose lacks."""
    prose, own = table(page)
    used = {symbol for formula in formulas(prose) for symbol in symbols(formula)}
    known = {*own, *EVERYWHERE}
    assert len(own) + len(EVERYWHERE) == len(known), sorted(set(own) & set(EVERYWHERE)) or own
    letters = [name for name in own if "_" not in name]
    for name in (name.split("_")[0] for name in own if "_" in name):
        assert name not in letters, f"{name} alone and with a subscript"
    missing = {letter for symbol in used for letter in unexplained(*symbol, known)}
    assert not missing, f"{sorted(missing)} are not in a table"
    seen = {letter for a, b in used for letter in (a, f"{a}_{b}", *re.findall(LETTER, b))}
    assert seen.issuperset(own), sorted(set(own) - seen)


@pytest.mark.parametrize("page", WITH_SYMBOLS)
def test_a_row_has_no_more_meanings_than_letters(page):
    below = PAGES[page].partition("## Symbols")[2]
    for cell, meaning in re.findall(r"^\|([^|]*)\|(.*)\|$", below, re.M)[2:]:
        meanings = re.sub(r"\$[^$]*\$", "", meaning).split(";")
        assert len(meanings) <= len(formulas(cell)), f"{cell}: {meaning}"


DOCSTRINGS = {
    path.relative_to(ROOT).as_posix(): text
    for path in sorted((ROOT / "rescntk/theory").rglob("*.py"))
    if ":math:" in (text := path.read_text("utf-8"))
}
"""Files of theory with formulas. Each names its pages."""


@pytest.mark.parametrize("path", DOCSTRINGS)
def test_docstrings_have_the_letters_of_their_pages(path):
    named = re.findall(r"docs/theory/(\w+\.md)", DOCSTRINGS[path])
    known = {*EVERYWHERE, *(name for page in named for name in table(f"docs/theory/{page}")[1])}
    found = re.findall(r":math:`([^`]*)`", DOCSTRINGS[path])
    used = {symbol for each in found for part in formulas(f"${each}$") for symbol in symbols(part)}
    missing = {letter for symbol in used for letter in unexplained(*symbol, known)}
    assert named and not missing, f"{sorted(missing)} are not in the tables of {named}"
