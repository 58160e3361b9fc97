"""Signals as engines take them: divided by their sizes, and tables of their pixels."""
