"""The measurement behind the plan of passes: splits by hand, and the report."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
import classification_design
from classification_methods import draw_signals

from rescntk.learn import ResidualKernelClassifier
from tests.learn.cases import waves

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def study():
    X, y = waves(np.random.default_rng(0), 20, 2, length=12)
    X = X + 0.5 * np.random.default_rng(1).standard_normal(X.shape)
    return X, y, *classification_design.splits(X, y, "fast")


def test_a_split_is_what_the_classifier_does(study):
    """The same accuracy as the classifier's, but for scales of views from all signals."""
    X, y, names, made = study
    assert len(made) == 3 * 10  # a tenth is less than two signals a class
    assert len(names) == len(set(names)) == 4
    differences = []
    for number in range(4):
        train, test = draw_signals(y, 14, number)
        model = ResidualKernelClassifier(effort="fast").fit(X[train], y[train])
        own = made[20 + number].accuracy(range(len(names)))
        differences.append(own - model.score(X[test], y[test]))
    assert np.abs(differences).max() <= 1 / 6 + 1e-9  # a test signal of six
    assert np.count_nonzero(differences) <= 1


def test_the_report(study):
    _, _, names, made = study
    text = classification_design.report({"one": (names, made), "other": (names[:2], made[:10])})
    first = np.mean([split.accuracy([0]) for split in made])
    assert f"| {names[0]}, alone | {first:.3f} |" in text
    assert text.count("| – | – |\n") == 2  # passes that a set does not have
    three = np.mean([split.accuracy([0, 1, 2]) for split in made])
    assert f"| the first 3 | {three:.3f} |" in text
    assert made[0].accuracy([0, 1], power=50.0) in [made[0].accuracy([i]) for i in (0, 1)]


def test_notes_by_hand_are_kept(tmp_path):
    path = tmp_path / "design.md"
    assert classification_design.with_notes("new\n", path) == "new\n"
    path.write_text("old\n\n## Tried\n\nDilations.\n")
    assert classification_design.with_notes("new\n", path) == "new\n\n## Tried\n\nDilations.\n"
