"""The engine "numba": rows of pixel pairs computed by compiled loops on the CPU.

- engine: cuts a request into blocks, hands them to threads, and collects results.
- records: the named arguments of the compiled loops.
- compilation: how the loops are compiled and kept on disk.
- rows: the loop over groups of rows, left cases and layers.
- deficits: the same loop for pairs that lose digits in the form of distances.
- masses: the tables of signals that the loop of deficits reads.
- layers: the way of a row through one layer.
- sums: memory, halos and moving sums.
- heads: the sums over pixels that heads ask for.
- vectors: vectors of numbers as a type that numba compiles.
"""
