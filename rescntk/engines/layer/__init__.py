"""The steps of a network's layers, one class each, and the constants that they use."""
