"""A fetch of more than MANY partitions waits for `min_bytes` and `max_wait_ms` as a small one does.

An append makes it read only the appended partition, and it misses no append between the slices in which it
reads its partitions. Times are exact. (Kafka: DelayedFetch)
"""

from itertools import pairwise
from typing import Any

import pytest

from broker.api import a01_fetch
from broker.api.a01_fetch import requested_partitions
from broker.api.fetch import pending
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Response
from broker.api.requests.services import FetchServices
from broker.common.errors import ErrorCode
from broker.common.slices import SLICE, run_through
from broker.log.partition import PartitionLog
from broker.partitions.fetching import FetchedPartition, RequestedPartition
from broker.protocol.messages.delete_topics import DeleteTopicsRequest
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.purgatory.purgatory import OperationState
from broker.server.compiled import COMPILED
from tests.api.fetch_cases import WAIT_MS, log_of, pass_ms
from tests.api.harness import WALL_MS, Asking, Connection, Harness
from tests.support.produce import batch_of, produce_request

VERSION = 12
PARTITIONS = 600
"""Exceeds MANY and one slice; all but three of the partitions do not exist."""

BATCH = len(batch_of(b"x"))


@pytest.fixture
async def topics(harness: Harness) -> Harness:
    for name in ("first", "second", "third"):
        await harness.create_topic(name)
    return harness


def request(
    min_bytes: int, *, max_wait_ms: int = WAIT_MS, partition_max_bytes: int = 100_000, twice: bool = False
) -> FetchRequest:
    def fetched_partition(index: int) -> FetchPartition:
        return FetchPartition(index, fetch_offset=0, partition_max_bytes=partition_max_bytes)

    named = [FetchTopic(name, partitions=[fetched_partition(0)]) for name in ("first", "second", "third")]
    missing = FetchTopic("third", partitions=[fetched_partition(at) for at in range(1, PARTITIONS)])
    more = [FetchTopic("first", partitions=[fetched_partition(0)])] if twice else []
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=1_000_000,
        session_id=0,
        session_epoch=-1,
        topics=[*named, missing, *more],
    )


async def append(harness: Harness, topic: str = "first") -> None:
    produced = await harness.put(produce_request(batch_of(b"x"), topic), 9)
    assert produced.outcome is not None


def bytes_of(harness: Harness, asking: Asking) -> int:
    answer = harness.answer(asking)
    assert answer.error_code == ErrorCode.NONE
    return sum(len(each.records) for topic in answer.responses for each in topic.partitions)


def is_unwatched(harness: Harness) -> bool:
    fetches = harness.fetches
    return (fetches.watched, fetches.delayed, len(fetches.any_watchers)) == (0, 0, 0)


async def test_it_is_large_enough_to_be_read_in_slices(topics: Harness) -> None:
    await topics.put(request(1), VERSION)
    assert PARTITIONS > pending.MANY and PARTITIONS > SLICE
    assert len(topics.fetches.any_watchers) == 1


@pytest.mark.parametrize("min_bytes", [1, 1_000])
async def test_without_records_it_waits_for_its_whole_time(topics: Harness, min_bytes: int) -> None:
    asking = await topics.put(request(min_bytes), VERSION)
    pass_ms(topics, WAIT_MS - 1)
    assert asking.outcome is None
    pass_ms(topics, 1)
    assert bytes_of(topics, asking) == 0 and is_unwatched(topics)


@pytest.mark.parametrize(("over", "appends"), [(-1, 2), (0, 2), (1, 3)])
async def test_it_waits_for_min_bytes_of_all_its_partitions(topics: Harness, over: int, appends: int) -> None:
    asking = await topics.put(request(2 * BATCH + over), VERSION)
    for at, name in enumerate(("first", "second", "third")[:appends]):
        assert asking.outcome is None, at
        await append(topics, name)
    assert bytes_of(topics, asking) == appends * BATCH and is_unwatched(topics)


async def test_bytes_that_a_partition_has_already_count(topics: Harness) -> None:
    await append(topics, "second")
    asking = await topics.put(request(2 * BATCH), VERSION)
    assert asking.outcome is None
    await append(topics, "second")
    assert bytes_of(topics, asking) == 2 * BATCH


async def test_records_that_suffice_are_answered_at_once(topics: Harness) -> None:
    await append(topics)
    asking = await topics.put(request(BATCH), VERSION)
    assert bytes_of(topics, asking) == BATCH and is_unwatched(topics)


@pytest.mark.parametrize(("max_wait_ms", "min_bytes"), [(0, 1_000), (WAIT_MS, 0)])
async def test_a_fetch_that_wants_no_wait_or_no_bytes_is_answered_at_once(
    topics: Harness, max_wait_ms: int, min_bytes: int
) -> None:
    asking = await topics.put(request(min_bytes, max_wait_ms=max_wait_ms), VERSION)
    assert bytes_of(topics, asking) == 0 and is_unwatched(topics)


async def test_a_partition_counts_up_to_its_own_limit(topics: Harness) -> None:
    asking = await topics.put(request(BATCH + 1, partition_max_bytes=BATCH), VERSION)
    for _ in range(3):
        await append(topics, "first")
        assert asking.outcome is None
    await append(topics, "second")
    assert bytes_of(topics, asking) == 2 * BATCH


async def test_a_partition_that_is_named_twice_counts_once(topics: Harness) -> None:
    asking = await topics.put(request(2 * BATCH, twice=True), VERSION)
    await append(topics)
    assert asking.outcome is None
    await append(topics)
    assert asking.outcome is not None


async def test_a_topic_that_is_deleted_meanwhile_ends_the_wait(topics: Harness) -> None:
    asking = await topics.put(request(1_000), VERSION)
    pass_ms(topics, 300)
    await topics.ask(DeleteTopicsRequest(topic_names=["second"], timeout_ms=1_000), 5)
    errors = {each.topic: each.partitions[0].error_code for each in topics.answer(asking).responses}
    assert errors == {"first": 0, "second": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "third": 0}
    assert is_unwatched(topics)


async def test_a_partition_that_cannot_be_read_any_longer_ends_the_wait(topics: Harness) -> None:
    asking = await topics.put(request(1_000), VERSION)
    log_of(topics, "second").go_offline(OSError(5, "Input/output error"))
    await append(topics, "first")
    assert asking.outcome is None, "another partition has moved"
    topics.fetches.check_and_complete(log_of(topics, "second"))
    assert is_unwatched(topics)


async def test_only_the_partition_that_has_moved_is_read(
    topics: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    really = PartitionLog.read

    def watched(log: PartitionLog, *args: Any, **kwargs: Any) -> Any:
        read.append(log.topic)
        return really(log, *args, **kwargs)

    if COMPILED:
        pytest.skip("a method of a compiled class cannot be replaced")
    await topics.put(request(100_000), VERSION)
    monkeypatch.setattr(PartitionLog, "read", watched)
    await append(topics, "second")
    await append(topics, "third")
    assert read == ["second", "third"]


async def test_a_client_that_goes_is_waited_for_no_longer(topics: Harness) -> None:
    connection = Connection()
    await topics.put(request(1_000), VERSION, connection=connection)
    assert connection.waiting is not None
    connection.waiting.settle(OperationState.CANCELLED)
    assert len(topics.fetches.any_watchers) == topics.fetches.watched == 0


async def test_nothing_that_is_appended_between_two_slices_is_missed(
    topics: Harness,
) -> None:
    """The append follows each of the slices in turn."""
    fetch = a01_fetch.fetch
    slices = sum(1 for _ in fetch(request(1), -1, await _context(topics), topics.services[FetchServices]))
    assert slices > 6
    for stop in range(slices):
        before = log_of(topics, "first").high_watermark
        message = request(1)
        message.topics[0].partitions[0].fetch_offset = before
        work = fetch(message, -1, await _context(topics), topics.services[FetchServices])
        for _ in range(stop):
            next(work)
        await append(topics)
        outcome = run_through(work)
        assert isinstance(outcome, Response), stop
        first = outcome.reply.responses[0].partitions[0]
        assert len(first.records) == BATCH
        assert is_unwatched(topics)


async def _context(harness: Harness) -> RequestContext:
    """Return the context of a completed request."""
    return (await harness.put(request(0), VERSION)).context


def _stops(steps: int) -> list[int]:
    """Steps after which a fetch stops: the first and last ones, and every 29th between them."""
    return sorted({1, 2, 3, *range(1, steps, 29), steps - 3, steps - 2, steps - 1})


async def test_a_fetch_that_is_given_up_between_two_slices_watches_nothing(topics: Harness) -> None:
    services = topics.services[FetchServices]
    slices = sum(1 for _ in a01_fetch.fetch(request(1), -1, await _context(topics), services))
    pass_ms(topics, WAIT_MS)
    for stop in _stops(slices):
        work = a01_fetch.fetch(request(1), -1, await _context(topics), topics.services[FetchServices])
        for _ in range(stop):
            next(work)
        work.close()
        assert is_unwatched(topics), stop


@pytest.mark.parametrize(("over", "waits"), [(-1, False), (0, True), (1, True)])
async def test_the_fetches_that_wait_have_so_many_partitions_together(
    topics: Harness, monkeypatch: pytest.MonkeyPatch, over: int, waits: bool
) -> None:
    monkeypatch.setattr(a01_fetch, "MAX_WAITING", 2 * (PARTITIONS + 2) + over)
    correlation_ids = [await topics.put(request(1), VERSION) for _ in range(2)]
    assert [asking.outcome is None for asking in correlation_ids] == [True, waits]


async def test_a_small_fetch_beside_it_is_completed_too(topics: Harness) -> None:
    large = await topics.put(request(1), VERSION)
    topic = FetchTopic("first", partitions=[FetchPartition(0, fetch_offset=0, partition_max_bytes=1_000)])
    small = await topics.put(FetchRequest(max_wait_ms=WAIT_MS, min_bytes=1, topics=[topic]), VERSION)
    topics.append("second", WALL_MS)
    assert (large.outcome, small.outcome) == (None, None)
    await append(topics)
    assert bytes_of(topics, large) > 0 and bytes_of(topics, small) == BATCH


async def begin_session(harness: Harness) -> int:
    begun = await harness.ask(replace_session(request(0), 0, 0), VERSION)
    assert begun.error_code == ErrorCode.NONE and begun.session_id > 0
    return int(begun.session_id)


def replace_session(message: FetchRequest, session_id: int, epoch: int) -> FetchRequest:
    message.session_id, message.session_epoch = session_id, epoch
    return message


async def test_a_session_that_is_closed_between_two_slices_is_not_found(topics: Harness) -> None:
    services = topics.services[FetchServices]
    session_id = await begin_session(topics)
    message = FetchRequest(session_id=session_id, session_epoch=1, topics=[])
    slices = sum(1 for _ in a01_fetch.fetch(message, -1, await _context(topics), services))
    found = set()
    for stop in _stops(slices):
        session_id = await begin_session(topics)
        message = FetchRequest(max_wait_ms=0, session_id=session_id, session_epoch=1, topics=[])
        work = a01_fetch.fetch(message, -1, await _context(topics), services)
        for _ in range(stop):
            next(work)
        services.sessions.close(session_id)
        outcome = run_through(work)
        assert isinstance(outcome, Response), stop
        found.add(outcome.reply.error_code)  # type: ignore[attr-defined]
    assert found == {ErrorCode.NONE, ErrorCode.FETCH_SESSION_ID_NOT_FOUND}


async def test_the_partitions_of_a_session_are_gone_through_in_slices(topics: Harness) -> None:
    services = topics.services[FetchServices]
    session = services.sessions.create(partitions=1, uses_topic_ids=False, now_ms=0)
    assert session is not None
    count = 10 * SLICE
    for at in range(count):
        requested = RequestedPartition("none", bytes(16), at, 0, 1, None, ErrorCode.NONE)
        session.add(("none", bytes(16), at), requested)
    services.sessions.recount(session)
    message = FetchRequest(max_wait_ms=0, session_id=session.id, session_epoch=1, topics=[])
    steps = requested_partitions(message, await _context(topics), services)
    assert sum(1 for _ in steps) == 3 * count, "looked at, looked up, and returned"


async def test_unsent_partitions_become_news_again_in_slices(topics: Harness) -> None:
    services = topics.services[FetchServices]
    session_id = await begin_session(topics)
    session = services.sessions.resume(session_id, 1, uses_topic_ids=False, now_ms=0)
    requested = session.requested()
    session.unsent = [FetchedPartition(each, ErrorCode.NONE, 0, 0, b"") for each in requested] * 4
    left = [len(session.unsent)]
    message = FetchRequest(max_wait_ms=0, session_id=session_id, session_epoch=2, topics=[])
    for _ in requested_partitions(message, await _context(topics), services):
        left.append(len(session.unsent))
    assert left[-1] == 0 and max(one - two for one, two in pairwise(left)) == SLICE
    assert all(each.high_watermark == -1 for each in session.partitions.values())
