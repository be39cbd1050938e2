"""Dead letters: which records have one, what it says, and what a failure leaves."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from broker.common.errors import ErrorCode
from broker.common.slices import run_through
from broker.config.sections.share_groups import SharePartitionConfig
from broker.coordinator.share.dead_letters import (
    AT_ONCE,
    IN_ONE_TURN,
    DeadLetterSettings,
    SourceRecords,
    dead_letter_settings,
)
from broker.coordinator.share.states import SharePartitionKey
from broker.log import disk
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.quotas.entity import Entity
from broker.records.build import NewRecord, build_batch
from broker.records.compression import Codec
from broker.records.control import Marker, build_marker
from broker.server.parts.dead_letters import ATTEMPTS
from tests.api.harness import WALL_MS, Harness
from tests.coordinator.share.conftest import start
from tests.coordinator.share.consumers import Member, acquired_in
from tests.coordinator.share.letters import (
    QUEUE,
    REJECTED,
    TOO_OFTEN,
    add_queue,
    configure,
    header_of,
    letters,
    offsets,
    state_of,
)
from tests.coordinator.share.members import ACCEPT, GAP, REJECT, RELEASE

ARCHIVING, ARCHIVED = 3, 4


@pytest.fixture
async def queued(harness: Harness) -> Harness:
    """The group "readers" has a dead letter queue without copies."""
    await add_queue(harness)
    await configure(harness)
    return harness


async def write(harness: Harness) -> None:
    await harness.share.dead_letters.write_due()


async def reject(harness: Harness, *spans: tuple[int, int], partition: int = 0) -> Member:
    """A member acquires everything and rejects these records."""
    member = Member(harness)
    await member.fetch(partition=partition, records=100_000)
    reply = await member.acknowledge(*((first, last, [REJECT]) for first, last in spans), partition=partition)
    assert reply.responses[0].partitions[0].error_code == 0
    return member


def counts(harness: Harness) -> tuple[int, int, int]:
    """Dead letters, batches, and batches that failed."""
    found = harness.share.dead_letters.writer.counts.get("readers")
    return (0, 0, 0) if found is None else (found.records, found.batches, found.failed)


# Which records


async def test_a_rejected_record_has_a_dead_letter_that_says_where_it_is(queued: Harness) -> None:
    queued.append("orders", *range(3))
    member = await reject(queued, (1, 1))
    assert letters(queued) == []
    queued.clock.advance(7)
    await write(queued)
    (letter,) = letters(queued)
    assert (letter.key, letter.value, letter.timestamp) == (None, None, WALL_MS + 7)
    assert letter.headers == (
        ("__dlq.errors.topic", b"orders"),
        ("__dlq.errors.partition", b"0"),
        ("__dlq.errors.offset", b"1"),
        ("__dlq.errors.group", b"readers"),
        ("__dlq.errors.delivery.count", b"1"),
        ("__dlq.errors.message", b"Offset rejected by client."),
    )
    assert counts(queued) == (1, 1, 0)
    assert await member.acquired() == []


async def released(harness: Harness, member: Member) -> None:
    assert await member.acknowledged((0, 0, [RELEASE])) == 0


async def timed_out(harness: Harness, member: Member) -> None:
    harness.advance(30_000)


async def closed(harness: Harness, member: Member) -> None:
    await member.close()


async def disconnected(harness: Harness, member: Member) -> None:
    harness.share.disconnected(member.connection.id)
    harness.advance(0)


@pytest.mark.parametrize("end", [released, timed_out, closed, disconnected])
async def test_a_record_has_a_dead_letter_after_its_last_delivery(
    tmp_path: Path, end: Callable[[Harness, Member], Any]
) -> None:
    harness = await start(tmp_path, "group.share.delivery.count.limit=2")
    await add_queue(harness)
    await configure(harness)
    harness.append("orders", 1)
    for delivery in (1, 2):
        member = Member(harness, f"member {delivery}")
        assert await member.acquired() == [(0, 0, delivery)]
        await write(harness)
        assert letters(harness) == []
        await end(harness, member)
    await write(harness)
    (letter,) = letters(harness)
    assert header_of(letter, "message") == TOO_OFTEN and header_of(letter, "delivery.count") == b"2"
    harness.close()


async def test_a_record_that_is_rejected_at_its_last_delivery_is_rejected(tmp_path: Path) -> None:
    harness = await start(tmp_path, "group.share.delivery.count.limit=2")
    await add_queue(harness)
    await configure(harness)
    harness.append("orders", 1)
    member = Member(harness)
    assert await member.acquired() == [(0, 0, 1)]
    assert await member.acquired((0, 0, [RELEASE])) == [(0, 0, 2)]
    assert await member.acknowledged((0, 0, [REJECT])) == 0
    await write(harness)
    (letter,) = letters(harness)
    assert header_of(letter, "message") == REJECTED and header_of(letter, "delivery.count") == b"2"
    harness.close()


async def test_accepted_records_and_gaps_have_none(queued: Harness) -> None:
    queued.append("orders", *range(4))
    member = Member(queued)
    await member.acquired()
    assert await member.acknowledged((0, 3, [ACCEPT, GAP, GAP, ACCEPT])) == 0
    await write(queued)
    assert letters(queued) == [] and queued.share.dead_letters.next_deadline() is None


async def test_a_group_without_a_queue_archives_at_once(harness: Harness) -> None:
    await add_queue(harness)
    harness.append("orders", *range(3))
    member = await reject(harness, (1, 1))
    assert state_of(harness, member) == ((1, 1, ARCHIVED, 1),)
    assert harness.share.dead_letters.next_deadline() is None


# The state meanwhile


async def test_a_record_is_archiving_until_its_dead_letter_is_written(queued: Harness) -> None:
    queued.append("orders", *range(3))
    member = await reject(queued, (0, 1))
    assert state_of(queued, member) == ((0, 1, ARCHIVING, 1),)
    summary = queued.share.persister.summary("readers", member.topic_id, 0)
    assert summary is not None and (summary.start_offset, summary.complete) == (0, 0)
    other = Member(queued, "b")
    assert await other.acquired() == []
    assert await member.acknowledged((0, 0, [ACCEPT])) == ErrorCode.INVALID_RECORD_STATE
    await write(queued)
    assert state_of(queued, member) == ()
    summary = queued.share.persister.summary("readers", member.topic_id, 0)
    assert summary is not None and (summary.start_offset, summary.complete) == (2, 0)


async def test_records_behind_the_start_offset_are_complete_once_they_are_archived(queued: Harness) -> None:
    queued.append("orders", *range(5))
    member = await reject(queued, (1, 3))
    summary = queued.share.persister.summary("readers", member.topic_id, 0)
    assert summary is not None and summary.complete == 0
    await write(queued)
    assert state_of(queued, member) == ((1, 3, ARCHIVED, 1),)
    summary = queued.share.persister.summary("readers", member.topic_id, 0)
    assert summary is not None and (summary.start_offset, summary.complete) == (0, 3)


async def test_records_that_wait_for_the_queue_count_as_in_flight(tmp_path: Path) -> None:
    harness = await start(tmp_path, "group.share.partition.max.record.locks=100")
    await add_queue(harness)
    await configure(harness)
    for _ in range(101):
        harness.append("orders", 1)
    member = await reject(harness, (0, 99))
    assert await member.acquired() == []
    await write(harness)
    assert await member.acquired() == [(100, 100, 1)]
    harness.close()


@pytest.mark.parametrize("is_written", [True, False])
async def test_a_fetch_that_waits_for_records_in_flight_goes_on_after_the_dead_letters(
    tmp_path: Path, is_written: bool
) -> None:
    """It is answered at once: another request need not come."""
    harness = await start(tmp_path, "group.share.partition.max.record.locks=100")
    await add_queue(harness)
    await configure(harness)
    for _ in range(101):
        harness.append("orders", 1)
    await reject(harness, (0, 99))
    other = Member(harness, "b")
    waiting = await other.put(wait_ms=1_000)
    assert waiting.outcome is None
    if not is_written:
        await configure(harness, "")
    await write(harness)
    assert len(letters(harness)) == (100 if is_written else 0)
    assert acquired_in(harness.answer(waiting)) == [(100, 100, 1)]
    harness.close()


async def test_a_consumer_of_the_queue_that_waits_is_answered(queued: Harness) -> None:
    asked = FetchPartition(0, fetch_offset=0, partition_max_bytes=1_000)
    topic_id = queued.partitions.by_name[QUEUE].topic_id
    request = FetchRequest(
        max_wait_ms=1_000, min_bytes=1, topics=[FetchTopic(topic_id=topic_id, partitions=[asked])]
    )
    waiting = await queued.put(request)
    assert waiting.outcome is None
    queued.append("orders", 1)
    await reject(queued, (0, 0))
    await write(queued)
    assert waiting.outcome is not None


# Copies


@pytest.mark.parametrize("copies", ["true", "false"])
async def test_a_copy_has_the_key_and_the_value(harness: Harness, copies: str) -> None:
    await add_queue(harness)
    await configure(harness, copies=copies)
    log = harness.partitions.log("orders", 0)
    assert log is not None
    records = [
        NewRecord(b"k", b"v", 1, (("own", b"header"),)),
        NewRecord(None, b"v", 2),
        NewRecord(b"k", None, 3),
    ]
    log.stage(build_batch(records), now_wall_ms=WALL_MS)
    harness.partitions.commit()
    await reject(harness, (0, 2))
    await write(harness)
    found = [(each.key, each.value) for each in letters(harness)]
    assert found == ([(b"k", b"v"), (None, b"v"), (b"k", None)] if copies == "true" else [(None, None)] * 3)
    assert all(name.startswith("__dlq.errors.") for each in letters(harness) for name, _ in each.headers)


def append(harness: Harness, codec: Codec, *values: bytes) -> None:
    log = harness.partitions.log("orders", 0)
    assert log is not None
    batch = build_batch([NewRecord(b"k", value, 1) for value in values], codec=codec)
    log.stage(batch, now_wall_ms=WALL_MS)
    harness.partitions.commit()


@pytest.mark.parametrize("codec", list(Codec))
async def test_copies_come_from_compressed_batches_in_the_order_of_the_offsets(
    harness: Harness, codec: Codec
) -> None:
    await add_queue(harness)
    await configure(harness, copies="true")
    append(harness, codec, *(b"%d" % number for number in range(10)))
    append(harness, codec, *(b"%d" % number for number in range(10, 20)))
    await reject(harness, (2, 2), (4, 5), (9, 10), (19, 19))
    await write(harness)
    assert offsets(harness) == [2, 4, 5, 9, 10, 19]
    assert [each.value for each in letters(harness)] == [b"2", b"4", b"5", b"9", b"10", b"19"]


async def test_what_the_log_has_deleted_is_not_copied(harness: Harness) -> None:
    await add_queue(harness)
    await configure(harness, copies="true")
    append(harness, Codec.NONE, b"0", b"1")
    append(harness, Codec.NONE, b"2")
    await reject(harness, (0, 2))
    log = harness.partitions.log("orders", 0)
    assert log is not None
    log.delete_records_before(2)
    await write(harness)
    assert [each.value for each in letters(harness)] == [None, None, b"2"]
    assert offsets(harness) == [0, 1, 2]


def found_in(harness: Harness, wanted: Sequence[int]) -> list[bytes | None]:
    source = SourceRecords(harness.partitions.log("orders", 0))
    return [run_through(source.find(offset)).value for offset in wanted]


async def test_markers_and_offsets_past_the_end_are_not_copied(harness: Harness) -> None:
    append(harness, Codec.NONE, b"0", b"1")
    log = harness.partitions.log("orders", 0)
    assert log is not None
    log.stage(build_marker(Marker(True, 0), 7, 0, WALL_MS), WALL_MS, internal=True)
    append(harness, Codec.NONE, b"3")
    assert found_in(harness, range(6)) == [b"0", b"1", None, b"3", None, None]
    assert found_in(harness, [3]) == [b"3"]


async def test_a_batch_with_many_records_is_searched_in_slices(harness: Harness) -> None:
    append(harness, Codec.NONE, *([b"x"] * 2_000))
    source = SourceRecords(harness.partitions.log("orders", 0))
    assert len(list(source.find(1_999))) == 3


# The queue


@pytest.mark.parametrize(("source", "partitions", "expected"), [(0, 1, 0), (1, 1, 0), (1, 2, 1), (1, 3, 1)])
async def test_the_partition_of_a_dead_letter(
    harness: Harness, source: int, partitions: int, expected: int
) -> None:
    await add_queue(harness, partitions=partitions)
    await configure(harness)
    harness.append("orders", 1, partition=source)
    await reject(harness, (0, 0), partition=source)
    await write(harness)
    found = [len(letters(harness, partition=index)) for index in range(partitions)]
    assert found == [int(index == expected) for index in range(partitions)]
    assert header_of(letters(harness, partition=expected)[0], "partition") == b"%d" % source


@pytest.mark.parametrize(
    ("queue", "prefix", "is_written"),
    [
        ("dlq.orders", "dlq.", True),
        ("dlq.", "dlq.", True),
        ("dl", "dlq.", False),
        ("orders.dlq", "dlq.", False),
        ("orders.dlq", "", True),
        ("dead.x", "dead.", True),
    ],
)
async def test_the_name_of_a_queue_begins_with_the_prefix(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, queue: str, prefix: str, is_written: bool
) -> None:
    harness = await start(tmp_path, f"errors.deadletterqueue.topic.name.prefix={prefix}")
    await add_queue(harness, name=queue)
    await configure(harness, queue)
    harness.append("orders", 1)
    member = await reject(harness, (0, 0))
    await write(harness)
    assert len(letters(harness, queue)) == is_written
    assert state_of(harness, member) == ()
    lost = [each for each in caplog.records if each.message == "records are archived without dead letters"]
    assert len(lost) == (not is_written)
    harness.close()


async def test_a_topic_that_is_no_queue_gets_no_dead_letters(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    await harness.create_topic(QUEUE)
    await configure(harness)
    harness.append("orders", *range(3))
    member = await reject(harness, (0, 1))
    await write(harness)
    assert letters(harness) == [] and state_of(harness, member) == () and counts(harness) == (0, 0, 0)
    (line,) = [each for each in caplog.records if each.message == "records are archived without dead letters"]
    assert vars(line)["group"] == "readers" and vars(line)["records"] == 2
    assert "errors.deadletterqueue.group.enable" in vars(line)["reason"]


async def test_a_missing_queue_gets_none_unless_the_broker_creates_queues(harness: Harness) -> None:
    await configure(harness)
    harness.append("orders", 1)
    member = await reject(harness, (0, 0))
    await write(harness)
    assert QUEUE not in harness.partitions.by_name and state_of(harness, member) == ()


async def test_a_missing_queue_is_created_with_the_first_dead_letter(tmp_path: Path) -> None:
    creates = "errors.deadletterqueue.auto.create.topics.enable=true"
    harness = await start(tmp_path, creates, "num.partitions=3", "log.message.timestamp.type=LogAppendTime")
    await configure(harness)
    harness.append("orders", *range(2))
    await reject(harness, (0, 0))
    await write(harness)
    topic = harness.control.image.topics[QUEUE]
    assert topic.partitions == 3
    assert topic.configs == {
        "errors.deadletterqueue.group.enable": "true",
        "message.timestamp.type": "CreateTime",
    }
    assert offsets(harness) == [0]
    harness.close()


@pytest.mark.parametrize("queue", ["orders.dlq", "dlq.a name"])
async def test_a_queue_with_another_name_is_not_created(tmp_path: Path, queue: str) -> None:
    harness = await start(tmp_path, "errors.deadletterqueue.auto.create.topics.enable=true")
    await configure(harness, queue)
    harness.append("orders", 1)
    member = await reject(harness, (0, 0))
    await write(harness)
    assert queue not in harness.control.image.topics and state_of(harness, member) == ()
    harness.close()


async def test_a_queue_that_the_group_gave_up_meanwhile_gets_nothing(queued: Harness) -> None:
    queued.append("orders", 1)
    member = await reject(queued, (0, 0))
    await configure(queued, "")
    await write(queued)
    assert letters(queued) == [] and state_of(queued, member) == ()


# Limits


@pytest.mark.parametrize("extra", [-1, 0, 1])
async def test_the_dead_letters_of_a_batch(queued: Harness, extra: int) -> None:
    queued.append("orders", *([1] * (AT_ONCE + extra)))
    await reject(queued, (0, AT_ONCE + extra - 1))
    await write(queued)
    assert counts(queued) == (AT_ONCE + extra, 1 + (extra > 0), 0)
    assert offsets(queued) == list(range(AT_ONCE + extra))


async def test_dead_letters_of_several_ranges_are_one_batch(queued: Harness) -> None:
    queued.append("orders", *([1] * 10))
    member = await reject(queued, (0, 0), (2, 3), (7, 7))
    await write(queued)
    assert counts(queued) == (4, 1, 0) and offsets(queued) == [0, 2, 3, 7]
    assert state_of(queued, member) == ((2, 3, ARCHIVED, 1), (7, 7, ARCHIVED, 1))


@pytest.mark.parametrize("extra", [-1, 0, 1])
async def test_the_dead_letters_of_one_turn(queued: Harness, extra: int) -> None:
    wanted = IN_ONE_TURN + extra
    queued.append("orders", *([1] * wanted))
    member = await reject(queued, (0, wanted - 1))
    await write(queued)
    assert counts(queued)[0] == min(wanted, IN_ONE_TURN)
    left = () if extra <= 0 else ((IN_ONE_TURN, IN_ONE_TURN, ARCHIVING, 1),)
    assert state_of(queued, member) == left
    await write(queued)
    assert offsets(queued) == list(range(wanted)) and state_of(queued, member) == ()


@pytest.mark.parametrize("extra", [-1, 0, 1])
async def test_a_dead_letter_that_is_too_large_for_the_queue_has_no_copy(
    harness: Harness, extra: int
) -> None:
    await add_queue(harness)
    await configure(harness, copies="true")
    append(harness, Codec.NONE, b"x" * 5_000)
    await reject(harness, (0, 0))
    await write(harness)
    log = harness.partitions.log(QUEUE, 0)
    assert log is not None and letters(harness)[0].value == b"x" * 5_000
    most = log.size - extra
    await add_queue(harness, ("max.message.bytes", str(most)), name="dlq.small")
    await configure(harness, "dlq.small")
    append(harness, Codec.NONE, b"x" * 5_000)
    await reject(harness, (1, 1))
    await write(harness)
    (letter,) = letters(harness, "dlq.small")
    assert letter.value == (None if extra > 0 else b"x" * 5_000)
    assert header_of(letter, "offset") == b"1"


async def test_a_dead_letter_that_is_too_large_without_a_copy_is_given_up(harness: Harness) -> None:
    await add_queue(harness, ("max.message.bytes", "100"))
    await configure(harness)
    harness.append("orders", 1)
    member = await reject(harness, (0, 0))
    await write(harness)
    assert letters(harness) == [] and state_of(harness, member) == () and counts(harness) == (0, 1, 1)


async def test_large_copies_are_batches_of_their_own(harness: Harness) -> None:
    await add_queue(harness)
    await configure(harness, copies="true")
    append(harness, Codec.NONE, *([b"x" * 40_000] * 3))
    await reject(harness, (0, 2))
    await write(harness)
    assert counts(harness) == (3, 3, 0)


async def test_a_compacted_queue_refuses_what_has_no_key(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    await add_queue(harness, ("cleanup.policy", "compact"))
    await configure(harness)
    harness.append("orders", 1)
    member = await reject(harness, (0, 0))
    await write(harness)
    assert letters(harness) == [] and state_of(harness, member) == () and counts(harness) == (0, 1, 1)
    assert "dead letters are refused" in [each.message for each in caplog.records]


async def test_a_queue_compresses_dead_letters_as_it_says(harness: Harness) -> None:
    await add_queue(harness, ("compression.type", "zstd"), ("message.timestamp.type", "LogAppendTime"))
    await configure(harness, copies="true")
    append(harness, Codec.NONE, *([b"x" * 100] * 20))
    await reject(harness, (0, 19))
    await write(harness)
    log = harness.partitions.log(QUEUE, 0)
    assert log is not None and log.size < 20 * 100
    assert [each.value for each in letters(harness)] == [b"x" * 100] * 20


async def test_nobody_is_charged_for_dead_letters(queued: Harness) -> None:
    queued.quotas.apply(Entity(client_id="test"), "producer_byte_rate", 1)
    queued.append("orders", *([1] * 100))
    await reject(queued, (0, 99))
    await write(queued)
    assert counts(queued) == (100, 2, 0)
    assert queued.quotas.record_produce("ANONYMOUS", "test", 1, queued.clock.ms()) is None


# Failures


class FullDisk:
    """Appends to the files of a topic fail while `is_full`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, topic: str = QUEUE) -> None:
        self.is_full = True
        self._topic = topic
        self._write_at = disk.write_at
        monkeypatch.setattr(disk, "write_at", self)

    def __call__(self, file: Any, buffers: Any, position: int) -> int:
        if self.is_full and self._topic in os.readlink(f"/proc/self/fd/{file.fd}"):
            raise OSError(28, "No space left on device")
        return self._write_at(file, buffers, position)


async def test_a_failed_append_is_tried_again(queued: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    queued.append("orders", *range(3))
    member = await reject(queued, (0, 1))
    full, began = FullDisk(monkeypatch), queued.clock.ms()
    waits = []
    for _ in range(ATTEMPTS - 1):
        await write(queued)
        assert state_of(queued, member) == ((0, 1, ARCHIVING, 1),)
        due = queued.share.dead_letters.next_deadline()
        assert due is not None
        queued.clock.now_ms = due - 1
        await write(queued)
        assert queued.share.dead_letters.next_deadline() == due
        queued.clock.now_ms = due
        waits.append(due - began)
    assert waits == [1_000, 3_000, 7_000, 15_000]
    full.is_full = False
    await write(queued)
    assert offsets(queued) == [0, 1] and state_of(queued, member) == ()
    assert counts(queued) == (2, 5, 0) and queued.share.dead_letters.next_deadline() is None


async def test_after_five_attempts_records_are_archived_without_dead_letters(
    queued: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    queued.append("orders", *range(3))
    member = await reject(queued, (0, 1))
    full = FullDisk(monkeypatch)
    for _ in range(ATTEMPTS):
        assert state_of(queued, member) == ((0, 1, ARCHIVING, 1),)
        await write(queued)
        queued.clock.advance(8_000)
    assert state_of(queued, member) == () and counts(queued) == (0, 5, 1)
    assert [each.message for each in caplog.records].count("records are archived without dead letters") == 1
    full.is_full = False
    assert await member.acknowledged((2, 2, [REJECT])) == 0
    await write(queued)
    assert offsets(queued) == [2]


async def test_a_state_that_cannot_be_stored_writes_no_second_dead_letter(
    queued: Harness, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    queued.append("orders", *range(3))
    member = await reject(queued, (0, 1))
    full = FullDisk(monkeypatch, "__share_group_state")
    await write(queued)
    await write(queued)
    assert offsets(queued) == [0, 1]
    assert state_of(queued, member) == ((0, 1, ARCHIVING, 1),)
    full.is_full = False
    assert await member.acknowledged((2, 2, [ACCEPT])) == 0
    assert state_of(queued, member) == ()


async def test_a_kill_after_the_dead_letter_writes_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = await start(tmp_path)
    await add_queue(harness)
    await configure(harness)
    harness.append("orders", *range(3))
    await reject(harness, (0, 1))
    full = FullDisk(monkeypatch, "__share_group_state")
    await write(harness)
    harness.close()
    full.is_full = False
    again = await start(tmp_path)
    member = Member(again)
    assert await member.acquired() == [(2, 2, 1)]
    await write(again)
    assert offsets(again) == [0, 1, 0, 1]
    again.close()


@pytest.mark.parametrize(
    ("deliveries", "message"), [(1, REJECTED), (2, REJECTED), (3, TOO_OFTEN)], ids=["one", "below", "at"]
)
async def test_a_kill_before_the_dead_letter_leaves_it_to_the_next_start(
    tmp_path: Path, deliveries: int, message: bytes
) -> None:
    """The stored state does not say why; the number of deliveries does, as in Kafka."""
    limit = "group.share.delivery.count.limit=3"
    harness = await start(tmp_path, limit)
    await add_queue(harness)
    await configure(harness)
    harness.append("orders", 1)
    member = Member(harness)
    await member.fetch()
    for _ in range(deliveries - 1):
        await member.fetch((0, 0, [RELEASE]))
    assert await member.acknowledged((0, 0, [REJECT])) == 0
    harness.close()
    again = await start(tmp_path, limit)
    await write(again)
    assert letters(again) == []
    assert await Member(again).acquired() == []
    await write(again)
    (letter,) = letters(again)
    assert header_of(letter, "message") == message
    assert header_of(letter, "delivery.count") == b"%d" % deliveries
    again.close()


async def test_a_state_that_is_set_anew_meanwhile_writes_nothing(queued: Harness) -> None:
    queued.append("orders", *range(3))
    member = await reject(queued, (0, 1))
    await queued.share.persister.initialize("readers", member.topic_id, 0, 1)
    await write(queued)
    assert letters(queued) == [] and queued.share.dead_letters.next_deadline() is None
    key = SharePartitionKey("readers", member.topic_id, 0)
    state = queued.share.persister.state(key)
    assert state is not None and (state.start_offset, state.batches) == (1, ())


async def test_a_state_that_is_set_anew_between_two_batches_ends_the_writing(queued: Harness) -> None:
    count = AT_ONCE + 1
    queued.append("orders", *([1] * count))
    member = await reject(queued, (0, count - 1))
    key = SharePartitionKey("readers", member.topic_id, 0)
    share, log = queued.share.share.get(key), queued.partitions.log(QUEUE, 0)
    assert share is not None and log is not None
    slices = queued.share.dead_letters.writer.write(key, share, log, copies=False)
    while not letters(queued):
        next(slices)
    await queued.share.persister.initialize("readers", member.topic_id, 0, 5)
    run_through(slices)
    assert offsets(queued) == list(range(AT_ONCE))
    state = queued.share.persister.state(key)
    assert state is not None and (state.start_offset, state.batches) == (5, ())


async def test_a_state_that_is_set_anew_while_a_batch_is_written_stays(
    queued: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    queued.append("orders", *range(3))
    member = await reject(queued, (0, 2))
    key = SharePartitionKey("readers", member.topic_id, 0)
    reported: list[Exception] = []
    monkeypatch.setattr(
        queued.share.dead_letters, "_on_failure", lambda _group, error: reported.append(error)
    )
    monkeypatch.setattr(queued.share.dead_letters.writer, "_grown", lambda _log: queued.share.share.drop(key))
    await write(queued)
    assert reported == [] and offsets(queued) == [0, 1, 2]
    assert state_of(queued, member) == ((0, 2, ARCHIVING, 1),)


async def test_a_share_partition_that_is_read_anew_meanwhile_is_not_forgotten(
    queued: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    queued.append("orders", *range(2))
    member = await reject(queued, (0, 1))
    key = SharePartitionKey("readers", member.topic_id, 0)
    source, queues = queued.partitions.log("orders", 0), queued.share.dead_letters
    assert source is not None
    queue_of = queues._queue

    async def read_anew(*given: Any) -> Any:
        queued.share.share.drop(key)
        run_through(queued.share.share.load(key, source))
        return await queue_of(*given)

    monkeypatch.setattr(queues, "_queue", read_anew)
    await write(queued)
    monkeypatch.undo()
    assert queues.next_deadline() is not None
    await write(queued)
    assert offsets(queued) == [0, 1] and queues.next_deadline() is None
    assert state_of(queued, member) == ()


async def test_the_dead_letters_of_a_deleted_topic_are_not_due(queued: Harness) -> None:
    queued.append("orders", 1)
    member = await reject(queued, (0, 0))
    assert queued.share.dead_letters.next_deadline() is not None
    del queued.partitions.by_id[member.topic_id]
    await write(queued)
    assert queued.share.dead_letters.next_deadline() is None
    assert letters(queued) == []


async def test_a_deleted_source_topic_ends_the_writing(queued: Harness) -> None:
    queued.append("orders", 1)
    member = await reject(queued, (0, 0))
    key = SharePartitionKey("readers", member.topic_id, 0)
    share, log = queued.share.share.get(key), queued.partitions.log(QUEUE, 0)
    assert share is not None and log is not None
    del queued.partitions.by_id[member.topic_id]
    run_through(queued.share.dead_letters.writer.write(key, share, log, copies=True))
    assert letters(queued) == []


async def test_an_unexpected_exception_is_reported_and_gives_the_records_up(
    queued: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    queued.append("orders", 1)
    member = await reject(queued, (0, 0))
    reported: list[tuple[str, Exception]] = []
    monkeypatch.setattr(
        queued.share.dead_letters, "_on_failure", lambda group, error: reported.append((group, error))
    )

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("unexpected")

    monkeypatch.setattr(queued.share.dead_letters.writer, "write", fail)
    await write(queued)
    assert [(group, str(error)) for group, error in reported] == [("readers", "unexpected")]
    assert state_of(queued, member) == ()


def test_the_settings_of_a_group() -> None:
    assert dead_letter_settings({}, SharePartitionConfig()) == DeadLetterSettings()
    config = SharePartitionConfig(dead_letter_topic_prefix="dead.", creates_dead_letter_topics=True)
    configs = {
        "errors.deadletterqueue.topic.name": " dead.x ",
        "errors.deadletterqueue.copy.record.enable": "true",
    }
    assert dead_letter_settings(configs, config) == DeadLetterSettings("dead.x", True, "dead.", True)
