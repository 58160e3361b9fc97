"""The engine "numba": rows of pixel pairs computed by compiled loops on the CPU.

- engine: cuts a request on arrays into tasks, hands them to threads, and collects results.
- unequal: the same for lists of signals of different lengths, whose rows are open.
- run: the constants of a request, and the kernels of a block.
- cases: the tables of signals, in the layouts of the loops.
- sizes: how many rows a group has, and how large tasks and blocks are.
- arguments: the named arguments of the compiled loops.
- compilation: how the loops are compiled and kept on disk.
- rows: the loop over groups of rows, left cases and layers.
- deficits: the same loop for pairs that lose digits in the form of distances.
- masses: the tables of signals that the loop of deficits reads.
- layers: the way of a row through one layer.
- sums: memory, halos and moving sums.
- heads: the sums over pixels that heads ask for.
- vectors: vectors of numbers as a type that numba compiles.
"""
