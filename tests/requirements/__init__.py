"""Tests of what stands beside the lock files."""
