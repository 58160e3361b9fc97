"""The engine "cuda": rows of pixel pairs computed by a kernel on an NVIDIA GPU, through CuPy.

engine.py: one request: tables, tiles, launches.
launch_plan.py: the shape of a launch, from the shape of a signal and the device's limits; tiles.
rows.cu, row.h, row_layers.h, launch.h: the kernel. formulas.h and records.h serve the engine "cpu"
too.
compiler.py: the kernel's text, compiled on demand, and the device.
selfcheck.py: the comparison with the engine "array" before the first use.
"""
