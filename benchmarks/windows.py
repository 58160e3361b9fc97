"""Accuracy of views whose heads average windows, in place of GAP with time channels.

    python benchmarks/windows.py [--quick]

The official splits of the UCR sets that chose the default views. Five minutes.
"""

from collections.abc import Iterator

import harness
import numpy as np
import ucr
from harness import Row
from sklearn.base import clone

from rescntk.learn import View
from rescntk.learn.views import DEFAULT

DEFAULT_VIEWS, WIDTHS = "default views", (4, 8, 16)


def with_windows(view: View, width: int) -> View:
    """Return a view without time channels, whose head averages windows of some pixels instead."""
    return clone(view).set_params(head=width, time=0.0) if view.time else view


def measure(quick: bool) -> Iterator[Row]:
    """Yield accuracy, log loss and seconds of each set with each set of views."""
    chosen = f"splits == 'official' and part == 'choose' and n_train <= {ucr.MOST}"
    sets = ucr.peers().query(chosen)["set"]
    views = {DEFAULT_VIEWS: list(DEFAULT)}
    views |= {f"windows of {w}": [with_windows(view, w) for view in DEFAULT] for w in WIDTHS}
    for name in ["BirdChicken"] if quick else sets:
        X, y, Z, truth = ucr.signals(name, 0)
        for label, given in views.items():
            model, chances, seconds = ucr.use(given, X, y, Z)
            row = {"set": name, "views": label, "seconds": sum(seconds)}
            yield row | ucr.scores(model, chances, truth)


def main() -> None:
    asked = harness.options(__doc__)
    rows = list(measure(asked.quick))
    lines = []
    for label in dict.fromkeys(row["views"] for row in rows):
        of = [row for row in rows if row["views"] == label]
        means = [np.mean([row[k] for row in of]) for k in ("accuracy", "log_loss")]
        lines.append((label, *(f"{x:.4f}" for x in means), f"{sum(r['seconds'] for r in of):.0f}"))
    text = harness.page(
        "# Views with windows",
        f"Means over {len({row['set'] for row in rows})} sets of the UCR archive, official splits, "
        "and processor seconds of all fits and predictions. Four default views with time channels "
        "and GAP have heads of windows instead, without time channels.",
        harness.table(("views", "accuracy", "log loss", "seconds"), lines),
    )
    harness.publish(asked.out / "windows.md", text)


if __name__ == "__main__":
    main()
