"""Records of C++ texts as NumPy's types."""

import ctypes

import numpy as np
import pytest

from rescntk.engines.compiled import records

TEXT = """
struct Inner { int64 a, b; };  // two numbers
struct Outer {                 // struct Other { is no struct
    Inner first, second;
    const double *values;      // addresses have 8 bytes
    double *out, factor;
};
template <class R>
struct Row {
    enum { MANY = 2 };
};
enum Kind { SUMS, PIXEL_1 };
constexpr int MANY = 12;  // constexpr int MANY = 13;
"""


def test_structs_have_their_fields_in_order():
    found = records.structs_of(TEXT)
    assert list(found) == ["Inner", "Outer"]
    assert found["Outer"].names == ("first", "second", "values", "out", "factor")
    assert [found["Outer"].fields[name][1] for name in found["Outer"].names] == [0, 16, 32, 40, 48]
    assert found["Outer"]["first"] == found["Inner"]
    assert found["Outer"]["values"] == np.uint64 and found["Outer"]["factor"] == np.float64


def test_structs_of_other_texts_are_known():
    found = records.structs_of("struct Launch { Inner inner; int64 n; };", records.structs_of(TEXT))
    assert found["Launch"].itemsize == 24


def test_names_of_an_enumeration():
    assert records.names_of(TEXT, "Kind") == ("sums", "pixel 1")


def test_constants_are_read_from_the_text():
    assert records.constant(TEXT, "MANY") == 12


def test_a_type_that_is_not_known_is_an_error():
    with pytest.raises(KeyError, match="float"):
        records.structs_of("struct Other {\n float a;\n};")


def test_the_records_of_the_loops_have_no_padding():
    for dtype in records.RECORDS.values():
        numbers = sum(dtype[name].itemsize for name in dtype.names)
        assert numbers == dtype.itemsize and dtype.itemsize % ctypes.sizeof(ctypes.c_void_p) == 0
