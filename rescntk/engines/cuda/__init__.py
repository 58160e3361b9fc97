"""The engine "cuda": rows of pixel pairs computed by kernels on an NVIDIA GPU."""
