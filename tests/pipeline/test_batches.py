"""Work beside a stream waits for the end of a batch, but not for ever."""

import threading

import pytest

from pipeline.batches import Batches


def test_without_a_batch_nothing_waits():
    assert Batches(most_s=0).wait()


def test_a_step_waits_until_the_batch_ends():
    batches, order = Batches(most_s=60), []

    def step():
        assert batches.wait()
        order.append("step")

    with batches.running():
        thread = threading.Thread(target=step)
        thread.start()
        order.append("end of the batch")
    thread.join()
    assert order == ["end of the batch", "step"]


def test_a_batch_that_fails_has_ended():
    batches = Batches(most_s=0)

    def batch():
        with batches.running():
            assert not batches.wait()
            raise OSError

    with pytest.raises(OSError):
        batch()
    assert batches.wait()


def test_a_step_waits_for_the_last_of_several_batches_and_no_longer_than_the_limit():
    batches = Batches(most_s=0)
    with batches.running():
        with batches.running():
            assert not batches.wait()
        assert not batches.wait()
    assert batches.wait()
