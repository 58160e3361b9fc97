"""The recursion of a pair of signals in JAX, with derivatives."""
