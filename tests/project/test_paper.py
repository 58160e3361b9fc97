"""The paper: its length, its references, and the numbers that it quotes."""

import re

import pytest

from tests.project.pages import ROOT

yaml = pytest.importorskip("yaml")
PAPER = (ROOT / "paper/paper.md").read_text("utf-8")
HEAD, TEXT = PAPER.split("---\n", 2)[1:]
ENTRIES = {
    found[1]: found[0]
    for found in re.finditer(
        r"^@\w+\{(\w+),.*?^\}", (ROOT / "paper/paper.bib").read_text(), re.S | re.M
    )
}


def test_the_paper_is_short():
    assert len(TEXT.split()) <= 1000


def test_the_paper_is_of_the_software_that_is_cited():
    head, cited = yaml.safe_load(HEAD), yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert head["title"] == cited["title"]
    assert head["tags"] == ["Python", *cited["keywords"]]
    assert [author["name"] for author in head["authors"]] == [a["name"] for a in cited["authors"]]
    if "date-released" in cited:
        assert head["date"] == f"{cited['date-released']:%d %B %Y}".lstrip("0")
    assert (ROOT / "paper" / head["bibliography"]).exists()


def test_references_are_those_that_are_cited():
    assert set(re.findall(r"@(\w+)", TEXT)) == ENTRIES.keys()


@pytest.mark.parametrize("key", ENTRIES)
def test_references_can_be_found(key):
    """By a DOI, a number of arXiv, an address, or the volume of a journal or of proceedings."""
    fields = dict(re.findall(r"^  (\w+) = \{(.*)\},?$", ENTRIES[key], re.M))
    assert {"author", "title", "year"} <= fields.keys()
    assert re.fullmatch(r"10\.\d{4,}/\S+", fields.get("doi", "10.1000/none"))
    assert re.fullmatch(r"\d{4}\.\d{5}", fields.get("eprint", "0000.00000"))
    assert fields.keys() & {"doi", "eprint", "url", "volume"}


QUOTES = [
    (
        "up to 50 layers and 31 taps",
        "benchmarks/results/accuracy.md",
        "up to 50 layers and 31 taps",
    ),
    ("8.2e-15 in float64 and", "benchmarks/results/accuracy.md", "| 8.2e-15 |"),
    ("2.5e-06 in float32", "benchmarks/results/accuracy.md", "| 2.5e-06 |"),
    (
        "6 to 182 times as long",
        "docs/guide/neural_tangents.md",
        "6 to 182 times as long",
    ),
    ("1.3 ns in float64 and 0.6 ns", "benchmarks/results/cpu.md", "1.3 ns in float64 and 0.6 ns"),
    ("two cores of an AMD EPYC", "benchmarks/results/cpu.md", "AMD EPYC, 2 cores"),
    ("GPU engine has not run on a GPU", "README.md", "GPU engine has not run on a GPU"),
    ("among 41 methods", "benchmarks/results/ucr.md", "among 41 methods"),
    ("at most 600 training signals", "docs/guide/choosing.md", "at most 600 training signals"),
    (
        "whose probabilities are 0 and 1",
        "docs/guide/choosing.md",
        "whose probabilities are 0 and 1",
    ),
    ("it is 3.94 for eight", "docs/theory/conditioning.md", "α = 1.0: 3.94, limit 4"),
    ("0.6.5 does not run", "docs/guide/neural_tangents.md", "does not run on current JAX"),
]


@pytest.mark.parametrize(("quote", "record", "measured"), QUOTES)
def test_what_the_paper_says_is_in_the_record(quote, record, measured):
    assert quote in " ".join(TEXT.split())
    assert measured in " ".join((ROOT / record).read_text("utf-8").split())


def test_no_number_of_the_measurements_lacks_its_record():
    section = " ".join(re.search(r"# What was measured\n(.*?)\n# ", TEXT, re.S)[1].split())
    prose = re.sub(r"\$.*?\$|\|.*\||@\w+|HIVE-COTE 2|float\d+|128-bit", "", section)
    quoted = " ".join(quote for quote, _, _ in QUOTES)
    settings = {"5", "100", "1000", "6.2", "4"}  # depths and lengths, a theorem, a limit
    for number in re.findall(r"\d[\d.e-]*\d|\d", prose):
        assert number in settings or number in quoted, number
