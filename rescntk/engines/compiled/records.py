"""The records of records.h, which tell the compiled loops what to do, as NumPy data types.

The types are parsed from records.h, which is also compiled into the loops, so that both agree.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from ...arrays import Array

_NUMBERS = {"int64": np.dtype(np.int64), "double": np.dtype(np.float64)}
_ADDRESS = np.dtype(np.uint64)
_STRUCT = re.compile(r"(?<!>\n)^struct (\w+) \{(.*?)\};", re.DOTALL | re.MULTILINE)
_ENUM = re.compile(r"^enum (\w+) \{(.*?)\};", re.DOTALL | re.MULTILINE)


def structs_of(text: str, included: dict[str, np.dtype] | None = None) -> dict[str, np.dtype]:
    """Return the data types of the structs in a C++ text, by name.

    Fields may be numbers, addresses and structs. Each declaration consists of a type and the names
    of fields, such as ``const Layer *layers;``. Templates are ignored. `included` has the structs
    of files that the text includes.
    """
    types = {**_NUMBERS, **(included or {})}
    structs = {}
    for name, body in _STRUCT.findall(_without_comments(text)):
        fields = []
        for declaration in filter(None, map(str.strip, body.split(";"))):
            type_name, names = declaration.removeprefix("const ").split(maxsplit=1)
            for field in names.split(","):
                is_address = field.strip().startswith("*")
                fields.append((field.strip(" *\n"), _ADDRESS if is_address else types[type_name]))
        structs[name] = types[name] = np.dtype(fields, align=True)
    return structs


def names_of(text: str, enum: str) -> tuple[str, ...]:
    """Return the names of an enumeration in lower case, with blanks: "pixel 1" for PIXEL_1."""
    body = dict(_ENUM.findall(_without_comments(text)))[enum]
    return tuple(name.strip().lower().replace("_", " ") for name in body.split(","))


def constant(text: str, name: str) -> int:
    """Return an integer constant of a C++ text, such as ``constexpr int MOST_LANES = 16;``."""
    (value,) = re.findall(rf"^constexpr int(?:64)? {name} = (\d+);", text, re.MULTILINE)
    return int(value)


def _without_comments(text: str) -> str:
    return re.sub(r"//.*", "", text)


_TEXT = Path(__file__).with_name("records.h").read_text("utf-8")
RECORDS = structs_of(_TEXT)
NAMES = "Convolution", "Operation", "Layer", "Side", "OffsetRange", "Job"
CONVOLUTION, OPERATION, LAYER, SIDE, OFFSET_RANGE, JOB = (RECORDS[name] for name in NAMES)
OUTPUTS = names_of(_TEXT, "Output")
"""The kinds of results that the loops can return, in the order of `Output`."""
FORMS = names_of(_TEXT, "Form")
"""The formulas that add features and branch, in the order of `Form`."""
OPERATION_KINDS = names_of(_TEXT, "OperationKind")
"""The kinds of operations, in the order of `OperationKind`."""


def pointer(array: Array) -> int:
    """Return the memory address of a NumPy array's data, or of a CuPy array's on its device."""
    if isinstance(array, np.ndarray):
        plain = array if array.dtype.names is None else array.view(np.uint8)  # which is faster
        return int(plain.__array_interface__["data"][0])
    return int(array.data.ptr)


def filled(dtype: np.dtype, **fields: object) -> np.ndarray:
    """Return an array of one record, (1,), with the given fields; all others are 0.

    A field may itself be a record.
    """
    record = np.zeros(1, dtype)
    for name, value in fields.items():
        record[name] = value
    return record


def copied(record: np.ndarray) -> np.ndarray:
    """Return a copy of an array of one record, (1,).

    It copies bytes. NumPy's own method copies field by field, which takes 30 times as long.
    """
    return np.frombuffer(bytearray(record.view(np.uint8)), record.dtype)
