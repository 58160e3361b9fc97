"""`ResidualKernelEstimator`: what the classifier and the regressor do with an ensemble alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from ...checks.values import check_choice
from ..base import SignalEstimator
from ..reading.cases import Cases
from ..reading.signals import Signals
from ..views.view import View
from .ensemble import Ensemble, fit_ensemble
from .results import LeftOut, ViewResults
from .settings import Settings, kernel_options
from .targets import Targets

REMEDY = (
    "Look at views_, cut the signals to the part that matters, or try views such as "
    "View(length=256) and View(head='trace')"
)
"""What to do if views find nothing, for warnings."""


class ResidualKernelEstimator(Settings, SignalEstimator):
    """Average the decisions of several views of the signals.

    `fit` of a subclass calls `_fit_ensemble`, and sets `intercept_` and `_target_scale`.
    """

    # With metadata routing, searches of scikit-learn pass groups on to `fit`.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"groups": True}

    intercept_: np.ndarray
    views_: dict[str, np.ndarray]
    left_out_novelty_: np.ndarray
    _ensemble: Ensemble
    _target_scale: np.ndarray
    """Divisors that made the targets of `_ensemble`, (n_outputs,), or (1,) for all outputs."""

    def _fit_ensemble(
        self,
        cases: Cases,
        targets: Targets,
        *,
        default_views: Mapping[str, Sequence[View]],
        more_penalties: Sequence[float] = (),
    ) -> LeftOut:
        """Fit the ensemble to cases, as `fit_ensemble`, and set the attributes about it.

        Returns
        -------
        LeftOut
            The results of cases left out, in the units of the targets.
        """
        self._ensemble, left_out, self.views_ = fit_ensemble(
            cases,
            targets,
            self,  # its parameters are the settings
            default_views=default_views,
            more_penalties=more_penalties,
        )
        self.left_out_novelty_ = cases.at_signals(left_out.novelty)
        return left_out

    def novelty(self, X: ArrayLike) -> np.ndarray:
        r"""Return how unlike the training signals new signals are.

        Parameters
        ----------
        X : array, table or list
            Signals as for `fit`, with the same number of channels and, unless `fit` was given a
            list, the same number of time points.

        Returns
        -------
        ndarray, (n_cases,)
            About 1 for new signals like the training signals, and larger for signals far from them
            or of other sizes. The training signals themselves have less. To set a limit, take a
            quantile of `left_out_novelty_`, the novelties of training signals left out.

        Raises
        ------
        ValueError
            For signals of another shape than in `fit`, and for missing values.
        NotFittedError
            Before `fit`.

        Notes
        -----
        The novelty is :math:`\max(\prod_v \nu_v^{p_v}, s)`, from the views v and from sizes.

        In the Gaussian process of view v, :math:`\nu_v` is the variance of an observation, divided
        by its mean over training signals left out. The powers :math:`p_v` are proportional to the
        inverse errors of the views, and their sum is 1. If there are several targets, the product
        is the geometric mean of theirs.

        Each channel of a signal has two sizes: log2 of its mean magnitude, and log2 of its
        deviation from its mean. Let such a size z have mean m and deviation d over training
        signals. Then s is the largest :math:`((z - m)/(c (2d + 0.2)))^2` of all channels. The
        factor c, at least 1, is such that s is above 1 at one of twenty training signals left out,
        or fewer. A channel that has one value a in all training signals counts with the magnitude
        :math:`|a| + |x - a|` at a time point x: then −a is as far as 3a.
        """
        return self._results(self._read(X)).novelty

    def contributions(self, X: ArrayLike, *, of: str = "time") -> Signals:
        r"""Return the contribution of each time point, or of each channel, to each decision.

        Decisions are ``intercept_`` plus the sum of contributions, up to rounding errors.

        Parameters
        ----------
        X : array, table or list
            Signals as for `fit`, with the same number of channels and, unless `fit` was given a
            list, the same number of time points.
        of : {"time", "channels"}, default "time"
            Whether contributions are those of time points or of channels. The contribution of a
            time point includes what the network sees around it. Contributions of c channels take
            about as long as 3(c + 1) predictions.

        Returns
        -------
        ndarray, (n_cases, n_outputs, n_timepoints) or (n_cases, n_outputs, n_channels)
            For lists and "time" it is a list of (n_outputs, n_timepoints_i). Each target, or each
            class, has an output; if there are two classes, only the second one has.

        Raises
        ------
        ValueError
            For another `of`, for signals of another shape than in `fit`, and for missing values.
        NotFittedError
            Before `fit`.

        Notes
        -----
        The contribution of channel c is an Aumann–Shapley value. A view computes the kernel of two
        signals from their covariances :math:`\sum_k x_k z_k`, at each pair of points, and from the
        variances of each. If the covariances of all channels were multiplied by t, the kernel would
        have the derivative :math:`\partial_c(t)` by the covariance of channel c. The contribution
        is the integral of :math:`\partial_c` from t = 0 to 1, in the decision's sum of kernels with
        training signals. What would be left of the decision at t = 0, where a signal has nothing in
        common with training signals, is divided evenly. Three nodes of Gauss and Legendre err by
        about a thousandth of the largest contribution. A view of covariances has the row of a
        channel in each logarithm in place of the channel.
        """
        check_choice(of, "of", ("time", "channels"))
        signals = self._read(X)
        contributions = self._contributions(signals, of)
        one_size = of == "channels" or isinstance(signals, np.ndarray)
        return np.array(contributions) if one_size else contributions

    def _results(self, X: Signals) -> ViewResults:
        """Return the results of the views at checked signals."""
        return self._ensemble.results(X, kernel_options(self))

    def _median_contributions(
        self, of: str, classes_of: Callable[[np.ndarray], np.ndarray]
    ) -> np.ndarray | None:
        """Return the mean over classes of the examples' median contributions.

        None stands for time points of lists. `classes_of` returns the classes that decisions,
        (n_examples, n_outputs), predict.
        """
        check_is_fitted(self)
        check_choice(of, "of", ("time", "channels"))
        if of == "time" and isinstance(self._ensemble.examples, list):
            return None
        contributions = np.array(self._contributions(self._ensemble.examples, of))
        classes = classes_of(contributions.sum(axis=2) + self.intercept_)
        medians = [np.median(contributions[classes == k], axis=0) for k in np.unique(classes)]
        return np.asarray(np.mean(medians, axis=0))

    def _contributions(self, X: Signals, of: str) -> list[np.ndarray]:
        """Return contributions in the units of decisions."""
        contributions = self._ensemble.contributions(X, kernel_options(self), of)
        return [self._target_scale[:, None] * part for part in contributions]
