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


def test_pass_weights_names_what_differs():
    passes = {
        "head": np.array(["gap", "gap", "trace"]),
        "depth": np.array([4, 4, 4]),
        "filter_size": np.array([9, 3, 9]),
        "first_differences": np.array([False, True, "only"], dtype=object),
        "weight": np.array([0.5, 0.3, 0.2]),
        "error": np.array([0.1234, 0.2, 0.3]),
    }
    ax = plots.pass_weights(passes)
    assert [bar.get_width() for bar in ax.patches] == [0.5, 0.3, 0.2]
    assert [label.get_text() for label in ax.get_yticklabels()] == [
        "gap, filter size 9",
        "gap, filter size 3, first differences",
        "trace, filter size 9, first differences only",
    ]
    assert ax.texts[0].get_text() == "error 0.123"
    assert ax.yaxis_inverted()  # the first pass is on top
    ax.figure.savefig(io.BytesIO())
    alone = {name: column[:1] for name, column in passes.items()}
    assert plots.pass_weights(alone).get_yticklabels()[0].get_text() == "plain signals"
