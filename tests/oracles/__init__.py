"""Slow, obvious, independent re-derivations. Nothing here imports rescntk."""
