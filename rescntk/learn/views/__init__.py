"""What a network sees: views, the steps that prepare signals, and kernels of prepared signals."""
