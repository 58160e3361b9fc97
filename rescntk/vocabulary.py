"""The words that every module speaks: names of kernels, heads, precisions, activations, parts."""

KINDS = ("gpk", "ntk")
"""Kinds of kernel: Gaussian process kernel (GPK) and neural tangent kernel (NTK)."""

HEADS = ("equivariant", "trace", "gap")
"""Heads: pixel 1 of both signals; the mean over equal pixels; the mean over all pixel pairs."""

DTYPES = ("float64", "float32")
"""Working precisions of the engines."""

ACTIVATIONS = ("relu", "erf")
"""Activations whose expectations under correlated Gaussians are known in closed form."""

PARTS = ("input", "inner", "outer", "readout")
"""Parts of a network that training may change, from the input to the output."""
