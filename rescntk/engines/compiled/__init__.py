"""What the engines "cpu" and "cuda" share: formulas in C++, records and tables of signals."""
