"""Formulas, records and tables of the engines "cpu" and "cuda"."""
