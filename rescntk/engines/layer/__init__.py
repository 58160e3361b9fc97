"""A layer, step by step, and the constants of its steps."""
