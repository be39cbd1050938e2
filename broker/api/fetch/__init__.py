"""Fetch: the fast path, the partitions of a request, and a fetch in progress. Called by `api.a01_fetch`."""
