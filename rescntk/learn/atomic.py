"""`atomic`: a fit that is interrupted or refused leaves the estimator as it was."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


def atomic(fit: F) -> F:
    """Decorate a method that fits an estimator: all fitted attributes are set at once, at its end.

    The method runs on a copy of the estimator without fitted attributes, whose names end in "_".
    The estimator takes over the attributes of the copy after the method has returned.
    """

    @wraps(fit)
    def run(self: Any, *arguments: Any, **options: Any) -> Any:
        fresh = copy.copy(self)
        for name in list(vars(fresh)):
            if name.endswith("_") and not name.startswith("_"):
                delattr(fresh, name)
        result = fit(fresh, *arguments, **options)
        self.__dict__ = vars(fresh)
        return self if result is fresh else result

    return cast(F, run)
