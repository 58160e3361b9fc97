"""What the engines "cpu" and "cuda" share: formulas, records, and tables as loops read them."""
