"""The code on the pages runs, links lead somewhere, and the pages name what there is."""

import json
import re
from doctest import ELLIPSIS, OutputChecker
from importlib.util import find_spec

import pytest

import rescntk as rk
from conftest import OPTIONAL
from tests.project.pages import ROOT, blocks, links, pages

PAGES = pages()


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page, text in PAGES.items() if blocks(text)])
def test_code_runs(page, tmp_path, monkeypatch, capsys):
    """Blocks share their names, and print the text below them, with what differs as "..."."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    names = {"__name__": "__main__"}
    for line, code, shown in blocks(PAGES[page]):
        try:  # a traceback has the line numbers of the page
            exec(compile("\n" * (line - 1) + code, ROOT / page, "exec"), names)
        except ImportError as error:
            if all(find_spec(package) for package in OPTIONAL):
                raise
            pytest.skip(f"line {line}: {error}")
        printed = capsys.readouterr().out
        same = shown is None or OutputChecker().check_output(shown, printed, ELLIPSIS)
        assert same, f"line {line} prints\n{printed}"
    assert all((ROOT / "docs/figures" / path.name).exists() for path in tmp_path.glob("*.png"))


def test_links_lead_to_files_and_addresses():
    """Sphinx looks for the headings that links of the site name, and for pages of the site."""
    texts = dict(PAGES)
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        cells = json.loads(path.read_text("utf-8"))["cells"]
        prose = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
        texts[f"notebooks/{path.name}"] = "\n".join(prose)
    for page, text in texts.items():
        for target in links(text):
            path = target.partition("#")[0]
            if "://" in target:
                assert re.match(r"https://[a-z0-9-]+(\.[a-z0-9-]+)+(/|$)", target), (page, target)
            else:
                assert not path or ((ROOT / page).parent / path).exists(), (page, target)


def test_every_system_of_the_papers_is_on_the_map():
    for name, function in vars(rk.literature).items():
        if getattr(function, "__module__", None) == rk.literature.__name__ and name[0] != "_":
            assert f"`literature.{name}(" in PAGES["docs/theory/paper_map.md"]


def test_the_glossary_names_what_the_code_has():
    sources = (p for p in ROOT.glob("rescntk/**/*") if p.suffix in (".py", ".cpp", ".cu", ".h"))
    words = {word for path in sources for word in re.findall(r"\w+", path.read_text("utf-8"))}
    rows = re.findall(r"^\|[^|]*\|([^|]*)\|[^|]*\|$", PAGES["docs/theory/glossary.md"], re.M)
    for name in (name for row in rows for name in re.findall(r"`([^`]+)`", row)):
        assert words.issuperset(re.findall(r"\w+", name)), name


def tables(text):
    """Yield the tables of a page: a record of texts for each row."""
    for table in re.findall(r"(?:^\|.*\|\n)+", text, re.M):
        names, _, *rows = (
            [cell.strip("* ") for cell in line[1:-1].split("|")] for line in table.splitlines()
        )
        yield [dict(zip(names, row, strict=True)) for row in rows]


@pytest.mark.parametrize(
    ("page", "result"),
    [
        ("README.md", "ucr"),
        ("docs/guide/choosing.md", "ucr"),
        ("docs/guide/choosing.md", "regression"),
        ("docs/guide/accuracy.md", "accuracy"),
        ("docs/guide/large_data.md", "scale"),
        ("docs/guide/speed.md", "ratios"),
    ],
)
def test_quoted_tables_are_measured(page, result):
    """Rows of a page whose columns a result has are rows of this result."""
    measured = (ROOT / f"benchmarks/results/{result}.md").read_text("utf-8")
    quoted = 0
    for table in tables(PAGES[page]):
        same = [rows for rows in tables(measured) if table[0].keys() <= rows[0].keys()]
        quoted += bool(same)
        kept = [{name: row[name] for name in table[0]} for rows in same for row in rows]
        assert not same or all(row in kept for row in table)
    assert quoted
