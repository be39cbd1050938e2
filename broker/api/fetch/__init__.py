"""Fetch: the fast path, the usual path, and partitions by the thousand. Called by `api.a01_fetch`."""
