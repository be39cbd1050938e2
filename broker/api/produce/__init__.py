"""Produce: the fast path, the usual path, and what both check. Called by `api.a00_produce`."""
