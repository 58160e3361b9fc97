"""Checks of what users give: values, labels and groups, and how messages show them."""
