"""The engine "reference": the recursion as array code, for NumPy and CuPy arrays."""
