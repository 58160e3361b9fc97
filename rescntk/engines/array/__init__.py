"""The engine "array": the recursion as array code, for NumPy and CuPy arrays."""
