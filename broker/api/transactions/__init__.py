"""The common parts of the handlers of transactions."""
