"""A ShareFetch does not wait until the states of all its partitions are loaded, as in Kafka."""

import pytest

from broker.common.errors import ApiError, ErrorCode
from broker.protocol.messages.share_fetch import FetchPartition, FetchTopic
from tests.api.harness import Harness
from tests.coordinator.share.consumers import Member


async def first_fetch(harness: Harness, name: str, **options: int) -> tuple[Member, object]:
    """Open a session with both partitions; return the member and the response."""
    member = Member(harness, name)
    request = member.fetch_request(**options)
    request.topics = [FetchTopic(member.topic_id, [FetchPartition(0), FetchPartition(1)])]
    reply = await harness.ask(request, connection=member.connection)
    member.epoch += 1
    return member, reply


def partitions_in(reply: object, *, with_records: bool = True) -> list[int]:
    return [
        each.partition_index
        for topic in reply.responses  # type: ignore[attr-defined]
        for each in topic.partitions
        if each.acquired_records or not with_records
    ]


def size_of(harness: Harness, partition: int) -> int:
    log = harness.partitions.log("orders", partition)
    assert log is not None
    return len(log.read(0, 1_000_000, min_one_batch=True))


async def test_the_first_loaded_partition_with_records_completes_a_fetch(harness: Harness) -> None:
    for partition in range(2):
        harness.append("orders", 1, partition=partition)
    member, reply = await first_fetch(harness, "a")
    assert partitions_in(reply) == partitions_in(reply, with_records=False) == [0]
    assert partitions_in(await member.fetch()) == [1]


async def test_a_loaded_partition_without_records_completes_nothing(harness: Harness) -> None:
    harness.append("orders", 1, partition=1)
    _, reply = await first_fetch(harness, "a")
    assert (partitions_in(reply), partitions_in(reply, with_records=False)) == ([1], [0, 1])


async def test_loaded_partitions_answer_together(harness: Harness) -> None:
    await first_fetch(harness, "a")
    for partition in range(2):
        harness.append("orders", 1, partition=partition)
    _, reply = await first_fetch(harness, "b")
    assert partitions_in(reply) == [0, 1]


async def test_a_loaded_partition_completes_a_fetch_before_others_are_loaded(harness: Harness) -> None:
    await Member(harness, "a").fetch(partition=1)
    for partition in range(2):
        harness.append("orders", 1, partition=partition)
    member, reply = await first_fetch(harness, "b")
    assert partitions_in(reply) == partitions_in(reply, with_records=False) == [1]
    assert partitions_in(await member.fetch()) == [0]


@pytest.mark.parametrize(("beyond", "expected"), [(-1, [0]), (0, [0]), (1, [0, 1])])
async def test_a_loaded_partition_needs_the_least_bytes(
    harness: Harness, beyond: int, expected: list[int]
) -> None:
    for partition in range(2):
        harness.append("orders", 1, partition=partition)
    least = size_of(harness, 0) + beyond
    _, reply = await first_fetch(harness, "a", min_bytes=least)
    assert partitions_in(reply) == expected


async def test_a_loaded_partition_that_cannot_be_read_completes_a_fetch_with_its_error(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object, **_options: object) -> None:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)

    for partition in range(2):
        harness.append("orders", 1, partition=partition)
    log = harness.partitions.log("orders", 0)
    assert log is not None
    monkeypatch.setattr(type(log), "read", fail)
    member = Member(harness)
    request = member.fetch_request(min_bytes=2)
    reply = await harness.ask(request, connection=member.connection)
    assert [each.error_code for each in reply.responses[0].partitions] == [ErrorCode.KAFKA_STORAGE_ERROR]
