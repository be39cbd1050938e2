"""Conventions that no linter checks: sizes, first lines, bounds, and names in the documents."""
