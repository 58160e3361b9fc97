"""The default views: a list has no view twice, and begins with the shorter lists."""

import pytest

from rescntk.learn.default_views import (
    CLASSIFIER_VIEWS,
    FAST_VIEWS,
    REGRESSOR_VIEWS,
    VIEWS_OF_MANY_SIGNALS,
)


@pytest.mark.parametrize("views", [REGRESSOR_VIEWS, VIEWS_OF_MANY_SIGNALS])
def test_views_of_a_list_differ(views):
    assert len(set(views)) == len(views)


def test_shorter_lists_come_first():
    assert REGRESSOR_VIEWS[: len(CLASSIFIER_VIEWS)] == CLASSIFIER_VIEWS
    assert CLASSIFIER_VIEWS[: len(FAST_VIEWS)] == FAST_VIEWS
