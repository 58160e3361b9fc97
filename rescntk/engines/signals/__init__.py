"""Single signals: their input (input.py), and the tables of all steps (tables.py)."""
