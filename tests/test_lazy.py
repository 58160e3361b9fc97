"""Properties that are made when they are first asked for."""

import inspect
import pydoc
import threading

from rescntk.lazy import once

PATIENCE = 10.0
"""Seconds after which a test that waits for a thread fails."""


class Square:
    def __init__(self, side):
        self.side, self.made = side, 0

    @once
    def area(self):
        """The square of the side."""
        self.made += 1
        return self.side**2


def test_a_property_is_made_when_it_is_first_asked_for():
    """Of each object alone."""
    square, other = Square(3), Square(5)
    assert square.made == 0
    assert [square.area, square.area, other.area] == [9, 9, 25]
    assert (square.made, other.made) == (1, 1)


def test_a_property_of_the_class_is_described():
    """Without an object nothing is made: `help` and pages of the API read the docstring."""
    assert isinstance(Square.area, once)
    assert dict(inspect.getmembers(Square))["area"] is Square.area
    assert inspect.getdoc(Square.area) == "The square of the side."
    assert "The square of the side." in pydoc.plain(pydoc.render_doc(Square))


def test_a_property_that_one_thread_makes_blocks_no_other():
    """The thread that asks second has its value while the first one is still at work."""
    begun, ended = threading.Event(), threading.Event()

    class Slow:
        @once
        def value(self):
            if not begun.is_set():
                begun.set()
                ended.wait(timeout=PATIENCE)
                return "first"
            return "second"

    slow = Slow()
    thread = threading.Thread(target=lambda: slow.value)
    thread.start()
    assert begun.wait(timeout=PATIENCE)
    try:
        assert slow.value == "second"
    finally:
        ended.set()
        thread.join()
