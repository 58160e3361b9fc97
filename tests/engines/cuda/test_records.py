"""The record that kernels take, as NumPy, the C++ compiler and NVRTC lay it out."""

import subprocess

import numpy as np
import pytest

from rescntk.engines.cuda import kernels, records
from tests.engines.cuda import emulated, nvrtc

pytestmark = pytest.mark.slow


def layouts():
    """Yield each struct of rows.h and activations.h with its layout in records.py."""
    for real, dtype in (("float", np.dtype(np.float32)), ("double", np.dtype(np.float64))):
        yield f"PackedTables<{real}>", records.packed_tables()
        yield f"Trained<{real}>", records.trained(dtype)
        yield f"Layer<{real}>", records.layer(dtype)
        yield f"Job<{real}>", records.job(dtype)


def assertions(changed=None):
    """Return C++ text that compiles only if sizes and offsets of all fields agree."""
    lines = []
    for number, (struct, layout) in enumerate(layouts()):
        fields = dict(layout.fields)
        if changed and struct.startswith("Job"):
            one, other = changed
            fields[one], fields[other] = fields[other], fields[one]
        name = f"Struct{number}"
        lines.append(f"typedef {struct} {name};")
        lines.append(f'static_assert(sizeof({name}) == {layout.itemsize}, "size");')
        for field, (kind, offset) in fields.items():
            lines.append(
                f'static_assert(__builtin_offsetof({name}, {field}) == {offset}, "{field}");'
            )
            lines.append(
                f'static_assert(sizeof((({name} *)0)->{field}) == {kind.itemsize}, "{field}");'
            )
    return "\n".join(lines)


def host_text(changed=None):
    return emulated.on_the_host(kernels.source()) + assertions(changed)


@emulated.on_host
def test_the_compiler_lays_records_out_alike(folder):
    emulated.build(host_text(), folder)


@emulated.on_host
@pytest.mark.parametrize("changed", [("rows", "columns"), ("depth", "d"), ("left", "right")])
def test_another_order_would_be_seen(folder, changed):
    with pytest.raises(subprocess.CalledProcessError):
        emulated.build(host_text(changed), folder)


@pytest.mark.skipif(nvrtc.LIBRARY is None, reason=nvrtc.MISSING)
@pytest.mark.parametrize("architecture", ["sm_80", "sm_100"])
def test_nvrtc_lays_records_out_alike(architecture):
    nvrtc.compile_kernels([], architecture, kernels.source() + assertions())


def test_every_field_has_to_be_named():
    layout = records.trained(np.dtype(np.float64))
    fields = dict.fromkeys(layout.names, 1.0)
    assert records.record(layout, **fields).tolist() == [(1.0,) * 3]
    for wrong in (fields | {"more": 1.0}, {"initial": 1.0}):
        with pytest.raises(TypeError, match="record has the fields"):
            records.record(layout, **wrong)
