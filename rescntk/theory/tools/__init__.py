"""What several questions of theory share: checks, tables, and the recursion on the multi-sphere."""
