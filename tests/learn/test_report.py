"""The report: its numbers, its parts for each kind of model and signal, one file, refusals."""

import base64
import re
import struct
import sys
from html.parser import HTMLParser
from itertools import product

import numpy as np
import pytest

from rescntk import learn
from rescntk.datasets import load_labelled
from rescntk.learn.report_sections import in_form_of
from rescntk.progress import encodable

pytestmark = pytest.mark.slow


class Page(HTMLParser):
    """Headings, rows of tables, and the addresses that a page reads from."""

    def __init__(self, text):
        super().__init__()
        self.headings, self.cells, self.addresses, self.open = [], [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.open = tag
        self.addresses += [value for name, value in attributes if name in ("src", "href")]

    def handle_data(self, data):
        if self.open in ("h1", "h2"):
            self.headings.append(data)
        if self.open == "td":
            self.cells.append(data)
        self.open = ""


PARTS = ["Summary", "Confusion", "Classes", "Thresholds", "Calibration", "Abstention"]
PARTS += ["Wrong answers"]
BOTH = ["Novelty", "Drift", "Training signals", "Views", "Forecast"]


@pytest.fixture(scope="module")
def model():
    X, y = load_labelled("ArrowHead")
    return learn.ResidualKernelClassifier(effort="fast").fit(X, y)


def test_a_classifier(model):
    X, y = load_labelled("ArrowHead", "test")
    X, y = X[::3], y[::3]
    text = learn.report(model, X, y, title="a <b> title")
    page = Page(text)
    assert page.headings == ["a <b> title", *PARTS, *BOTH] and "<b>" not in text
    predicted, chance = model.predict(X), model.predict_proba(X).max(axis=1)
    assert any(cell.startswith(f"{np.mean(predicted == y):.3f} (") for cell in page.cells)
    assert f"{chance.mean():.3f}" in page.cells
    assert f"{np.median(model.novelty(X)):.2f}" in page.cells
    wrong = np.flatnonzero(predicted != y)
    first = wrong[np.argmax(chance[wrong])]
    assert re.search(rf"<td>{first}</td><td>{y[first]}</td><td>{predicted[first]}</td>", text)
    assert len(page.addresses) == 6
    assert all(each.startswith("data:image/png;base64,") for each in page.addresses)
    assert "No answer is wrong." in learn.report(model, X[predicted == y], y[predicted == y])


def row(page, *start):
    """Return the cells that follow a row's first cells."""
    n = len(start)
    places = [k for k in range(len(page.cells)) if page.cells[k : k + n] == list(start)]
    return page.cells[places[0] + n :]


def test_what_is_given(model):
    """Cases, groups, prevalence and costs, each against its definition."""
    X, y = load_labelled("ArrowHead", "test")
    X, y = X[::3], y[::3]
    right, names = model.predict(X) == y, np.array([f"id{k}" for k in range(len(y))])
    groups = np.where(np.arange(len(y)) < 20, "Ann", "Bob")
    shares, costs = {"0": 1.0, "1": 2.0, "2": 1.0}, {"2": 10}
    given = {"cases": names, "groups": groups, "prevalence": shares, "costs": costs}
    page = Page(learn.report(model, X, y, **given))
    recalls = [right[y == c].mean() for c in model.classes_]
    expected = f"{np.dot([0.25, 0.5, 0.25], recalls):.3f} ±"
    assert row(page, "accuracy at the given prevalence")[0].startswith(expected)
    assert row(page, "Ann", "20")[0].startswith(f"{right[:20].mean():.3f} (")
    cost = np.mean(np.where(y == "2", 10.0, 1.0) * ~right)
    assert row(page, "cost of a signal")[0] == f"{cost:.4g}"
    assert {*names[~right]} <= {*page.cells} and "Groups" in page.headings
    chance = model.predict_proba(X).max(axis=1)
    half = right[np.argsort(-chance, kind="stable")[: round(len(y) / 2)]]
    assert row(page, "50%")[1].startswith(f"{half.mean():.3f} (")
    assert row(page, "2", str((y == "2").sum()))[0].startswith(f"{recalls[2]:.3f} (")
    for wrong, message in (
        ({"groups": groups[:3]}, r"groups has shape \(3,\), expected \(59,\)"),
        ({"prevalence": {"x": 1}}, "prevalence has 'x', expected some of 0, 1, 2"),
        ({"prevalence": {"0": 0}}, "prevalence has no share"),
        ({"costs": {"0": -1}}, "costs of '0' is -1"),
        ({"costs": {"0": 1e308, "1": 1e308}}, "costs has 1e.308, expected at most 1e100"),
    ):
        with pytest.raises(ValueError, match=message):
            learn.report(model, X, y, **wrong)


def test_channels_with_names(rng, model):
    """Their picture where a metric is taken, and names in the table of drift."""
    X, y = rng.standard_normal((60, 3, 16)), np.arange(60) % 2
    X[:, 1] *= 1 + y[:, None]
    names, options = ["<outline>", "b", "c"], {"effort": "fast", "channel_metric": True}
    named = learn.ResidualKernelClassifier(**options, channel_names=names).fit(X, y)
    page = Page(learn.report(named, X[:20], y[:20]))
    assert "Channels" in page.headings and page.cells.count("<outline>") == 1
    assert "Channels" not in Page(learn.report(model, *load_labelled("ArrowHead"))).headings


@pytest.mark.filterwarnings("ignore")
def test_a_hundred_classes_of_a_signal_each(rng):
    X = rng.standard_normal((200, 1, 12))
    y = np.arange(200) % 100
    model = learn.ResidualKernelClassifier(effort="fast").fit(X, y)
    text = learn.report(model, X[:100], y[:100])
    assert Page(text).cells.count("99") >= 1 and len(text) < 3e6


def test_labels_in_the_form_of_the_classes():
    """1, 1.0, True, "1" and "1.0" are one label; labels that are no class stay."""
    digits = np.arange(4) % 2
    kinds = [digits, digits > 0, digits.astype(float), digits.astype("S")]
    kinds += [digits.astype(str), digits.astype(float).astype(str)]
    for one, other in product(kinds, kinds):
        classes = np.unique(one)
        same = in_form_of(classes, other)
        assert (same == one).all() and (same.dtype == one.dtype or one.dtype.kind in "biuf")
    assert in_form_of(np.array([0.0, 1.0]), np.array(["1", "x"])).tolist() == ["1.0", "x"]
    assert in_form_of(np.array(["1", "1.0"]), np.array([1])).tolist() == [1]
    large = np.array([str(2**60), "0"])
    assert in_form_of(large, np.array([str(2**60 + 1)])).tolist() == [str(2**60 + 1)]


def test_any_label():
    """Pictures keep their size, tables have the whole label, and the page has an encoding."""
    X, _ = load_labelled("ArrowHead")
    labels = "$x_{$", "\udcff", "a" * 300, "b\n" * 2500
    names = np.array(labels)[np.arange(len(X)) % 4]
    model = learn.ResidualKernelClassifier(effort="fast").fit(X, names)
    page = Page(learn.report(model, X[::-1], np.roll(names, 1)).encode().decode())
    assert {*map(encodable, labels)} <= {*page.cells} and "Wrong answers" in page.headings
    for address in page.addresses:
        width, height = struct.unpack(">II", base64.b64decode(address.partition(",")[2])[16:24])
        assert width * height <= 3e6  # pixels; 1.7e6 with names of one letter


def test_a_regressor_of_two_targets_and_lists(rng):
    X = [rng.standard_normal((2, n)) for n in rng.integers(8, 14, 40)]
    y = np.array([[x[0].mean(), x[1, :4].mean()] for x in X])
    model = learn.ResidualKernelRegressor(effort="fast", channel_metric=False).fit(X[:30], y[:30])
    groups = ["a"] * 4 + ["b"] * 6
    page = Page(learn.report(model, X[30:], y[30:], groups=groups))
    headings = ["Summary", "Targets", "Predictions", "Groups", "Largest errors"]
    assert page.headings == ["ResidualKernelRegressor", *headings, *BOTH]
    assert f"{model.score(X[30:], y[30:]):.3f}" in page.cells
    low, high = model.predict_interval(X[30:], 0.9)
    assert f"{np.mean((low <= y[30:]) & (y[30:] <= high)):.1%}" in page.cells
    for k in range(2):
        root = np.sqrt(np.mean((model.predict(X[30:]) - y[30:])[:, k] ** 2))
        mean = np.sqrt(np.mean((y[30:, k] - model.target_mean_[k]) ** 2))
        cells = row(page, f"target {k + 1}")
        assert cells[1].startswith(f"{root:.4g} ±") and cells[2] == f"{mean:.4g}"
    assert "–" in Page(learn.report(model, X[:1], y[:1])).cells  # R² of one signal
    text = learn.report(model, X[:30], y[:30] + 9.0)  # nothing is inside its interval
    assert "0.0% – off: chance 1e-30 if right" in text and "off for 2 of 2 targets" in text
    with pytest.raises(ValueError, match="prevalence and costs are of classes"):
        learn.report(model, X, y, costs={"a": 1})
    with pytest.raises(ValueError, match="y of shape .* contains NaN or infinity"):
        learn.report(model, X[:3], y[:3] * np.nan)


def test_images_have_no_shares(rng):
    X, y = rng.standard_normal((30, 1, 6, 6)), np.arange(30) % 2
    X[y == 1, :, :3] += 0.5
    model = learn.ResidualKernelClassifier(effort="fast").fit(X[:20], y[:20])
    page = Page(learn.report(model, X[20:], y[20:]))
    assert page.headings[1:] == [*PARTS, *BOTH] and len(page.addresses) == 5


def test_refusals(model, monkeypatch):
    X, y = load_labelled("ArrowHead")
    with pytest.raises(ValueError, match=r"y has shape \(2,\), expected \(3,\)"):
        learn.report(model, X[:3], y[:2])
    with pytest.raises(ValueError, match=r"y has shape \(3, 1\), expected \(3,\)"):
        learn.report(model, X[:3], y[:3, None])
    with pytest.raises(ValueError, match="model is SignalScaler, expected a fitted Residual"):
        learn.report(learn.SignalScaler(), X, y)
    with pytest.raises(ValueError, match="not fitted yet"):
        learn.report(learn.ResidualKernelClassifier(), X, y)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r"pip install 'rescntk\[report\]'"):
        learn.report(model, X, y)
