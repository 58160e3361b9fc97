"""All views together: a regression for each, their weights, and results of cases left out."""
