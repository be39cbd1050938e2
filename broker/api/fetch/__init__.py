"""Fetch: the fast path, and a fetch in progress. Called by `api.a01_fetch`."""
