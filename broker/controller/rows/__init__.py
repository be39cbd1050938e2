"""The rows that the views return, as values."""
