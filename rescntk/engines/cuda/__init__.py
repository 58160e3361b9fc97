"""The engine "cuda", which computes strips of pixel pairs on an NVIDIA GPU, through CuPy.

In this folder, "kernel" also means a program that runs on the GPU.

- engine.py computes a request: it makes tables of signals, divides the kernel matrix into tiles,
  and launches the GPU kernel for each tile.
- launch_plan.py decides on the shape of a launch and of tiles, from the number of pixels of a
  signal and the limits of the device.
- strips.cu, strip.h, layers.h and launch.h are the GPU kernel. It shares formulas.h and records.h
  with the engine "cpu".
- compiler.py compiles the GPU kernel when it is needed, and asks the device for its limits.
- selfcheck.py compares the engine with the engine "array" before it is used for the first time.
"""
