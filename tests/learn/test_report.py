"""The report: its numbers, its parts for each kind of model and signal, one file, refusals."""

import base64
import re
import struct
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

from rescntk import learn
from rescntk.datasets import load_labelled
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


PARTS = ["Summary", "Confusion", "Classes", "Calibration", "Wrong answers"]
BOTH = ["Novelty", "Drift", "Passes"]


@pytest.fixture(scope="module")
def model():
    X, y = load_labelled("ArrowHead")
    return learn.ResidualKernelClassifier(effort="fast").fit(X, y)


def test_a_classifier(model):
    X, y = load_labelled("ArrowHead", "test")
    X, y = X[:60], y[:60]
    text = learn.report(model, X, y, title="a <b> title")
    page = Page(text)
    assert page.headings == ["a <b> title", *PARTS, *BOTH] and "<b>" not in text
    predicted, chance = model.predict(X), model.predict_proba(X).max(axis=1)
    assert f"{np.mean(predicted == y):.3f}" in page.cells
    assert f"{chance.mean():.3f}" in page.cells
    assert f"{np.median(model.novelty(X)):.2f}" in page.cells
    wrong = np.flatnonzero(predicted != y)
    first = wrong[np.argmax(chance[wrong])]
    assert re.search(rf"Cases {first}[,.]", text)
    assert len(page.addresses) == 5
    assert all(each.startswith("data:image/png;base64,") for each in page.addresses)
    assert "No answer is wrong." in learn.report(model, X[predicted == y], y[predicted == y])


@pytest.mark.parametrize("label", ["$x_{$", "\udcff", "a" * 300, "b\n" * 2500])
def test_any_label(label):
    """Pictures keep their size, tables have the whole label, and the page has an encoding."""
    X, y = load_labelled("ArrowHead")
    names = np.array([label + name for name in y])
    model = learn.ResidualKernelClassifier(effort="fast").fit(X, names)
    page = Page(learn.report(model, X[::-1], np.roll(names, 1)).encode().decode())
    assert encodable(names[0]) in page.cells and "Wrong answers" in page.headings
    for address in page.addresses:
        width, height = struct.unpack(">II", base64.b64decode(address.partition(",")[2])[16:24])
        assert width * height <= 3e6  # pixels; 1.7e6 with names of one letter


def test_a_regressor_of_two_targets_and_lists(rng):
    X = [rng.standard_normal((2, n)) for n in rng.integers(8, 14, 40)]
    y = np.array([[x[0].mean(), x[1, :4].mean()] for x in X])
    model = learn.ResidualKernelRegressor(effort="fast").fit(X[:30], y[:30])
    page = Page(learn.report(model, X[30:], y[30:]))
    assert page.headings == [
        "ResidualKernelRegressor", "Summary", "Predictions", "Largest errors", *BOTH
    ]  # fmt: skip
    assert f"{model.score(X[30:], y[30:]):.3f}" in page.cells
    low, high = model.predict_interval(X[30:], 0.9)
    assert f"{np.mean((low <= y[30:]) & (y[30:] <= high)):.1%}" in page.cells
    assert "–" in Page(learn.report(model, X[:1], y[:1])).cells  # R² of one signal
    with pytest.raises(ValueError, match="y of shape .* contains NaN or infinity"):
        learn.report(model, X[:3], y[:3] * np.nan)


def test_images_have_no_shares(rng):
    X, y = rng.standard_normal((30, 1, 6, 6)), np.arange(30) % 2
    X[y == 1, :, :3] += 0.5
    model = learn.ResidualKernelClassifier(effort="fast").fit(X[:20], y[:20])
    page = Page(learn.report(model, X[20:], y[20:]))
    assert page.headings[1:] == [*PARTS, *BOTH] and len(page.addresses) == 4


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
