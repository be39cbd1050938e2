"""Steps that run at the same time: an error ends them all."""

from threading import Barrier, Event

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

from pipeline.together import run_together

WITHIN_S = 60


def fail():
    raise ValueError("no table")


def test_all_run_at_the_same_time(spark):
    both = Barrier(2)
    run_together(spark, [lambda: both.wait(WITHIN_S)] * 2)


def test_nothing_runs_nothing(spark):
    run_together(spark, [])


def test_after_an_error_no_further_one_begins(spark):
    begun = []
    with pytest.raises(ValueError, match="no table"):
        run_together(spark, [fail, lambda: begun.append(None)], at_once=1)
    assert begun == []


def test_an_error_cancels_those_that_run(spark):
    runs, is_cancelled = Event(), Event()

    def run():
        runs.set()
        is_cancelled.wait(WITHIN_S)

    def fail_meanwhile():
        runs.wait(WITHIN_S)
        fail()

    with pytest.raises(ValueError, match="no table"):
        run_together(spark, [run, fail_meanwhile], cancel=is_cancelled.set)
    assert is_cancelled.is_set()
