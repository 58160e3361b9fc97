"""Gram matrices on disk: computed block by block, resumed, by one process or many."""

from .matrix import StoredGram, gram, open

__all__ = ["StoredGram", "gram", "open"]
