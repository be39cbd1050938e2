"""Blocks of producer ids."""

from broker.coordinator.transaction.changes import ProducerIds


def test_without_a_block_there_is_no_id() -> None:
    assert ProducerIds().take() is None


def test_ids_come_block_by_block_and_none_twice() -> None:
    ids = ProducerIds()
    ids.add(range(1_000, 1_002))
    ids.add(range(5_000, 5_001))
    assert [ids.take() for _ in range(4)] == [1_000, 1_001, 5_000, None]


def test_a_block_that_comes_later_goes_on() -> None:
    ids = ProducerIds()
    ids.add(range(1))
    assert (ids.take(), ids.take()) == (0, None)
    ids.add(range(1, 2))
    assert ids.take() == 1
