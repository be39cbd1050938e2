"""The partitions that the responses of a share session name, as Kafka's do."""

from collections.abc import Iterable
from typing import Any

import pytest

from broker.api.requests.outcome import Response
from broker.common.errors import ErrorCode
from broker.coordinator.share.share_partition import ShareLimits
from broker.coordinator.share.share_partitions import ShareSettings
from broker.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from broker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from broker.protocol.messages.share_fetch import FetchPartition, FetchTopic
from broker.quotas.entity import Entity
from broker.records.build import NewRecord, build_batch
from tests.api.harness import WALL_MS, Asking, Harness
from tests.coordinator.share.consumers import Member
from tests.coordinator.share.test_share_fetch_limits import set_rate

UNKNOWN = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


async def put(member: Member, partitions: Iterable[int] = (), **options: Any) -> Asking:
    request = member.fetch_request(**options)
    request.topics = [FetchTopic(member.topic_id, [FetchPartition(each) for each in partitions])]
    member.epoch += 1
    return await member.harness.put(request, connection=member.connection)


async def named(member: Member, partitions: Iterable[int] = (), **options: Any) -> dict[int, int]:
    """Return the errors of the partitions that the response names, in its order."""
    return named_in(member.harness.answer(await put(member, partitions, **options)))


def named_in(reply: Any) -> dict[int, int]:
    assert reply.error_code == 0
    return {each.partition_index: each.error_code for topic in reply.responses for each in topic.partitions}


async def test_a_partition_that_is_new_in_the_session_is_named_once(harness: Harness) -> None:
    member = Member(harness)
    assert await named(member, [0]) == {0: 0}
    assert await named(member, [0, 1]) == {1: 0}
    assert await named(member) == {}
    assert await named(member, forget=[1]) == {}
    assert await named(member, [1]) == {1: 0}


async def test_a_partition_with_an_error_is_named_until_a_response_without_one(harness: Harness) -> None:
    member = Member(harness)
    assert await named(member, [0, 2]) == {0: 0, 2: UNKNOWN}
    assert await named(member) == {2: UNKNOWN}
    await harness.ask(CreatePartitionsRequest([CreatePartitionsTopic("orders", 3)]))
    await harness.share.persister.initialize("readers", member.topic_id, 2, 0)
    assert await named(member) == {2: 0}
    assert await named(member) == {}


async def test_an_error_in_the_first_response_alone_is_not_told_again(harness: Harness) -> None:
    member = Member(harness)
    assert await named(member, [0, 2]) == {0: 0, 2: UNKNOWN}
    await harness.ask(CreatePartitionsRequest([CreatePartitionsTopic("orders", 3)]))
    await harness.share.persister.initialize("readers", member.topic_id, 2, 0)
    assert await named(member) == {}


@pytest.mark.parametrize(("held", "expected"), [(99, {0: 0, 1: 0}), (100, {1: 0}), (101, {1: 0})])
async def test_a_partition_without_a_lock_to_give_is_not_named(
    harness: Harness, held: int, expected: dict[int, int]
) -> None:
    settings = ShareSettings(limits=ShareLimits(locks=100))
    harness.share.share.settings_of = lambda _group: settings
    harness.append("orders", *range(held))
    assert len(await Member(harness, "holder").acquired()) == 1
    member = Member(harness)
    assert await named(member, [0, 1]) == expected
    assert await named(member) == {}


async def test_a_new_partition_is_named_once_it_has_a_lock_to_give(harness: Harness) -> None:
    settings = ShareSettings(limits=ShareLimits(locks=100))
    harness.share.share.settings_of = lambda _group: settings
    harness.append("orders", *range(100))
    holder, member = Member(harness, "holder"), Member(harness)
    await holder.acquired()
    assert await named(member, [1]) == {1: 0}
    assert await named(member, [0]) == {}
    assert await holder.acknowledged((0, 99, [1])) == 0
    assert await named(member) == {0: 0}
    assert await named(member) == {}


async def test_partitions_with_records_are_last_in_the_session(harness: Harness) -> None:
    member = Member(harness)
    await named(member, [0, 1])
    harness.append("orders", 1, partition=0)
    assert await named(member) == {0: 0}
    for partition in range(2):
        harness.append("orders", 1, partition=partition)
    assert list(await named(member)) == [1, 0]


async def test_a_response_without_records_because_of_a_quota_names_none(harness: Harness) -> None:
    member, other = Member(harness), Member(harness, "other")
    assert await named(member, [0, 1]) == {0: 0, 1: 0}
    log = harness.partitions.log("orders", 0)
    assert log is not None
    for _ in range(2):
        log.stage(build_batch([NewRecord(None, b"v" * 6_000, WALL_MS)]), now_wall_ms=WALL_MS)
    harness.partitions.commit()
    set_rate(harness, 1_000)
    assert await named(member, records=1) == {0: 0}
    assert await named(member, [2], records=1) == {}
    assert await named(other, [1, 0, 2]) == {}
    harness.advance(60_000)
    assert await named(member, records=1) == {0: 0, 2: UNKNOWN}


@pytest.mark.parametrize("is_throttled", [False, True])
async def test_what_the_request_quota_withholds_is_named_later(harness: Harness, is_throttled: bool) -> None:
    harness.quotas.apply(Entity(client_id="test"), "request_percentage", 2)
    throttle = harness.quotas.request.record_handled("ANONYMOUS", "test", 300_000_000, harness.clock.ms())
    assert throttle is not None
    member = Member(harness)
    await named(member, [0])
    asking = await put(member, [1])
    outcome = asking.outcome
    assert isinstance(outcome, Response) and outcome.withhold is not None
    if is_throttled:
        asking.outcome = outcome.withhold(outcome, throttle)
    assert named_in(harness.answer(asking)) == ({} if is_throttled else {1: 0})
    assert await named(member) == ({1: 0} if is_throttled else {})


@pytest.mark.parametrize("is_waiting", [False, True])
async def test_a_topic_that_is_deleted_within_the_session_was_known(
    harness: Harness, is_waiting: bool
) -> None:
    """Its partitions have another error than those of an id that never was, as in Kafka."""
    member = Member(harness)
    assert await named(member, [0, 1]) == {0: 0, 1: 0}
    delete = DeleteTopicsRequest(topics=[DeleteTopicState("orders")])
    if is_waiting:
        waiting = await put(member, wait_ms=500)
        await harness.ask(delete)
        harness.advance(500)
        harness.answer(waiting)
    else:
        await harness.ask(delete)
    for _ in range(2):
        assert await named(member) == {0: UNKNOWN, 1: UNKNOWN}
    assert await named(member, [2]) == {0: UNKNOWN, 1: UNKNOWN, 2: UNKNOWN}
    member.name, member.epoch = "b", 0
    assert await named(member, [0]) == {0: int(ErrorCode.UNKNOWN_TOPIC_ID)}
