"""The engine "array", which computes the recursion with array operations of NumPy or CuPy."""
