"""The group coordinator with its log: written records survive, failed writes are rolled back."""

from pathlib import Path

import pytest

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import run_through
from broker.coordinator.topic_logs import coordinator_partition
from broker.log import disk
from broker.log.partition import PartitionLog
from broker.protocol.messages.delete_groups import DeleteGroupsRequest
from broker.protocol.messages.describe_groups import DescribeGroupsRequest
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest
from broker.protocol.messages.list_groups import ListGroupsRequest
from broker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from broker.records.build import NewRecord, build_batch
from tests.api.group import (
    GROUP,
    INITIAL_DELAY_MS,
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

OFFSETS = "__consumer_offsets"


@pytest.fixture
async def ready(harness: Harness) -> Harness:
    await harness.create_topic("orders", 2)
    await find_coordinator(harness)
    return harness


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail every append until the test ends it with `monkeypatch.undo()`."""

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(disk, "write_at", refuse)


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
