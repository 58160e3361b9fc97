"""Labels before a signal's end."""
