"""The engine "reference": the one recursion as array code, for NumPy and CuPy arrays."""
