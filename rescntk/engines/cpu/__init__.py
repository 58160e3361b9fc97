"""The engine "numba": rows of pixel pairs computed by compiled loops on the CPU."""
