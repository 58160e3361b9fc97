"""Bodies of the tests of all engines, which the tests here run on the emulated device.

The only module here that imports other tests.
"""

from tests.engines import test_accuracy, test_cupy, test_deep, test_properties, test_reference

accuracy, cupy, deep, properties, parts = (
    test_accuracy,
    test_cupy,
    test_deep,
    test_properties,
    test_reference,
)


def body(test):
    """Return what a hypothesis test does with an example."""
    return test.hypothesis.inner_test
