"""The engine "numba": rows of pixel pairs computed by compiled loops on the CPU.

- engine: `gram` and `diagonal`, in three acts: plan, tables, run.
- plan: how a request is cut into blocks, tasks and groups of rows, from shapes alone.
- tables: the tables of signals, in the layouts of the loops.
- run: the constants of a request, and the kernels of a task.
- arguments: the named arguments of the compiled loops.
- compilation: how the loops are compiled and kept on disk.
- rows: the loop over groups of rows, left cases and layers.
- merged: the same loop for pairs that lose digits in the form of distances.
- layers: the way of a row through one layer.
- sums: memory, halos and moving sums.
- heads: the sums over pixels that heads ask for.
- vectors: vectors of numbers as a type that numba compiles.
"""
