"""The input of the recursion: signals divided by their sizes (input.py) and tables (tables.py)."""
