"""The verdict on a family of kernels, as tables of conditions.

`decide` looks a verdict up in `_VERDICTS`: the first row whose condition holds counts. The
conditions are properties of `Evidence`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from .evidence import Evidence, always

AS_PREDICTED = "converges as predicted"
ELSEWHERE = "converges to something else"
DEGENERATES = "degenerates"
UNDECIDED = "undecided"
VERDICTS = (AS_PREDICTED, ELSEWHERE, DEGENERATES, UNDECIDED)


class _Verdict(NamedTuple):
    """A row of the table of verdicts."""

    applies: Callable[[Evidence], bool]
    verdict: str
    if_limit_forgets: str
    """The verdict where the predicted limit is the same for all pairs of different signals."""
    as_predicted: Callable[[Evidence], bool | None]
    reason: str
    """A sentence with the `Evidence` e in braces."""


def _refuted_if_predicted(e: Evidence) -> bool | None:
    return False if e.predicted else None


# The first row that applies gives the verdict.
_VERDICTS = (
    # The distance from the predicted limit falls to 0 …
    # … at the predicted rate.
    _Verdict(
        lambda e: e.reaches_prediction and e.agrees is True,
        AS_PREDICTED,
        DEGENERATES,
        always(True),
        "{e.reached}",
    ),
    # … to rounding errors, too fast for a rate to be seen.
    _Verdict(
        lambda e: e.reaches_prediction and e.agrees is None and e.distance_fit.vanished,
        AS_PREDICTED,
        DEGENERATES,
        always(None),
        "{e.reached}; {e.objection}",
    ),
    # … at a rate that is not resolved, or differs where the networks are not deep enough.
    _Verdict(
        lambda e: e.reaches_prediction and (e.agrees is None or e.rate_needs != ""),
        UNDECIDED,
        DEGENERATES,
        always(None),
        "{e.reached}; {e.objection}{e.rate_needs}",
    ),
    # … at another rate than the predicted one.
    _Verdict(
        lambda e: e.reaches_prediction,
        UNDECIDED,
        DEGENERATES,
        always(False),
        "{e.reached}; but {e.objection}",
    ),
    # All pairs converge to the same value …
    # … and the predicted limit is another one.
    _Verdict(
        lambda e: e.spread_falls and e.misses_prediction,
        DEGENERATES,
        DEGENERATES,
        _refuted_if_predicted,
        "{e.fades}; {e.missed}",
    ),
    # … and nothing speaks against the predicted limit, or none is predicted.
    _Verdict(lambda e: e.spread_falls, DEGENERATES, DEGENERATES, always(None), "{e.fades}"),
    # The kernels converge to another limit than the predicted one …
    # … which remembers the signals.
    _Verdict(
        lambda e: e.converges and e.misses_prediction and (e.spread_stays or e.spread_is_unknown),
        ELSEWHERE,
        ELSEWHERE,
        _refuted_if_predicted,
        "{e.missed}",
    ),
    # … which may or may not remember the signals.
    _Verdict(
        lambda e: e.converges and e.misses_prediction,
        UNDECIDED,
        UNDECIDED,
        _refuted_if_predicted,
        "{e.missed}; whether the limit forgets the signals is open: of the spread is left "
        "{e.spread_fit.remainder}",
    ),
    # Without a prediction, the kernels converge to a limit that remembers the signals.
    _Verdict(
        lambda e: e.converges and e.prediction is None and e.spread_stays,
        ELSEWHERE,
        ELSEWHERE,
        always(None),
        "without a prediction to compare with: steps fall, exponent {e.step_fit.exponent}, and "
        "a spread of {e.spread_fit.remainder} is left",
    ),
    _Verdict(lambda e: True, UNDECIDED, UNDECIDED, always(None), "{e.fits}{e.needs}"),
)


class Decision(NamedTuple):
    """A verdict, whether all is as predicted, and the reason."""

    verdict: str
    as_predicted: bool | None
    reason: str


def decide(evidence: Evidence) -> Decision:
    """Decide on a verdict: the first row of `_VERDICTS` whose condition holds."""
    row = next(row for row in _VERDICTS if row.applies(evidence))
    return Decision(
        row.if_limit_forgets if evidence.limit_forgets else row.verdict,
        row.as_predicted(evidence),
        row.reason.format(e=evidence),
    )
