"""The partition errors that complete a replica's fetch at once; it waits for throttled partitions."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from broker.api.a01_fetch import fetch
from broker.api.requests.services import FetchServices
from broker.common.errors import ErrorCode
from broker.common.slices import SLICE
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.quotas.replication import ReplicationQuotaManager
from tests.api.fetch_cases import (
    ALONE,
    EMPTY,
    FULL,
    NONE,
    UNKNOWN,
    WAIT_MS,
    Asker,
    Case,
    log_of,
    pass_ms,
    prepare,
)
from tests.api.harness import Asking, Harness
from tests.support.produce import batch_of, produce_request


@pytest.fixture
async def topics(harness: Harness) -> Harness:
    await prepare(harness)
    return harness


async def ask_as_replica(harness: Harness, *cases: Case) -> Asking:
    asker = Asker(harness, 12, ALONE)
    message = FetchRequest(
        replica_id=2,
        max_wait_ms=WAIT_MS,
        min_bytes=1,
        max_bytes=1_000_000,
        session_epoch=-1,
        topics=[asker.topic(case) for case in cases],
    )
    return await harness.put(message, 12)


@contextmanager
def throttled(harness: Harness, topic: str) -> Iterator[None]:
    quota = harness.replication.leader
    quota.mark(topic)
    quota.bound = 1
    quota.record(1_000_000, harness.clock.ms())
    assert quota.is_exceeded(harness.clock.ms())
    yield


def codes(harness: Harness, asking: Asking) -> list[int]:
    return [each.error_code for topic in harness.answer(asking).responses for each in topic.partitions]


@pytest.mark.parametrize("case", [UNKNOWN, replace(UNKNOWN, topic="other", partition=1)], ids=str)
async def test_a_replica_waits_beside_an_unknown_partition_too(topics: Harness, case: Case) -> None:
    asking = await ask_as_replica(topics, case, EMPTY)
    assert asking.outcome is None
    pass_ms(topics, WAIT_MS)
    assert codes(topics, asking) == [3, 0]


async def test_a_partition_that_is_held_is_one_to_wait_for(topics: Harness) -> None:
    with throttled(topics, "full"):
        asking = await ask_as_replica(topics, UNKNOWN, FULL)
        assert asking.outcome is None
        pass_ms(topics, WAIT_MS)
        assert codes(topics, asking) == [3, 0]


async def test_a_held_partition_that_cannot_be_read_is_answered_at_once(topics: Harness) -> None:
    with throttled(topics, "full"):
        log_of(topics, "full").go_offline(OSError(5, "Input/output error"))
        assert codes(topics, await ask_as_replica(topics, UNKNOWN, FULL)) == [3, 56]


async def test_a_failed_partition_ends_a_wait_that_an_append_to_a_held_one_does_not(topics: Harness) -> None:
    with throttled(topics, "full"):
        other = Case("other", NONE, True)
        asking = await ask_as_replica(topics, other, FULL)
        await topics.put(produce_request(batch_of(b"x"), "full"), 9)
        assert asking.outcome is None
        log_of(topics, "other").go_offline(OSError(5, "Input/output error"))
        await topics.put(produce_request(batch_of(b"x"), "full"), 9)
        assert codes(topics, asking) == [ErrorCode.KAFKA_STORAGE_ERROR, 0]


async def test_a_replica_that_is_refused_everything_is_answered_at_once(topics: Harness) -> None:
    topics.security.configure(type(topics.security.config)(wire_role="editor"))
    asking = await ask_as_replica(topics, UNKNOWN, EMPTY)
    assert asking.context.exempt
    assert codes(topics, asking) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 2


async def test_a_slice_of_a_large_replica_fetch_checks_one_piece_of_its_partitions(
    topics: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await topics.create_topic("wide", 2 * SLICE)
    message = FetchRequest(
        replica_id=2,
        max_wait_ms=0,
        session_epoch=-1,
        topics=[FetchTopic("wide", partitions=[FetchPartition(at) for at in range(2 * SLICE)])],
    )
    checked: list[int] = []
    is_marked = ReplicationQuotaManager.is_marked

    def counted(manager: ReplicationQuotaManager, topic: str, partition: int) -> bool:
        checked.append(partition)
        return is_marked(manager, topic, partition)

    monkeypatch.setattr(ReplicationQuotaManager, "is_marked", counted)
    asking = await topics.put(FetchRequest(replica_id=2, max_wait_ms=0, session_epoch=-1), 12)
    checked.clear()
    most = before = 0
    with throttled(topics, "wide"):
        for _ in fetch(message, 2, asking.context, topics.services[FetchServices]):
            most, before = max(most, len(checked) - before), len(checked)
    assert most == SLICE and len(checked) == 4 * SLICE, "when it reads and when it records"
