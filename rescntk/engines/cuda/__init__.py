"""The engine "cuda": rows of pixel pairs computed by kernels on an NVIDIA GPU, through CuPy.

engine.py: one request: plan, tables, launches; the pairs that are computed again from deficits.
launch_plan.py: the shape of a launch, a pure function of shapes, with all constants of size.
compiler.py: the kernels' text, compiled on demand, and the device.
structs.py: the kernels' one argument and packed tables, with the layout of rows.h.
selfcheck.py: the comparison with the reference engine before the first use.

The kernels: short_rows.cu keeps a row in registers, long_rows.cu in shared memory. They share
numbers.h, activations.h, windows.h, rows.h, doubt.h, layers.h and heads.h. The steps of a layer are
`correlate`, `dual`, `tangent_g` and `add_branch` (layers.h).
"""
