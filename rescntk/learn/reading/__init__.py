"""What users give: tables, arrays, lists, labels, weights and groups, read and checked."""
