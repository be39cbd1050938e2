"""The partition errors that complete a fetch at once, and those beside which it waits: a table.

As in Kafka 4 (KafkaApis.handleFetchRequest, ReplicaManager.fetchMessages, DelayedFetch.tryComplete): a
partition that is refused before any read does not complete a fetch with another partition to wait for; every
read error does. Times are exact.
"""

from dataclasses import replace
from typing import Any

import pytest

from broker.common.errors import ApiError, ErrorCode
from broker.log.partition import PartitionLog
from broker.log.store import LogStore
from broker.protocol.messages.delete_topics import DeleteTopicsRequest
from broker.server.compiled import COMPILED
from tests.api.fetch_cases import (
    ALONE,
    EMPTY,
    FULL,
    NEW,
    NONE,
    RESUMED,
    UNKNOWN,
    WAIT_MS,
    Asker,
    Case,
    Prepare,
    log_of,
    pass_ms,
    prepare,
)
from tests.api.harness import Harness
from tests.support.produce import batch_of, produce_request


def starts_later(harness: Harness, patch: pytest.MonkeyPatch) -> None:
    log_of(harness, "other").delete_records_before(2)


def goes_offline(harness: Harness, patch: pytest.MonkeyPatch) -> None:
    log_of(harness, "other").go_offline(OSError(5, "Input/output error"))


def cannot_be_made(harness: Harness, patch: pytest.MonkeyPatch) -> None:
    harness.partitions.by_name["other"].open_logs.clear()

    create = LogStore.create_partition

    def refuse(store: LogStore, topic: str, *place: Any) -> PartitionLog:
        if topic == "other":
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        return create(store, topic, *place)

    patch.setattr(LogStore, "create_partition", refuse)


def fails_with(code: ErrorCode) -> Prepare:
    def prepare(harness: Harness, patch: pytest.MonkeyPatch) -> None:
        def fail(log: PartitionLog, offset: int, max_bytes: int, *, min_one_batch: bool) -> Any:
            raise ApiError(code)

        if COMPILED:
            pytest.skip("a method of a compiled class cannot be replaced")
        patch.setattr(PartitionLog, "read", fail)

    return prepare


TABLE = [
    UNKNOWN,
    Case("unknown partition", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True, partition=1),
    Case("negative partition", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True, partition=-1),
    Case("offset after the end", ErrorCode.OFFSET_OUT_OF_RANGE, False, offset=4),
    Case("offset before the start", ErrorCode.OFFSET_OUT_OF_RANGE, False, offset=1, prepare=starts_later),
    Case("fenced epoch", ErrorCode.FENCED_LEADER_EPOCH, False, epoch=-2, since=9),
    Case("unknown epoch", ErrorCode.UNKNOWN_LEADER_EPOCH, False, epoch=1, since=9),
    Case("offline", ErrorCode.KAFKA_STORAGE_ERROR, False, prepare=goes_offline),
    Case("offline with records", ErrorCode.KAFKA_STORAGE_ERROR, False, offset=0, prepare=goes_offline),
    Case("cannot be made", ErrorCode.KAFKA_STORAGE_ERROR, False, prepare=cannot_be_made),
    Case(
        "corrupt",
        ErrorCode.CORRUPT_MESSAGE,
        False,
        offset=0,
        prepare=fails_with(ErrorCode.CORRUPT_MESSAGE),
    ),
    Case("no error", NONE, True),
]
ERRORS = [case for case in TABLE if case.error]

WAYS = [
    *((version, ALONE) for version in (4, 12, 13)),
    *((version, way) for version in (7, 18) for way in (NEW, RESUMED)),
]
ROWS = [
    (case, version, way)
    for case in TABLE
    for version, way in WAYS
    if version >= case.since and not (way == RESUMED and case.prepare is cannot_be_made)
]
"""An existing session has the logs of its partitions."""


@pytest.fixture
async def topics(harness: Harness) -> Harness:
    await prepare(harness)
    return harness


@pytest.mark.rotates
@pytest.mark.parametrize("first", [True, False], ids=["before", "behind"])
@pytest.mark.parametrize(("case", "version", "way"), ROWS, ids=str)
async def test_beside_a_partition_without_records(
    topics: Harness, monkeypatch: pytest.MonkeyPatch, case: Case, version: int, way: str, first: bool
) -> None:
    asker = Asker(topics, version, way)
    both = [case, EMPTY] if first else [EMPTY, case]
    await asker.begin(*both)
    case.prepare(topics, monkeypatch)
    asking = await asker.put(*(() if way == RESUMED else both))
    if case.waits:
        assert asking.outcome is None
        pass_ms(topics, WAIT_MS - 1)
        assert asking.outcome is None
        pass_ms(topics, 1)
    expected = {(case.topic, case.partition): asker.error(case), ("empty", 0): NONE}
    if way == RESUMED:
        # Errors repeat in every response; other partitions are unchanged.
        expected = {key: error for key, error in expected.items() if error}
    assert asker.errors_of(asking) == expected


@pytest.mark.rotates
@pytest.mark.parametrize(("case", "version", "way"), ROWS, ids=str)
async def test_with_nothing_beside_it_any_error_is_answered_at_once(
    topics: Harness, monkeypatch: pytest.MonkeyPatch, case: Case, version: int, way: str
) -> None:
    asker = Asker(topics, version, way)
    await asker.begin(case)
    case.prepare(topics, monkeypatch)
    asking = await asker.put(*(() if way == RESUMED else (case,)))
    if not case.error:
        assert asking.outcome is None
    else:
        assert asker.errors_of(asking) == {(case.topic, case.partition): asker.error(case)}


@pytest.mark.parametrize("case", ERRORS, ids=str)
@pytest.mark.parametrize("version", [12, 13])
async def test_two_refused_or_failed_partitions_are_answered_at_once(
    topics: Harness, monkeypatch: pytest.MonkeyPatch, case: Case, version: int
) -> None:
    asker = Asker(topics, version, ALONE)
    missing = replace(UNKNOWN, partition=7)
    case.prepare(topics, monkeypatch)
    asking = await asker.put(missing, case)
    assert asker.errors_of(asking) == {
        ("gone", 7): asker.error(missing),
        (case.topic, case.partition): asker.error(case),
    }


@pytest.mark.parametrize("version", [4, 12, 13, 18])
async def test_records_beside_a_refused_partition_are_answered_at_once(topics: Harness, version: int) -> None:
    asker = Asker(topics, version, ALONE)
    asking = await asker.put(UNKNOWN, FULL)
    assert asker.errors_of(asking) == {("gone", 0): asker.error(UNKNOWN), ("full", 0): NONE}


@pytest.mark.parametrize(("max_wait_ms", "min_bytes"), [(0, 1), (-1, 1), (WAIT_MS, 0)])
async def test_a_fetch_that_wants_no_wait_or_no_bytes_is_answered_at_once(
    topics: Harness, max_wait_ms: int, min_bytes: int
) -> None:
    asker = Asker(topics, 12, ALONE)
    asking = await asker.put(UNKNOWN, EMPTY, max_wait_ms=max_wait_ms, min_bytes=min_bytes)
    assert asker.errors_of(asking) == {("gone", 0): asker.error(UNKNOWN), ("empty", 0): NONE}


@pytest.mark.parametrize(("version", "way"), WAYS)
async def test_an_append_ends_the_wait_beside_a_refused_partition(
    topics: Harness, version: int, way: str
) -> None:
    asker = Asker(topics, version, way)
    await asker.begin(UNKNOWN, EMPTY)
    asking = await asker.put(*(() if way == RESUMED else (UNKNOWN, EMPTY)))
    pass_ms(topics, 400)
    assert asking.outcome is None
    produced = await topics.put(produce_request(batch_of(b"x"), "empty"), 9)
    assert produced.outcome is not None
    assert asker.errors_of(asking) == {("gone", 0): asker.error(UNKNOWN), ("empty", 0): NONE}


@pytest.mark.parametrize("beside", [True, False], ids=["beside another", "alone"])
@pytest.mark.parametrize(("version", "way"), WAYS)
async def test_a_topic_that_is_deleted_meanwhile_ends_the_wait_and_the_next_fetch_waits(
    topics: Harness, version: int, way: str, beside: bool
) -> None:
    """Kafka's read of a known partition returns UNKNOWN_TOPIC_OR_PARTITION, even with topic ids."""
    asker = Asker(topics, version, way)
    other = Case("other", NONE, True)
    cases = [other, EMPTY] if beside else [other]
    await asker.begin(*cases)
    asking = await asker.put(*(() if way == RESUMED else cases))
    pass_ms(topics, 300)
    assert asking.outcome is None
    await topics.ask(DeleteTopicsRequest(topic_names=["other"], timeout_ms=1_000), 5)
    errors = asker.errors_of(asking)
    assert errors.pop(("other", 0)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert errors == ({("empty", 0): NONE} if beside and way != RESUMED else {})
    by_id = version >= 13
    gone = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    asking = await asker.put(*(() if way != ALONE else cases))
    if beside:
        assert asking.outcome is None
        pass_ms(topics, WAIT_MS - 1)
        assert asking.outcome is None
        pass_ms(topics, 1)
    assert asker.errors_of(asking)["other", 0] == gone


async def test_a_topic_that_is_made_meanwhile_is_reported_by_the_next_fetch(topics: Harness) -> None:
    asker, later = Asker(topics, 12, ALONE), replace(UNKNOWN, offset=0)
    asking = await asker.put(later, EMPTY)
    await topics.create_topic("gone")
    await topics.put(produce_request(batch_of(b"x"), "gone"), 9)
    assert asking.outcome is None
    pass_ms(topics, WAIT_MS)
    assert asker.errors_of(asking) == {("gone", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ("empty", 0): NONE}
    asking = await asker.put(later, EMPTY)
    assert asker.errors_of(asking) == {("gone", 0): NONE, ("empty", 0): NONE}


async def test_a_partition_that_goes_offline_meanwhile_is_reported_when_the_wait_ends(
    topics: Harness,
) -> None:
    asker = Asker(topics, 12, ALONE)
    asking = await asker.put(Case("other", NONE, True), EMPTY)
    log_of(topics, "other").go_offline(OSError(5, "Input/output error"))
    pass_ms(topics, WAIT_MS - 1)
    assert asking.outcome is None
    pass_ms(topics, 1)
    assert asker.errors_of(asking) == {("other", 0): ErrorCode.KAFKA_STORAGE_ERROR, ("empty", 0): NONE}


async def test_a_partition_that_went_offline_ends_the_wait_when_the_fetch_is_next_checked(
    topics: Harness,
) -> None:
    asker = Asker(topics, 12, ALONE)
    asking = await asker.put(Case("other", NONE, True), EMPTY, min_bytes=100_000)
    await topics.put(produce_request(batch_of(b"x"), "empty"), 9)
    assert asking.outcome is None, "too little"
    log_of(topics, "other").go_offline(OSError(5, "Input/output error"))
    await topics.put(produce_request(batch_of(b"x"), "empty"), 9)
    assert asker.errors_of(asking) == {("other", 0): ErrorCode.KAFKA_STORAGE_ERROR, ("empty", 0): NONE}
