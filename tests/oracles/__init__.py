"""Slow, obvious, independent re-derivations. Of rescntk they import constants alone."""
