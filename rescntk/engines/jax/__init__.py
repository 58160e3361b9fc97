"""The recursion of a pair of signals in JAX, whose kernels can be differentiated."""
