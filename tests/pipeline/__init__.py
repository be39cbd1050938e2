"""Tests of the Spark pipeline: `make test-pipeline`. One session for all, small frames, few jobs."""
