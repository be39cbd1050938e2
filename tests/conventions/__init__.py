"""The house rules that no linter has: sizes, first lines, bounds, documents that name what exists."""
