"""The code on the pages runs, links lead somewhere, and the pages name what there is."""

import ast
import builtins
import inspect
import json
import pkgutil
import re
import shlex
import tomllib
from contextlib import suppress
from doctest import ELLIPSIS, OutputChecker
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pytest

import rescntk as rk
from conftest import OPTIONAL
from rescntk import __main__ as cli
from tests.helpers import parameters_of
from tests.project.pages import (
    ROOT,
    blocks,
    commands,
    known_names,
    links,
    pages,
    public_names,
    skip_without_modules,
    spans,
    texts,
)

skip_without_modules()

PAGES, NAMES = pages(), known_names()


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
        ("docs/guide/classification.md", "ucr"),
        ("docs/guide/early.md", "early"),
        ("docs/guide/choosing.md", "regression"),
        ("docs/guide/regression.md", "regression"),
        ("docs/guide/accuracy.md", "accuracy"),
        ("docs/guide/large_data.md", "many_signals"),
        ("docs/guide/large_data.md", "scale"),
        ("docs/guide/channels.md", "uea"),
        ("docs/guide/speed.md", "ratios"),
        ("paper/paper.md", "ucr"),
    ],
)
def test_quoted_tables_are_measured(page, result):
    """Rows of a page whose columns a result has are rows of this result."""
    measured = (ROOT / f"benchmarks/results/{result}.md").read_text("utf-8")
    quoted = 0
    for table in tables((ROOT / page).read_text("utf-8")):
        same = [rows for rows in tables(measured) if table[0].keys() <= rows[0].keys()]
        quoted += bool(same)
        kept = [{name: row[name] for name in table[0]} for rows in same for row in rows]
        assert not same or all(row in kept for row in table)
    assert quoted


def times_as_long(races):
    """Return how many times as long neural-tangents takes: with GAP, with trace, with both."""
    gains = {head: [] for head in ("gap", "trace")}
    for row in races:
        if row["engine"] == "cpu":
            gains[row["head"]] += [float(row["gain float64"]), float(row["gain float32"])]
    return [
        f"{min(each):.0f} to {max(each):.0f}"
        for each in (gains["gap"], gains["trace"], [*gains["gap"], *gains["trace"]])
    ]


@pytest.mark.parametrize("processor", ["cpu", "cpu_intel"])
def test_quoted_speeds_are_measured(processor):
    """Times of a pixel pair and layer, and how many times as long neural-tangents takes."""
    measured = (ROOT / f"benchmarks/results/{processor}.md").read_text("utf-8")
    widest, avx2, vectors, *_ = tables(measured)
    costs = {
        level: [row for row in vectors if row["vectors"] == level] for level in ("AVX-512", "AVX2")
    }
    speed = [
        f"{row['filters']} | {row['float64']} | {row['float32']}"
        for rows in costs.values()
        for row in rows
    ]
    for races in (widest, avx2):
        gap, trace, _ = times_as_long(races)
        speed.append(f"{gap} times as long with GAP, and {trace} times with trace")
    quotes = {"docs/guide/speed.md": speed}
    if processor == "cpu":
        quotes["README.md"] = [f"takes {times_as_long(widest)[2]} times as long"]
        ratios = next(tables((ROOT / "benchmarks/results/ratios.md").read_text("utf-8")))
        of_numpy = next(row["time"] for row in ratios if row["Gram"] == "NumPy")
        quotes["docs/guide/install.md"] = [
            f"NumPy takes [{of_numpy} times the processor time](speed.md#"
        ]
        quotes["docs/guide/neural_tangents.md"] = [f"{times_as_long(widest)[2]} times as long"]
        quotes["docs/guide/large_data.md"] = [f"[{costs['AVX-512'][0]['float32']}]"]
    for page, of_page in quotes.items():
        text = (ROOT / page).read_text("utf-8")
        assert all(quote in text for quote in of_page), page


WORDS_FOR_NUMBERS = {11: "eleven", 16: "sixteen"}
LEARN = "rescntk.learn.views.defaults"


def test_the_guide_has_the_numbers_of_views():
    """In one place: no other page, and no docstring, says how many default views there are."""
    views = pytest.importorskip(LEARN)
    learn = import_module("rescntk.learn")
    lists = views.CLASSIFIER_DEFAULTS, views.REGRESSOR_DEFAULTS
    fast, of_classes = (WORDS_FOR_NUMBERS[len(each)] for each in lists[0].values())
    assert [len(each) for each in lists[1].values()] == [len(e) + 1 for e in lists[0].values()]
    home = "docs/guide/classification.md"
    for quote in (
        f"the first {fast} of the {of_classes} default views",
        "The regressor adds one view to both, and signals of [several channels](channels.md)",
    ):
        assert quote in PAGES[home]
    others = [text for page, text in PAGES.items() if page != home]
    others += [learn.ResidualKernelClassifier.__doc__, learn.ResidualKernelRegressor.__doc__]
    for word in (fast, of_classes, "twelve", "seventeen"):
        assert not any(re.search(rf"\b{word}( \w+)? views", text, re.I) for text in others)


@pytest.mark.parametrize("kind", ["Classifier", "Regressor"])
def test_docstrings_and_the_guide_have_the_numbers_of_landmarks(kind):
    pytest.importorskip(LEARN)
    budget = import_module("rescntk.learn.ensemble.budget")
    numbers = f"from {budget.LEAST_LANDMARKS:,} to {budget.MOST_LANDMARKS:,}"
    words = getattr(import_module("rescntk.learn"), f"ResidualKernel{kind}").__doc__.split()
    assert numbers in " ".join(words) and numbers in PAGES["docs/guide/large_data.md"]


PROSE = {**PAGES, "CONTRIBUTING.md": (ROOT / "CONTRIBUTING.md").read_text("utf-8")}
OBJECTS = {"X", "Z", "K", "y", "kernel", "model", "network"}
"""What spans call signals, matrices, targets, kernels, models and networks."""

OTHERS = {"nt", "stax", "AvgPool", "Flatten"}
"""Names of neural-tangents."""

THEIRS = {"affinity", "alpha_bounds"}
"""Parameters of scikit-learn."""

PATH = re.compile(r"[\w-]*/|[\w./-]+\.(?:py|md|txt|toml|cpp|cu|h|npz|json|csv|png)")
FOLDERS = "rescntk", "tests", "docs", "benchmarks", "notebooks", "tools"
MADE = re.compile(
    r"PAGE|docs/api/generated|docs/project/results|docs/gallery/thumbnails|\.so$|missing\.txt"
)
"""Placeholders, and what a build makes."""

SCRIPTS = "".join(text for folder in FOLDERS[:5] for text in texts(f"{folder}/**/*.py"))
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def parameters(value):
    """Return the names of a function's or a class's parameters; ** are fields of `Network`."""
    given = parameters_of(value)
    fields = any(parameter.kind is parameter.VAR_KEYWORD for parameter in given.values())
    return {*given, *(parameters_of(rk.Network) if fields else ())}


PARAMETERS = {
    name.removeprefix("rescntk.").removeprefix(prefix): parameters(value)
    for name, value in public_names()
    for prefix in ("", "theory.", "learn.")
    if callable(value)
}
ALL_PARAMETERS = set().union(*PARAMETERS.values()) | {
    parameter
    for _, value in public_names()
    if inspect.isclass(value)
    for _, method in inspect.getmembers(value, inspect.isfunction)
    for parameter in parameters(method)
}

SKLEARN = "cluster", "gaussian_process", "model_selection", "svm"


def expression(span):
    """Return a span as an expression of Python, without "…" in it, or None."""
    text = re.sub(r",?\s*(…|\.\.\.)", "", span).replace("(,", "(").removeprefix("rk.")
    try:
        return ast.parse(text, mode="eval")
    except SyntaxError:
        return None


def chain(node):
    """Return the parts of a name with dots, from a node of a syntax tree; [] of others."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.insert(0, node.attr)
        node = node.value
    return [node.id, *parts] if isinstance(node, ast.Name) else []


def unknown_names(tree, own):
    """Yield the names with dots, called names and keywords of a span that name nothing.

    `own` are the words in the code of the page.
    """
    called = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    within = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        parts = [] if id(node) in within else chain(node)
        first, others, name = parts[:1], parts[1:], ".".join(parts)
        if not (others or (parts and id(node) in called)) or OTHERS & {*first}:
            continue
        if OBJECTS & {*first}:
            good = all(part in NAMES or hasattr(np.ndarray, part) for part in others)
        elif name in NAMES:
            given = [k.arg for k in called[id(node)].keywords] if id(node) in called else []
            good = PARAMETERS.get(name, {*given}).issuperset(given)
        elif others and (top := {"np": "numpy"}.get(*first, *first)) and find_spec(top):
            good = is_importable(f"{top}.{'.'.join(others)}")
        else:
            modules = (f"sklearn.{module}" for module in SKLEARN)
            good = hasattr(builtins, name) or name in own
            good = good or any(is_importable(f"{module}.{name}") for module in modules)
        if not good:
            yield name


def is_importable(name):
    """Return whether a name with dots is a module, or something in one."""
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


@pytest.mark.parametrize("page", PROSE)
def test_names_on_pages_are_names_of_the_code(page):
    """In spans of code: names with dots, calls, and parameters with values."""
    code = re.findall(r"```(?:python|py)\n(.*?)```", PROSE[page], re.S)
    own, wrong = set(re.findall(r"\w+", " ".join(code))), []
    for span in spans(PROSE[page]):
        parameter, tree = re.match(r"([a-z_]+)=", span), expression(span)
        if parameter and parameter[1] not in ALL_PARAMETERS | THEIRS:
            wrong.append(f"`{span}`")
        if tree is not None and not PATH.fullmatch(span):
            wrong += [f"`{span}`: {name}" for name in unknown_names(tree, own)]
    assert not wrong, "\n".join(wrong)


def test_paths_and_commands_on_pages_exist():
    """Files and folders of the repository, in all of its texts; commands in spans and blocks."""
    sources = ("*.md", "*.toml", "Makefile", "docs/**/*.md", ".github/**/*", "docs/api/*.md")
    sources += tuple(f"{folder}/**/*.py" for folder in FOLDERS)
    wrong, targets = [], re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M)
    for path in {path for pattern in sources for path in ROOT.glob(pattern) if path.is_file()}:
        if any(part.startswith(".") for part in path.relative_to(ROOT).parts[1:]):
            continue  # such as an environment of a peer
        page, text = path.relative_to(ROOT).as_posix(), path.read_text("utf-8")
        for name in re.findall(rf"(?<![\w/.-])(?:{'|'.join(FOLDERS)})/[\w./-]*\w/?", text):
            if not (ROOT / name).exists() and not MADE.search(name):
                wrong.append(f"{page}: {name}")
        if page in PROSE:
            names = {name for name in spans(PROSE[page]) if PATH.fullmatch(name)}
            names -= {name for name in names if MADE.search(name)}
            wrong += [f"{page}: {name}" for name in names if not is_file(name, text)]
            for line in (*spans(PROSE[page]), *commands(PROSE[page])):
                wrong += [f"{page}: {line}"] * (not is_command(line, targets))
    assert not wrong, "\n".join(sorted(wrong))


def is_file(name, page):
    """Return whether a file is one of the repository, or is named in code that makes it."""
    if any((ROOT / folder / name).exists() for folder in ("", "rescntk", "rescntk/engines")):
        return True
    bare = "/" not in name
    return bare and (any(ROOT.glob(f"[!.]*/**/{name}")) or page.count(name) > 1 or name in SCRIPTS)


def is_command(line, targets):
    """Return whether a line is no command, or one whose target, file, options and extras exist."""
    first, *words = re.sub(r"^(?:[A-Z_]+=\S+ )+", "", line).split()[:3] or [""]
    if first == "make" and words:
        return words[0] in targets
    if first in ("python", "python3") and words[:1] != ["-m"]:
        return not words or (ROOT / words[0]).exists()
    if first == "python":
        return is_importable(words[1])
    if first == "rescntk" and words:
        with suppress(SystemExit):
            cli._parser().parse_args(shlex.split(line)[1:])
            return True
        return False
    extras = re.findall(r"pip install (?:-e )?'(?:rescntk|\.)\[([\w,-]+)\]", line)
    return set(",".join(extras).split(",")) <= {*EXTRAS, ""}


def test_messages_on_pages_are_in_the_code():
    """Spans of three and more plain words; "…", and X, stand for what a message names."""
    code = re.sub(r'"\s*f?"', "", "".join(texts("rescntk/**/*.py")))
    for page, text in PROSE.items():
        for span in spans(text):
            if re.fullmatch(r"[\w …,:+']+ [\w …,:+']+ [\w …,:+']+", span) and not expression(span):
                for part in span.split(": "):
                    words = r"(\{[^{}]*\}|[\w ]+)".join(map(re.escape, part.split("…")))
                    words = re.sub("^X", r"(X|\\{name\\})", words)
                    assert re.search(words, code), f"{page}: {span}"
