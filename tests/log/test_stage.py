"""Appending: assigned offsets, visibility, and refusals."""

import pytest

from broker.common.errors import ApiError, ErrorCode
from broker.config.sections.topics import TopicSettings
from broker.log.partition import PartitionLog
from broker.records.build import NewRecord, build_batch
from broker.records.header import header_at
from broker.records.validate import check_batch
from tests.log.harness import NOW, all_records, append, batch, make, sized

HOUR = 3_600_000


def refusal(log: PartitionLog, made: memoryview, now: int = NOW) -> ErrorCode:
    """Return the error of a refused batch, and check that it changed nothing."""
    before = (log.next_offset, log.high_watermark, bytes(made))
    with pytest.raises(ApiError) as caught:
        log.stage(made, now_wall_ms=now)
    assert (log.next_offset, log.high_watermark, bytes(made)) == before
    return caught.value.code


def test_offsets_follow_one_another(log):
    first = log.stage(batch(b"a", b"b", b"c"), now_wall_ms=NOW)
    second = log.stage(batch(b"d"), now_wall_ms=NOW)
    assert (first.base_offset, first.last_offset) == (0, 2)
    assert (second.base_offset, second.last_offset) == (3, 3)
    assert log.next_offset == 4


def test_readers_see_nothing_before_the_commit(store, log):
    log.stage(batch(b"a"), now_wall_ms=NOW)
    assert log.high_watermark == 0
    assert not log.read(0, 1_000, min_one_batch=True)
    assert store.commit() == ()
    assert log.high_watermark == 1
    assert [record.value for record in all_records(log)] == [b"a"]


def test_offset_and_epoch_are_written_where_the_crc_does_not_look(log):
    append(log, batch(b"a", b"b"))
    made = batch(b"c")
    log.stage(made, now_wall_ms=NOW, leader_epoch=5)
    header = header_at(made)
    assert (header.base_offset, header.leader_epoch) == (2, 5)
    check_batch(made, 1_000, 1_000_000)


def test_one_commit_writes_every_partition_that_has_something(store):
    logs = [make(store, index=index) for index in range(3)]
    for log in (logs[0], logs[2], logs[0]):
        log.stage(batch(b"a"), now_wall_ms=NOW)
    store.commit()
    assert [log.high_watermark for log in logs] == [2, 0, 1]
    assert store.commit() == ()


def test_a_staged_batch_has_what_the_answer_needs(log):
    (staged,) = append(log, batch(b"a"))
    assert staged.error is None and not staged.duplicate
    assert (staged.log_append_time, staged.log_start_offset) == (-1, 0)


@pytest.mark.parametrize(("spare", "taken"), [(-1, False), (0, True), (1, True)])
def test_max_message_bytes_is_the_largest_batch(store, spare, taken):
    log = make(store, max_message_bytes=500 + spare)
    if taken:
        append(log, sized(500))
    else:
        assert refusal(log, sized(500)) is ErrorCode.MESSAGE_TOO_LARGE


def test_a_damaged_batch_is_refused(log):
    made = batch(b"a")
    made[-1] ^= 1
    assert refusal(log, made) is ErrorCode.CORRUPT_MESSAGE


def test_a_producer_does_not_choose_offsets(log):
    made = batch(b"a")
    made[7] = 1
    assert refusal(log, made) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(("ahead", "taken"), [(HOUR - 1, True), (HOUR, True), (HOUR + 1, False)])
def test_a_record_may_be_an_hour_ahead_of_the_broker(log, ahead, taken):
    made = batch(b"a", timestamp=NOW + ahead)
    if taken:
        append(log, made)
    else:
        assert refusal(log, made) is ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize(("behind", "taken"), [(999, True), (1_000, True), (1_001, False)])
def test_a_topic_bounds_how_old_records_may_be(store, behind, taken):
    log = make(store, message_timestamp_before_max_ms=1_000)
    made = batch(b"a", timestamp=NOW - behind)
    if taken:
        append(log, made)
    else:
        assert refusal(log, made) is ErrorCode.INVALID_TIMESTAMP


def test_the_broker_s_time_replaces_the_producer_s_where_the_topic_says_so(store):
    log = make(store, message_timestamp_type="LogAppendTime")
    made = batch(b"a", b"b", timestamp=NOW + 2 * HOUR)
    (staged,) = append(log, made, now=NOW + 7)
    assert staged.log_append_time == NOW + 7
    check_batch(made, 1_000, 1_000_000)
    assert [record.timestamp for record in all_records(log)] == [NOW + 7, NOW + 7]


def test_producers_do_not_stamp(log):
    made = build_batch([NewRecord(None, b"a", NOW)], attributes=0x08)
    assert refusal(log, made) is ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize(
    ("flag", "code"),
    [(0x20, ErrorCode.INVALID_RECORD), (0x10, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)],
)
def test_control_and_transactional_batches_are_the_broker_s_own(log, flag, code):
    made = build_batch(
        [NewRecord(b"k", b"v", NOW)], attributes=flag, producer_id=1, producer_epoch=0, base_sequence=0
    )
    assert refusal(log, made) is code
    log.stage(made, now_wall_ms=NOW, internal=True)


def test_a_compacted_topic_needs_keys(store):
    log = make(store, cleanup_policy=("compact",))
    assert refusal(log, batch(b"a")) is ErrorCode.INVALID_RECORD
    append(log, build_batch([NewRecord(b"k", b"v", NOW)]))


def test_settings_hold_from_the_next_append_on(log):
    append(log, sized(500))
    log.configure(TopicSettings(max_message_bytes=499))
    assert refusal(log, sized(500)) is ErrorCode.MESSAGE_TOO_LARGE
    log.configure(TopicSettings(message_timestamp_type="LogAppendTime"))
    (staged,) = append(log, sized(500))
    assert staged.log_append_time == NOW


def test_more_buffers_than_one_system_call_takes(log):
    append(log, *(batch(b"%d" % at) for at in range(2_500)))
    assert [record.value for record in all_records(log)] == [b"%d" % at for at in range(2_500)]


def test_nothing_is_taken_after_a_deletion(store, log):
    append(log, batch(b"a"))
    staged = log.stage(batch(b"b"), now_wall_ms=NOW)
    store.delete_partition("events", 0)
    assert staged.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refusal(log, batch(b"c")) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert store.commit() == ()
