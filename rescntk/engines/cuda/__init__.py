"""The engine "cuda": rows of pixel pairs computed by kernels on an NVIDIA GPU, through CuPy.

launch.py: the shape of a launch, a pure function of lengths, filters and precision.
records.py: the kernels' one argument, as a NumPy record with the layout of rows.h.
kernels.py: the kernels' text, compiled on demand.
packing.py: tables of signals in the order in which the kernels read them.
doubt.py: the pairs of signals that are computed again, from deficits.
tiles.py: the size of a tile of pairs, from the free memory.
engine.py: one request, tile by tile.
selfcheck.py: the comparison with the reference engine before the first use.

The kernels: short_rows.cu keeps a row in registers, long_rows.cu in shared memory. They share
numbers.h, activations.h, windows.h, rows.h, doubt.h, layers.h and heads.h.
"""
