"""What a network sees: views, their steps, and the kernels of what is left of a signal."""
