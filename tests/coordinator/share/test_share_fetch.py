"""ShareFetch and ShareAcknowledge: sessions, waits, acknowledgements and what a member receives."""

from pathlib import Path

import pytest

from broker.api.share.acknowledgements import AT_ONCE, MOST_BATCHES, MOST_PARTITIONS
from broker.common.errors import ErrorCode
from broker.coordinator.share.persister import SHARE_STATE_TOPIC
from broker.coordinator.share.share_partition import ShareLimits
from broker.coordinator.share.share_partitions import ShareSettings
from broker.coordinator.share.states import SharePartitionKey
from broker.protocol.messages.share_acknowledge import AcknowledgementBatch as Acknowledged
from broker.protocol.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from broker.protocol.messages.share_fetch import AcknowledgementBatch, FetchPartition, FetchTopic
from tests.api.harness import Harness
from tests.api.leaving import leaving_after
from tests.coordinator.share.conftest import start
from tests.coordinator.share.consumers import Member, acquired_in, code_of, offsets_in
from tests.coordinator.share.members import ACCEPT, GAP, REJECT, RELEASE, RENEW


async def test_a_member_acquires_records_and_accepts_them(harness: Harness) -> None:
    harness.append("orders", *range(5))
    member = Member(harness)
    reply = await member.fetch()
    assert acquired_in(reply) == [(0, 4, 1)] and offsets_in(reply) == [0, 1, 2, 3, 4]
    assert reply.acquisition_lock_timeout_ms == 30_000
    assert await member.acknowledged((0, 4, [ACCEPT])) == 0
    topic_id = member.topic_id
    summary = harness.share.persister.summary("readers", topic_id, 0)
    assert summary is not None and summary.start_offset == 5
    assert await member.acquired() == []


async def test_acknowledgements_in_a_fetch_are_stored_before_its_records(harness: Harness) -> None:
    harness.append("orders", *range(3))
    harness.append("orders", *range(3))
    member = Member(harness)
    assert await member.acquired(records=1) == [(0, 2, 1)]
    reply = await member.fetch((0, 2, [ACCEPT, RELEASE, REJECT]))
    assert acquired_in(reply) == [(1, 1, 2), (3, 5, 1)]
    assert offsets_in(reply) == [0, 1, 2, 3, 4, 5]
    (partition,) = reply.responses[0].partitions
    assert partition.acknowledge_error_code == 0


async def test_the_first_response_names_all_partitions_and_later_ones_those_with_something(
    harness: Harness,
) -> None:
    member = Member(harness)
    ((partition,),) = (topic.partitions for topic in (await member.fetch()).responses)
    assert (partition.partition_index, partition.error_code, bytes(partition.records)) == (0, 0, b"")
    assert (await member.fetch()).responses == []
    harness.append("orders", *range(3))
    assert await member.acquired() == [(0, 2, 1)]
    assert (await member.fetch()).responses == []


async def test_a_response_without_records_has_empty_records(harness: Harness) -> None:
    member = Member(harness)
    await member.fetch()
    reply = await member.fetch((0, 4, [ACCEPT]))
    (partition,) = reply.responses[0].partitions
    assert partition.records == b"" and partition.acquired_records == []
    assert partition.acknowledge_error_code == ErrorCode.INVALID_RECORD_STATE


async def test_members_do_not_hold_the_same_record(harness: Harness) -> None:
    for _ in range(3):
        harness.append("orders", *range(10))
    one, two = Member(harness, "a"), Member(harness, "b")
    assert await one.acquired(records=10) == [(0, 9, 1)]
    assert await two.acquired(records=15) == [(10, 29, 1)]
    assert await one.acquired() == []
    assert await two.acknowledged((0, 9, [ACCEPT])) == ErrorCode.INVALID_RECORD_STATE


# Sessions


async def test_the_epochs_of_a_session(harness: Harness) -> None:
    member = Member(harness)
    member.epoch = 1
    assert (await member.fetch()).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert (await member.acknowledge(epoch=1)).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert (await member.acknowledge(epoch=0)).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert (await member.fetch(epoch=-1)).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    member.epoch = 0
    assert (await member.fetch()).error_code == 0
    for wrong in (2, 3, 2**31 - 1, -2):
        assert (await member.fetch(epoch=wrong)).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
        assert (await member.acknowledge(epoch=wrong)).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert (await member.fetch(epoch=1)).error_code == 0
    assert (await member.acknowledge(epoch=2)).error_code == 0


async def test_a_new_session_has_nothing_to_acknowledge(harness: Harness) -> None:
    member = Member(harness)
    assert (await member.fetch((0, 0, [ACCEPT]))).error_code == ErrorCode.INVALID_REQUEST
    member.epoch = 1
    assert (await member.fetch()).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


@pytest.mark.parametrize("field", ["group", "name"])
async def test_a_request_without_a_group_or_a_member_is_refused(harness: Harness, field: str) -> None:
    member = Member(harness)
    setattr(member, field, None)
    assert (await member.fetch()).error_code == ErrorCode.INVALID_REQUEST
    assert (await member.acknowledge()).error_code == ErrorCode.INVALID_REQUEST


async def test_the_limit_of_sessions(tmp_path: Path) -> None:
    harness = await start(tmp_path, "group.share.max.size=2", "group.share.max.share.sessions=2")
    codes = [(await Member(harness, name).fetch()).error_code for name in "abc"]
    assert codes == [0, 0, ErrorCode.SHARE_SESSION_LIMIT_REACHED]
    assert (await Member(harness, "b").fetch()).error_code == 0
    harness.close()


async def test_a_closed_session_releases_what_its_member_holds(harness: Harness) -> None:
    harness.append("orders", *range(10))
    one, two = Member(harness, "a"), Member(harness, "b")
    await one.acquired()
    await one.acknowledge((0, 3, [ACCEPT]), epoch=-1)
    assert await two.acquired() == [(4, 9, 2)]
    assert (await one.fetch()).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


async def test_a_fetch_with_the_last_epoch_closes_the_session(harness: Harness) -> None:
    harness.append("orders", *range(10))
    one, two = Member(harness, "a"), Member(harness, "b")
    await one.acquired()
    reply = await one.fetch((0, 3, [ACCEPT]), epoch=-1, wait_ms=1_000)
    assert acquired_in(reply) == []
    assert await two.acquired() == [(4, 9, 2)]


async def test_a_closed_connection_releases_what_its_members_hold(harness: Harness) -> None:
    harness.append("orders", *range(10))
    one, two = Member(harness, "a"), Member(harness, "b")
    await one.acquired()
    waiting = await two.put(wait_ms=1_000)
    assert waiting.outcome is None
    harness.share.disconnected("another connection")
    harness.advance(0)
    assert waiting.outcome is None
    harness.share.disconnected(one.connection.id)
    harness.advance(0)
    assert acquired_in(harness.answer(waiting)) == [(0, 9, 2)]
    assert (await one.fetch()).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


async def test_a_waiting_fetch_of_the_closed_connection_acquires_nothing(harness: Harness) -> None:
    member = Member(harness)
    waiting = await member.put(wait_ms=1_000)
    member.connection.closed = True
    harness.append("orders", 1)
    log = harness.partitions.log("orders", 0)
    harness.fetches.complete(log)
    harness.deliver()
    assert waiting.outcome is None
    assert await Member(harness, "b").acquired() == [(0, 0, 1)]


async def test_a_fetch_whose_connection_closes_after_its_wait_acquires_nothing(harness: Harness) -> None:
    """Between the end of the wait and the turn in which a handler makes the response."""
    member = Member(harness)
    waiting = await member.put(wait_ms=1_000)
    harness.clock.now_ms += 1_000
    harness.fetches.share.complete_expired(harness.clock.ms())
    member.connection.closed = True
    harness.share.disconnected(member.connection.id)
    harness.append("orders", 1)
    harness.deliver()
    assert acquired_in(harness.answer(waiting)) == []
    assert await Member(harness, "b").acquired() == [(0, 0, 1)]


async def test_a_forgotten_partition_is_not_fetched(harness: Harness) -> None:
    harness.append("orders", *range(3))
    harness.append("orders", *range(3))
    member = Member(harness)
    assert await member.acquired(records=1) == [(0, 2, 1)]
    assert await member.acquired(forget=[0]) == []
    assert await member.acknowledged((0, 2, [ACCEPT])) == 0


# Waits


async def test_a_fetch_waits_for_an_append(harness: Harness) -> None:
    one, two = Member(harness, "a"), Member(harness, "b")
    first, second = await one.put(wait_ms=500), await two.put(wait_ms=500)
    harness.append("orders", *range(3))
    harness.fetches.complete(harness.partitions.log("orders", 0))
    harness.deliver()
    assert acquired_in(harness.answer(first)) == [(0, 2, 1)]
    assert second.outcome is None
    harness.advance(499)
    assert second.outcome is None
    harness.advance(1)
    assert acquired_in(harness.answer(second)) == []


async def test_a_fetch_waits_for_as_many_bytes_as_it_asks_for(harness: Harness) -> None:
    harness.append("orders", 1)
    size = harness.partitions.log("orders", 0).size  # type: ignore[union-attr]
    member = Member(harness)
    waiting = await member.put(wait_ms=500, min_bytes=2 * size)
    assert waiting.outcome is None
    harness.append("orders", 1)
    harness.fetches.complete(harness.partitions.log("orders", 0))
    harness.deliver()
    assert acquired_in(harness.answer(waiting)) == [(0, 1, 1)]
    harness.append("orders", 1)
    late = await member.put(wait_ms=500, min_bytes=2 * size)
    harness.advance(500)
    assert acquired_in(harness.answer(late)) == [(2, 2, 1)]


@pytest.mark.parametrize("how", ["release", "limit"])
async def test_a_fetch_waits_for_an_acknowledgement(tmp_path: Path, how: str) -> None:
    """For one that releases records, and for one that makes room for others."""
    harness = await start(tmp_path, "group.share.partition.max.record.locks=100")
    for _ in range(2):
        harness.append("orders", *range(100))
    one, two = Member(harness, "a"), Member(harness, "b")
    assert await one.acquired() == [(0, 99, 1)]
    waiting = await two.put(wait_ms=500)
    assert waiting.outcome is None
    await one.acknowledged((0, 99, [RELEASE if how == "release" else ACCEPT]))
    expected = [(0, 99, 2)] if how == "release" else [(100, 199, 1)]
    assert acquired_in(harness.answer(waiting)) == expected
    harness.close()


async def test_a_fetch_waits_for_the_end_of_a_lock(harness: Harness) -> None:
    harness.append("orders", *range(3))
    one, two = Member(harness, "a"), Member(harness, "b")
    await one.acquired()
    waiting = await two.put(wait_ms=60_000)
    harness.advance(29_999)
    assert waiting.outcome is None
    assert await one.acknowledged((0, 0, [ACCEPT])) == 0
    harness.advance(1)
    assert acquired_in(harness.answer(waiting)) == [(1, 2, 2)]
    assert await one.acknowledged((1, 2, [ACCEPT])) == ErrorCode.INVALID_RECORD_STATE


@pytest.mark.parametrize("limit", [2, 3])
async def test_locks_end_until_the_delivery_limit(tmp_path: Path, limit: int) -> None:
    harness = await start(tmp_path, f"group.share.delivery.count.limit={limit}")
    harness.append("orders", 1)
    member = Member(harness)
    for count in range(1, limit + 1):
        assert await member.acquired() == [(0, 0, count)]
        harness.advance(30_000)
    assert await member.acquired() == []
    harness.close()


@pytest.mark.parametrize("by", ["fetch", "acknowledge"])
async def test_a_renewed_lock_ends_later(harness: Harness, by: str) -> None:
    harness.append("orders", *range(4))
    member = Member(harness)
    await member.acquired()
    harness.advance(29_999)
    renewed = ((0, 1, [RENEW]), (2, 2, [ACCEPT]))
    if by == "fetch":
        reply = await member.renew(*renewed)
        (partition,) = reply.responses[0].partitions
        assert partition.acknowledge_error_code == 0
        assert partition.acquired_records == [] and partition.records == b""
    else:
        reply = await member.acknowledge(*renewed, renews=True)
        assert code_of(reply) == 0
    assert reply.acquisition_lock_timeout_ms == 30_000
    harness.advance(1)
    other = Member(harness, "b")
    assert await other.acquired() == [(3, 3, 2)]
    harness.advance(29_998)
    assert await other.acquired() == []
    harness.advance(1)
    assert await other.acquired() == [(0, 1, 2)]


@pytest.mark.parametrize("limit", ["records", "min_bytes", "max_bytes", "wait_ms"])
async def test_a_request_that_renews_locks_cannot_fetch(harness: Harness, limit: str) -> None:
    harness.append("orders", *range(4))
    member = Member(harness)
    await member.acquired()
    refused = await member.renew((0, 3, [RENEW]), **{limit: 1})
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert (await member.renew((0, 3, [RENEW]))).error_code == 0


async def test_a_lock_is_only_renewed_by_a_request_that_says_so(harness: Harness) -> None:
    harness.append("orders", *range(4))
    member = Member(harness)
    await member.acquired()
    assert await member.acknowledged((0, 3, [RENEW])) == ErrorCode.INVALID_REQUEST
    assert code_of(await member.acknowledge((0, 3, [5]), renews=True)) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("mode", "acquired"), [(0, [(0, 3, 1)]), (1, [(0, 2, 1)])])
async def test_the_acquire_mode_decides_whether_batches_stay_whole(
    harness: Harness, mode: int, acquired: list[tuple[int, int, int]]
) -> None:
    harness.append("orders", *range(4))
    reply = await Member(harness).fetch(records=3, acquire_mode=mode)
    assert acquired_in(reply) == acquired and offsets_in(reply) == [0, 1, 2, 3]


@pytest.mark.parametrize("mode", [-1, 2])
async def test_an_unknown_acquire_mode_is_refused(harness: Harness, mode: int) -> None:
    assert (await Member(harness).fetch(acquire_mode=mode)).error_code == ErrorCode.INVALID_REQUEST


async def test_a_session_without_partitions_waits(harness: Harness) -> None:
    member = Member(harness)
    await member.fetch()
    waiting = await member.put(wait_ms=500, forget=[0])
    assert waiting.outcome is None
    harness.advance(500)
    assert harness.answer(waiting).responses == []


# Partitions that cannot be fetched


async def test_unknown_partitions_and_groups(harness: Harness) -> None:
    member = Member(harness)
    reply = await member.fetch(partition=2, wait_ms=500)
    assert reply.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    other = Member(harness, "b", "others")
    reply = await other.fetch(wait_ms=500)
    assert reply.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    lost = Member(harness, "c")
    lost.topic_id = bytes(range(16))
    reply = await lost.fetch(wait_ms=500)
    assert reply.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert code_of(await lost.acknowledge((0, 0, [ACCEPT]))) == ErrorCode.UNKNOWN_TOPIC_ID


async def test_a_new_state_ends_a_wait_and_starts_anew(harness: Harness) -> None:
    harness.append("orders", *range(10))
    member = Member(harness)
    assert await member.acquired() == [(0, 9, 1)]
    waiting = await member.put(wait_ms=500)
    await harness.share.persister.initialize("readers", member.topic_id, 0, 4)
    harness.deliver()
    assert acquired_in(harness.answer(waiting)) == []
    assert await member.acknowledged((0, 9, [ACCEPT])) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await member.acquired() == [(4, 9, 1)]


async def test_deleted_records_are_not_delivered(harness: Harness) -> None:
    harness.append("orders", *range(5))
    harness.append("orders", *range(5))
    log = harness.partitions.log("orders", 0)
    assert log is not None
    log.delete_records_before(5)
    member = Member(harness)
    assert await member.acquired() == [(5, 9, 1)]
    log.delete_records_before(8)
    assert await member.acquired() == []
    assert await member.acknowledged((5, 9, [RELEASE])) == 0
    assert await member.acquired() == [(8, 9, 2)]


# Hostile acknowledgements


@pytest.mark.parametrize(
    ("acks", "error"),
    [
        ([(5, 3, [ACCEPT])], ErrorCode.INVALID_REQUEST),
        ([(0, 3, [ACCEPT, ACCEPT])], ErrorCode.INVALID_REQUEST),
        ([(0, 3, [])], ErrorCode.INVALID_REQUEST),
        ([(0, 3, [4])], ErrorCode.INVALID_REQUEST),
        ([(0, 3, [-1])], ErrorCode.INVALID_REQUEST),
        ([(4, 6, [ACCEPT]), (0, 3, [ACCEPT])], ErrorCode.INVALID_REQUEST),
        ([(0, 5, [ACCEPT]), (5, 9, [ACCEPT])], ErrorCode.INVALID_RECORD_STATE),
        ([(0, 10, [ACCEPT])], ErrorCode.INVALID_REQUEST),
        ([(0, 2**63 - 1, [ACCEPT])], ErrorCode.INVALID_REQUEST),
        ([(-(2**63), 2**63 - 1, [ACCEPT])], ErrorCode.INVALID_REQUEST),
    ],
)
async def test_an_impossible_acknowledgement_changes_nothing(
    harness: Harness, acks: list[tuple[int, int, list[int]]], error: ErrorCode
) -> None:
    harness.append("orders", *range(10))
    member = Member(harness)
    await member.acquired()
    state = harness.partitions.log(SHARE_STATE_TOPIC, 0)
    assert state is not None
    end = state.high_watermark
    assert await member.acknowledged(*acks) == error
    assert state.high_watermark == end
    assert await member.acknowledged((0, 9, [ACCEPT] * 5 + [GAP] * 5)) == 0


@pytest.mark.parametrize("more", [-1, 0, 1])
async def test_the_partitions_that_one_request_names(harness: Harness, more: int) -> None:
    member = Member(harness)
    request = member.fetch_request()
    request.topics[0].partitions = [FetchPartition(index) for index in range(MOST_PARTITIONS + more)]
    reply = await harness.ask(request, connection=member.connection)
    assert reply.error_code == (ErrorCode.INVALID_REQUEST if more > 0 else ErrorCode.NONE)
    assert len(reply.responses) == (0 if more > 0 else 1)


@pytest.mark.parametrize("more", [-1, 0, 1])
async def test_the_batches_that_one_request_acknowledges(tmp_path: Path, more: int) -> None:
    harness = await start(tmp_path, "group.share.partition.max.record.locks=3000")
    for _ in range(3):
        harness.append("orders", *range(1_000))
    member = Member(harness)
    await member.acquired(records=3_000)
    acks = [(offset, offset, [ACCEPT]) for offset in range(MOST_BATCHES + more)]
    code = await member.acknowledged(*acks)
    assert code == (ErrorCode.INVALID_REQUEST if more > 0 else ErrorCode.NONE)
    share = harness.share.share.get(SharePartitionKey("readers", member.topic_id, 0))
    assert share is not None and share.start_offset == (0 if more > 0 else len(acks))
    harness.close()


@pytest.mark.parametrize("count", [AT_ONCE - 1, AT_ONCE, AT_ONCE + 1])
async def test_acknowledgements_of_many_partitions_are_stored(tmp_path: Path, count: int) -> None:
    """More than AT_ONCE are written in several commits."""
    harness = Harness(tmp_path, "share.coordinator.state.topic.num.partitions=1")
    await harness.create_topic("orders", partitions=count)
    member = Member(harness)
    for partition in range(count):
        await harness.share.persister.initialize("readers", member.topic_id, partition, 0)
        harness.append("orders", 1, partition=partition)
    request = member.fetch_request(min_bytes=1_000_000)  # so it needs all partitions
    request.topics[0].partitions = [FetchPartition(index) for index in range(count)]
    reply = await harness.ask(request, connection=member.connection)
    assert len(acquired_in(reply)) == count
    member.epoch = 1
    request = member.fetch_request()
    acked = [AcknowledgementBatch(0, 0, [ACCEPT])]
    request.topics = [FetchTopic(member.topic_id, [FetchPartition(index, acked) for index in range(count)])]
    reply = await harness.ask(request, connection=member.connection)
    codes = [each.acknowledge_error_code for each in reply.responses[0].partitions]
    assert codes == [0] * count
    summaries = [harness.share.persister.summary("readers", member.topic_id, index) for index in range(count)]
    assert {each.start_offset for each in summaries if each is not None} == {1}
    harness.close()


# Durability


async def test_a_restart_redelivers_what_was_not_acknowledged(tmp_path: Path) -> None:
    harness = await start(tmp_path)
    harness.append("orders", *range(10))
    member = Member(harness)
    await member.acquired()
    await member.acknowledged((0, 5, [ACCEPT, RELEASE, RELEASE, ACCEPT, REJECT, ACCEPT]))
    harness.close()
    harness = await start(tmp_path)
    assert await Member(harness, "b").acquired() == [(1, 2, 2), (6, 9, 1)]
    harness.close()


@pytest.mark.parametrize(("reset", "first"), [("latest", 10), ("earliest", 0), ("by_duration:PT1H", 5)])
async def test_the_offset_reset_of_a_group(tmp_path: Path, reset: str, first: int) -> None:
    harness = await start(tmp_path)
    wall_ms = harness.clock.wall_ms()
    harness.append("orders", *[wall_ms - 3_600_001] * 5)
    harness.append("orders", *[wall_ms - 3_600_000] * 5)
    topic_id = harness.partitions.by_name["orders"].topic_id
    await harness.share.persister.initialize("others", topic_id, 0, -1)
    settings = harness.share.share.settings_of("others")._replace(auto_offset_reset=reset)
    harness.share.share.settings_of = lambda _group: settings
    member = Member(harness, group="others")
    await member.acquired(records=1)
    summary = harness.share.persister.summary("others", topic_id, 0)
    assert summary is not None and summary.start_offset == first
    harness.append("orders", wall_ms)
    harness.close()
    harness = await start(tmp_path)
    acquired = await Member(harness, group="others").acquired()
    assert (acquired[0][0], acquired[-1][1]) == (first, 10)
    harness.close()


@pytest.mark.parametrize("epoch", [None, -1])
async def test_a_client_that_goes_away_in_any_pause_leaves_records_to_others(
    harness: Harness, epoch: int | None
) -> None:
    """Also one that closes its session, which releases what it holds."""
    pauses = 0
    while True:
        start = harness.append("orders", *range(4))
        one, two = Member(harness, f"a-{pauses}"), Member(harness, f"b-{pauses}")
        assert await one.acquired() == [(start, start + 3, 1)]
        acks = [Acknowledged(start, start + 1, [ACCEPT])]
        unknown = AcknowledgePartition(99, acks)
        topic = AcknowledgeTopic(one.topic_id, [unknown, AcknowledgePartition(0, acks), unknown])
        request = ShareAcknowledgeRequest(one.group, one.name, epoch or one.epoch, topics=[topic])
        with leaving_after(pauses) as gone:
            await harness.put(request, connection=one.connection)
        harness.advance(30_000)
        ((first, last, _),) = await two.acquired()
        assert first == (start if gone else start + 2) and last == start + 3
        assert await two.acknowledged((first, last, [ACCEPT])) == 0
        if not gone:
            break
        pauses += 1
    assert pauses > 0


@pytest.mark.parametrize("by", ["fetch", "acknowledge"])
async def test_a_group_can_forbid_renewals(harness: Harness, by: str) -> None:
    harness.append("orders", *range(4))
    member = Member(harness)
    assert await member.acquired() == [(0, 3, 1)]
    harness.share.share.settings_of = lambda _group: ShareSettings(renews=False)
    renewed = ((0, 1, [ACCEPT]), (2, 3, [RENEW]))
    if by == "fetch":
        (partition,) = (await member.renew(*renewed)).responses[0].partitions
        assert partition.acknowledge_error_code == ErrorCode.INVALID_RECORD_STATE
    else:
        refused = await member.acknowledge(*renewed, renews=True)
        assert code_of(refused) == ErrorCode.INVALID_RECORD_STATE
    assert code_of(await member.acknowledge((0, 3, [ACCEPT]), renews=True)) == 0


async def test_new_limits_of_a_group_count_at_once(harness: Harness) -> None:
    """As in Kafka: a change applies to the records that are in flight."""
    harness.append("orders", 1)
    member = Member(harness)
    assert await member.acquired() == [(0, 0, 1)]
    harness.share.share.settings_of = lambda _group: ShareSettings(limits=ShareLimits(deliveries=2))
    assert await member.acquired((0, 0, [RELEASE])) == [(0, 0, 2)]
    assert await member.acquired((0, 0, [RELEASE])) == []
    harness.share.share.settings_of = lambda _group: ShareSettings(limits=ShareLimits(locks=100))
    for _ in range(101):
        harness.append("orders", 1)
    assert sum(last - first + 1 for first, last, _ in await member.acquired()) == 100
