"""Pictures of rescntk.learn: what is drawn are the numbers."""

import io

import numpy as np
import pytest

from rescntk import plots

pytest.importorskip("matplotlib")


def test_gram_matrix_is_sorted_by_class(rng):
    K = rng.standard_normal((5, 5))
    ax = plots.gram_matrix(K, ["b", "a", "b", "c", "a"])
    order = [1, 4, 0, 2, 3]
    assert (ax.get_images()[0].get_array() == K[np.ix_(order, order)]).all()
    assert [label.get_text() for label in ax.get_xticklabels()] == ["a", "b", "c"]
    np.testing.assert_allclose(ax.get_xticks(), [0.5, 2.5, 4.0])
    assert sorted(line.get_xdata()[0] for line in ax.get_lines())[-2:] == [1.5, 3.5]
    ax.figure.savefig(io.BytesIO())
    named = plots.gram_matrix(K, list("abcde"), label="normalized NTK")
    assert [one.get_ylabel() for one in (ax.figure.axes[1], named.figure.axes[1])] == [
        "kernel",
        "normalized NTK",
    ]
    with pytest.raises(ValueError, match=r"K has shape \(5, 5\), expected \(4, 4\)"):
        plots.gram_matrix(K, list("abcd"))


def test_search_errors_shows_the_best_of_each():
    results = {
        "depth": np.array([1, 2, 1, 2, 1, 2]),
        "head": np.array(["gap", "gap", "gap", "gap", "trace", "trace"]),
        "kind": np.array(["ntk"] * 4 + ["gpk"] * 2),
        "error": np.array([0.5, 0.4, 0.3, 0.6, 0.9, 0.8]),
    }
    ax = plots.search_errors(results)
    drawn = {line.get_label(): line for line in ax.get_lines()}
    assert (drawn["gap, NTK"].get_ydata() == [0.3, 0.4]).all()
    assert (drawn["trace, GPK"].get_ydata() == [0.9, 0.8]).all()
    assert len({line.get_marker() for line in ax.get_lines()}) == 4
    assert drawn["trace, GPK"].get_linestyle() != drawn["gap, NTK"].get_linestyle()
    ax.figure.savefig(io.BytesIO())


def test_parity():
    ax = plots.parity([1.0, 2.0], [1.5, 1.75], [0.1, 0.2])
    (points,) = ax.containers
    assert (points[0].get_ydata() == [1.5, 1.75]).all()
    bars = np.array([segment[:, 1] for segment in points[2][0].get_segments()])
    np.testing.assert_allclose(bars[:, 1] - bars[:, 0], 2 * 1.96 * np.array([0.1, 0.2]))
    ax.figure.savefig(io.BytesIO())
