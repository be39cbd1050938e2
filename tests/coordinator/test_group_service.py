"""The group coordinator with its log: written records survive, failed writes are rolled back."""

from pathlib import Path
from typing import Final

import pytest

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import run_through
from broker.coordinator import offsets_log
from broker.coordinator.group.messages import DeleteReply, Effects
from broker.coordinator.group.records import decode_offset_value, encode_offset_key
from broker.coordinator.offsets_log import OffsetsLog
from broker.coordinator.topic_logs import coordinator_partition
from broker.log import disk
from broker.log.partition import PartitionLog
from broker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from broker.protocol.messages.delete_groups import DeleteGroupsRequest
from broker.protocol.messages.describe_groups import DescribeGroupsRequest
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest
from broker.protocol.messages.init_producer_id import InitProducerIdRequest
from broker.protocol.messages.list_groups import ListGroupsRequest
from broker.protocol.messages.offset_commit import OffsetCommitRequestPartition
from broker.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from broker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from broker.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from broker.records.build import NewRecord, build_batch
from tests.api.group import (
    GROUP,
    INITIAL_DELAY_MS,
    REBALANCE_MS,
    SESSION_MS,
    begin_join,
    commit,
    commit_request,
    committed,
    find_coordinator,
    heartbeat,
    stable_member,
    sync_request,
)
from tests.api.harness import WALL_MS, Harness
from tests.api.transacting import TransactionalProducer

OFFSETS = "__consumer_offsets"
CONSUMER_SESSION_MS = 45_000


@pytest.fixture
async def ready(harness: Harness) -> Harness:
    await harness.create_topic("orders", 2)
    await find_coordinator(harness)
    return harness


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail every append until the test ends it with `monkeypatch.undo()`."""

    monkeypatch.setattr(disk, "write_at", refuse)


def refuse(*_: object) -> None:
    raise OSError(28, "No space left on device")


def reopened(harness: Harness, directory: Path, *overrides: str) -> Harness:
    harness.close()
    return Harness(directory, *overrides)


async def test_offsets_members_and_assignments_survive_a_restart(ready: Harness, tmp_path: Path) -> None:
    member_id, generation = await stable_member(ready)
    await commit(ready, 42, member_id=member_id, generation=generation, metadata="note")
    after = reopened(ready, tmp_path)
    assert await committed(after) == 42
    assert await heartbeat(after, member_id, generation) == ErrorCode.NONE
    (group,) = (await after.ask(DescribeGroupsRequest([GROUP]))).groups
    assert (group.group_state, bytes(group.members[0].member_assignment)) == ("Stable", b"all")
    after.close()


async def test_a_member_that_does_not_come_back_after_a_restart_is_gone_in_one_session(
    ready: Harness, tmp_path: Path
) -> None:
    member_id, generation = await stable_member(ready)
    after = reopened(ready, tmp_path)
    after.advance(SESSION_MS - 1)
    assert (await after.ask(ListGroupsRequest())).groups[0].group_state == "Stable"
    after.advance(1)
    assert (await after.ask(ListGroupsRequest())).groups[0].group_state == "Empty"
    assert await heartbeat(after, member_id, generation) == ErrorCode.UNKNOWN_MEMBER_ID
    after.close()


async def test_deleted_groups_stay_deleted(ready: Harness, tmp_path: Path) -> None:
    await commit(ready, 1)
    await commit(ready, 2, group="other")
    await ready.ask(DeleteGroupsRequest([GROUP]))
    after = reopened(ready, tmp_path)
    assert [group.group_id for group in (await after.ask(ListGroupsRequest())).groups] == ["other"]
    after.close()


async def all_committed(harness: Harness) -> dict[tuple[str, int], int]:
    (answer,) = (
        await harness.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(GROUP, topics=None)]))
    ).groups
    return {
        (topic.name, each.partition_index): each.committed_offset
        for topic in answer.topics
        for each in topic.partitions
    }


async def test_an_offset_counts_once_its_record_is_written(ready: Harness) -> None:
    asking = await ready.stage(commit_request(7))
    assert (await committed(ready), await all_committed(ready)) == (-1, {})
    ready.deliver([asking])
    assert (await committed(ready), await all_committed(ready)) == (7, {("orders", 0): 7})
    await commit(ready, 1, partition=1)
    later = [await ready.stage(commit_request(offset)) for offset in (8, 9)]
    assert await all_committed(ready) == {("orders", 0): 7, ("orders", 1): 1}
    ready.deliver(later)
    assert await all_committed(ready) == {("orders", 0): 9, ("orders", 1): 1}


async def test_an_offset_counts_until_its_tombstone_is_written(ready: Harness) -> None:
    await commit(ready, 7)
    topics = [OffsetDeleteRequestTopic("orders", [OffsetDeleteRequestPartition(0)])]
    asking = await ready.stage(OffsetDeleteRequest(GROUP, topics))
    assert (await committed(ready), await all_committed(ready)) == (7, {("orders", 0): 7})
    ready.deliver([asking])
    assert (await committed(ready), await all_committed(ready)) == (-1, {})


async def test_answers_leave_after_the_commit_and_not_before(ready: Harness) -> None:
    log = ready.partitions.log(OFFSETS, 0)
    assert log is not None
    before = log.high_watermark
    asking = await ready.stage(commit_request(7))
    assert log.high_watermark == before
    ready.deliver([asking])
    assert log.high_watermark == before + 1
    assert ready.answer(asking).topics[0].partitions[0].error_code == ErrorCode.NONE


async def test_a_commit_that_cannot_be_written_is_not_there(
    ready: Harness, full_disk: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await commit(ready, 7) == ErrorCode.NOT_COORDINATOR
    assert await committed(ready) == -1
    monkeypatch.undo()
    assert await commit(ready, 8) == ErrorCode.NONE
    assert await committed(ready) == 8


async def test_of_two_commits_that_fail_together_neither_is_left(ready: Harness, full_disk: None) -> None:
    """Each overwrote the previous offset; only a rollback in reverse order restores the first."""
    batch = [await ready.stage(commit_request(7)), await ready.stage(commit_request(8))]
    ready.deliver(batch)
    errors = [ready.answer(each).topics[0].partitions[0].error_code for each in batch]
    assert errors == [ErrorCode.NOT_COORDINATOR] * 2
    assert await committed(ready) == -1


async def test_an_assignment_that_cannot_be_written_is_refused_to_all_members(
    ready: Harness, full_disk: None
) -> None:
    (first, one), (second, two) = await begin_join(ready), await begin_join(ready)
    ready.advance(2 * INITIAL_DELAY_MS)
    leader = ready.answer(one).leader
    follower = second if leader == first else first
    waiting = await ready.put(sync_request(1, follower))
    led = await ready.ask(sync_request(1, leader, {leader: b"a", follower: b"b"}))
    assert led.error_code == ready.answer(waiting).error_code == ErrorCode.NOT_COORDINATOR
    assert await heartbeat(ready, follower, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert ready.answer(two).error_code == ErrorCode.NONE


async def test_a_record_too_large_for_a_batch_is_refused_and_nothing_else(tmp_path: Path) -> None:
    harness = Harness(tmp_path, "message.max.bytes=300")
    await harness.create_topic("orders")
    await find_coordinator(harness)
    assert await commit(harness, 1, metadata="x" * 300) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert await commit(harness, 2) == ErrorCode.NONE
    assert await committed(harness) == 2
    harness.close()


async def test_groups_are_spread_as_kafka_spreads_them_and_found_again(tmp_path: Path) -> None:
    harness = Harness(tmp_path, "offsets.topic.num.partitions=7")
    await harness.create_topic("orders")
    await find_coordinator(harness)
    names = [f"group-{number}" for number in range(30)]
    for number, name in enumerate(names):
        await commit(harness, number, group=name)
    offsets = harness.partitions.by_name[OFFSETS]
    logs = [offsets.log(index) for index in range(offsets.count)]
    ends = [log.high_watermark for log in logs if log is not None]
    expected = [0] * 7
    for name in names:
        expected[coordinator_partition(name, 7)] += 1
    assert ends == expected and min(expected) > 0
    await harness.ask(DeleteGroupsRequest(names[::2]))
    after = reopened(harness, tmp_path)
    assert [await committed(after, group=name) for name in names] == [
        -1 if number % 2 == 0 else number for number in range(30)
    ]
    after.close()


async def test_an_unreadable_record_is_skipped(
    ready: Harness, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await commit(ready, 1)
    log = ready.partitions.log(OFFSETS, 0)
    assert log is not None
    for key, value in ((b"\0\1\0\xffshort", b"x"), (b"\0\x63", b"of another kind"), (b"", b"x")):
        log.stage(build_batch([NewRecord(key, value, WALL_MS)]), now_wall_ms=WALL_MS, internal=True)
    ready.partitions.commit()
    after = reopened(ready, tmp_path)
    assert await committed(after) == 1
    assert len([record for record in caplog.records if "unreadable record" in record.message]) == 2
    after.close()


async def test_offsets_that_cannot_be_read_are_not_said_to_be_none(
    ready: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await commit(ready, 42)
    ready.close()

    def refuse(*_: object, **__: object) -> None:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(PartitionLog, "read", refuse)
        broken = Harness(tmp_path)
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(GROUP)])
    assert (await broken.ask(request)).groups[0].error_code == ErrorCode.NOT_COORDINATOR
    found = await broken.ask(FindCoordinatorRequest(coordinator_keys=[GROUP]))
    assert found.coordinators[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert await commit(broken, 43) == ErrorCode.NOT_COORDINATOR
    after = reopened(broken, tmp_path)
    assert await committed(after) == 42
    after.close()


async def test_a_damaged_end_of_the_offsets_does_not_hold_up_the_start(
    ready: Harness, tmp_path: Path
) -> None:
    await commit(ready, 1)
    await commit(ready, 2)
    ready.close()
    path = tmp_path / f"{OFFSETS}-0" / "00000000000000000000.log"
    content = bytearray(path.read_bytes())
    content[-5] ^= 0x10
    path.write_bytes(content)
    after = Harness(tmp_path)
    assert await committed(after) == 1
    after.close()


async def test_lag_is_what_lies_behind_the_committed_offsets(ready: Harness) -> None:
    ready.append("orders", 1, 2, 3)
    ready.append("orders", 1, partition=1)
    assert run_through(ready.groups.lag(GROUP)) == (0, 0)
    await commit(ready, 1)
    assert run_through(ready.groups.lag(GROUP)) == (2, 0)
    await commit(ready, 0, partition=1)
    assert run_through(ready.groups.lag(GROUP)) == (3, 0)
    await commit(ready, 9)
    assert run_through(ready.groups.lag(GROUP)) == (1, 0)


@pytest.mark.parametrize(("start", "lost"), [(1, 0), (2, 1), (3, 2)])
async def test_what_the_log_deleted_before_it_was_read_is_lost(ready: Harness, start: int, lost: int) -> None:
    ready.append("orders", 1, 2, 3)
    await commit(ready, 1)
    log = ready.partitions.log("orders", 0)
    assert log is not None
    log.delete_records_before(start)
    assert run_through(ready.groups.lag(GROUP)) == (2, lost)


@pytest.mark.parametrize(
    ("key", "hash_code"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99_162_322),
        ("console-consumer-1", None),
        ("\U0001f600", 1_772_899),
        ("polygenelubricants", -(2**31)),
        ("f5a5a608", 0),
    ],
)
def test_a_key_goes_where_java_puts_it(key: str, hash_code: int | None) -> None:
    if hash_code is None:
        hash_code = 0
        for unit in key:
            hash_code = (31 * hash_code + ord(unit) + 2**31) % 2**32 - 2**31
    expected = 0 if hash_code == -(2**31) else abs(hash_code)
    for count in (1, 2, 50, 2**31 - 1):
        assert coordinator_partition(key, count) == expected % count


def stored(harness: Harness, topic: str) -> dict[bytes, bytes]:
    """What a restart would find. Flushes, so that a rewrite can end and the next one begin."""
    log = harness.partitions.log(topic, 0)
    assert log is not None
    chore = log.flush(0)
    chore.run()
    chore.finish()
    read = OffsetsLog(log)
    read.read()
    return read.values


async def test_a_rewrite_waits_for_commits_that_are_written_together(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The value before one of them, written again after it, would count after a restart."""
    monkeypatch.setattr(offsets_log, "SPARE", 1)
    again = reopened(harness, tmp_path)
    await again.create_topic("orders", 2)
    await find_coordinator(again)
    for number in range(1, 20):
        batch = [await again.stage(commit_request(number, group=each)) for each in ("other", GROUP)]
        again.deliver(batch)
        again.advance(1)
        (found,) = {decode_offset_value(each).offset for each in stored(again, OFFSETS).values()}
        assert found == number
    log = again.partitions.log(OFFSETS, 0)
    assert log is not None and log.log_start_offset > 0, "values were written again"
    again.close()


async def test_so_does_one_of_transactions(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offsets_log, "SPARE", 1)
    again = reopened(harness, tmp_path)
    producers = [await TransactionalProducer(again, each).begin() for each in ("t", "u")]
    for _ in range(19):
        requests = [InitProducerIdRequest(each.transactional_id, 60_000) for each in producers]
        again.deliver([await again.stage(each) for each in requests])
        again.advance(1)
        (service,) = again.transactions._logs.by_index.values()
        assert stored(again, "__transaction_state") == service.values
    log = again.partitions.log("__transaction_state", 0)
    assert log is not None and log.log_start_offset > 0, "values were written again"
    again.close()


LATER: Final = {
    "commit": (lambda: commit_request(7), 7),
    "OffsetDelete": (
        lambda: OffsetDeleteRequest(
            GROUP, [OffsetDeleteRequestTopic("orders", [OffsetDeleteRequestPartition(0)])]
        ),
        -1,
    ),
    "DeleteGroups": (lambda: DeleteGroupsRequest([GROUP]), -1),
}


@pytest.mark.parametrize("later", LATER)
async def test_a_marker_does_not_undo_what_is_written_after_it(
    ready: Harness, tmp_path: Path, later: str
) -> None:
    """Both are in one commit: the later one has changed the offset before the marker takes effect."""
    request, expected = LATER[later]
    producer = await TransactionalProducer(ready).begin()
    await commit(ready, 3)
    assert await producer.commit_offset(GROUP, 5, topic="orders") == 0
    topics = [WritableTxnMarkerTopic(OFFSETS, [0])]
    marker = WriteTxnMarkersRequest(
        [WritableTxnMarker(producer.producer_id, producer.epoch, True, topics, 0)]
    )
    batch = [await ready.stage(marker), await ready.stage(request())]
    ready.deliver(batch)
    assert ready.answer(batch[0]).markers[0].topics[0].partitions[0].error_code == 0
    assert await committed(ready) == expected
    again = reopened(ready, tmp_path)
    assert await committed(again) == expected
    again.close()


async def test_a_later_change_that_fails_leaves_the_offset_of_the_marker(
    ready: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = await TransactionalProducer(ready).begin()
    await commit(ready, 3)
    assert await producer.commit_offset(GROUP, 5, topic="orders") == 0
    topics = [WritableTxnMarkerTopic(OFFSETS, [0])]
    marker = WriteTxnMarkersRequest(
        [WritableTxnMarker(producer.producer_id, producer.epoch, True, topics, 0)]
    )
    first = await ready.stage(marker)
    ready.partitions.commit()
    batch = [first, await ready.stage(commit_request(7))]
    monkeypatch.setattr(disk, "write_at", refuse)
    ready.deliver(batch)
    monkeypatch.undo()
    assert ready.answer(batch[1]).topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
    assert await committed(ready) == 5


@pytest.mark.parametrize("version", [2, 4])
async def test_a_retention_time_without_end_is_kept(ready: Harness, tmp_path: Path, version: int) -> None:
    """The sum of it and the time of the commit does not fit the record."""
    for offset, retention_ms in ((5, 2**63 - 1), (6, 2**63 - 1 - WALL_MS)):
        request = commit_request(offset)
        request.retention_time_ms = retention_ms
        reply = await ready.ask(request, version)
        assert reply.topics[0].partitions[0].error_code == ErrorCode.NONE
        assert await committed(ready) == offset
    again = reopened(ready, tmp_path)
    assert await committed(again) == 6
    again.close()


async def on_two_logs(tmp_path: Path) -> Harness:
    """Groups "a" and "b" with an offset each; the log of "b" is offline."""
    harness = Harness(tmp_path, "offsets.topic.num.partitions=2")
    await harness.create_topic("orders")
    await find_coordinator(harness)
    assert [coordinator_partition(each, 2) for each in "ab"] == [1, 0]
    for group in "ab":
        await commit(harness, 7, group=group)
    log = harness.partitions.log(OFFSETS, 0)
    assert log is not None
    log.go_offline(OSError(5, "Input/output error"))
    return harness


async def test_a_call_is_written_to_all_of_its_logs_or_to_none(tmp_path: Path) -> None:
    """Else the groups of one log would come back as they were only until a restart."""
    harness = await on_two_logs(tmp_path)
    service = harness.groups
    writing = service.write(service.coordinator.delete(["a", "b"], "token", harness.now), harness.now)
    harness.partitions.commit()
    ((_, reply),) = service.settle(writing, harness.now).replies
    assert reply == DeleteReply((ErrorCode.NOT_COORDINATOR,) * 2)
    assert [await committed(harness, group=each) for each in "ab"] == [7, 7]
    again = reopened(harness, tmp_path)
    assert [await committed(again, group=each) for each in "ab"] == [7, 7]
    again.close()


async def test_a_group_of_an_offline_log_does_not_keep_others(tmp_path: Path) -> None:
    harness = await on_two_logs(tmp_path)
    answers = (await harness.ask(DeleteGroupsRequest(["a", "b"]))).results
    found = {each.group_id: each.error_code for each in answers}
    assert found == {"a": ErrorCode.NONE, "b": ErrorCode.NOT_COORDINATOR}
    assert [await committed(harness, group=each) for each in "ab"] == [-1, 7]
    harness.close()


async def test_so_it_is_if_a_record_is_too_large(ready: Harness, tmp_path: Path) -> None:
    """Of the batches of a call, the second one is."""
    log = ready.partitions.log(OFFSETS, 0)
    assert log is not None
    most = log.settings.max_message_bytes
    end = log.high_watermark
    too_large = (encode_offset_key(GROUP, "orders", 1), bytes(most - 80))
    effects = Effects(records=[(encode_offset_key(GROUP, "orders", 0), b"a"), too_large])
    writing = ready.groups.write(effects, ready.now)
    ready.partitions.commit()
    ready.groups.settle(writing, ready.now)
    assert log.high_watermark == end


async def test_the_limit_of_records_is_none_of_the_coordinator(tmp_path: Path) -> None:
    """message.max.records limits the batches of producers; a commit of all offsets is one batch."""
    harness = Harness(tmp_path, "message.max.records=1")
    await harness.create_topic("orders", 2)
    await find_coordinator(harness)
    request = commit_request(7)
    request.topics[0].partitions.append(OffsetCommitRequestPartition(1, 8, -1, None))
    reply = await harness.ask(request)
    assert [each.error_code for each in reply.topics[0].partitions] == [ErrorCode.NONE] * 2
    assert await committed(harness, partition=1) == 8
    harness.close()


async def test_the_groups_of_an_offline_log_do_not_hold_up_others(tmp_path: Path) -> None:
    """The sessions of both members end at the same time, and one end cannot be written."""
    harness = Harness(tmp_path, "offsets.topic.num.partitions=2")
    await harness.create_topic("orders")
    await find_coordinator(harness)
    groups = ["a", "b"]
    assert [coordinator_partition(each, 2) for each in groups] == [1, 0]
    for group in groups:
        reply = await harness.ask(
            ConsumerGroupHeartbeatRequest(
                group, "member", 0, None, None, REBALANCE_MS, ["orders"], topic_partitions=[]
            )
        )
        assert reply.error_code == ErrorCode.NONE
    log = harness.partitions.log(OFFSETS, 0)
    assert log is not None
    log.go_offline(OSError(5, "Input/output error"))
    harness.advance(CONSUMER_SESSION_MS)
    found = {each.group_id: each.group_state for each in (await harness.ask(ListGroupsRequest())).groups}
    assert found["a"] == "Empty"
    harness.close()


def consumer_heartbeat(epoch: int, group: str = GROUP) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group, "member", epoch, None, None, REBALANCE_MS, ["orders"], topic_partitions=[]
    )


@pytest.mark.parametrize("kind", ["simple", "classic", "consumer"])
async def test_a_deletion_that_cannot_be_written_leaves_the_group(
    ready: Harness, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    if kind == "consumer":
        assert (await ready.ask(consumer_heartbeat(0))).error_code == ErrorCode.NONE
        assert (await ready.ask(consumer_heartbeat(-1))).error_code == ErrorCode.NONE
    elif kind == "classic":
        await stable_member(ready)
        ready.advance(SESSION_MS)
    for partition in (0, 1):
        assert await commit(ready, 7, partition=partition) == ErrorCode.NONE
    before = (await ready.ask(ListGroupsRequest())).groups
    monkeypatch.setattr(disk, "write_at", refuse)
    (answer,) = (await ready.ask(DeleteGroupsRequest([GROUP]))).results
    assert answer.error_code == ErrorCode.NOT_COORDINATOR
    monkeypatch.undo()
    assert [await committed(ready, partition=each) for each in (0, 1)] == [7, 7]
    assert (await ready.ask(ListGroupsRequest())).groups == before
    if kind == "classic":
        _, generation = await stable_member(ready)
        assert generation == 3
