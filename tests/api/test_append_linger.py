"""A heartbeat that changed its group is answered `group.coordinator.append.linger.ms` later."""

import errno
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.common.errors import ErrorCode
from broker.log import disk
from broker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from broker.purgatory.purgatory import OperationState
from tests.api.group import commit, find_coordinator
from tests.api.harness import Asking, Harness
from tests.api.test_consumer_groups import heartbeat

LINGER_MS = 5
"""Kafka's default, and ours."""


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[Harness]:
    harness = Harness(tmp_path, f"group.coordinator.append.linger.ms={LINGER_MS}")
    await harness.ask(CreateTopicsRequest([CreatableTopic("orders", 4, 1), CreatableTopic("other", 1, 1)]))
    await find_coordinator(harness)
    yield harness
    harness.close()


async def joined(harness: Harness) -> int:
    asking = await harness.put(heartbeat("m", 0, topics=["orders"]))
    harness.advance(LINGER_MS)
    reply = harness.answer(asking)
    assert (reply.error_code, reply.member_epoch) == (0, 2)
    return reply.member_epoch


def is_answered_after(harness: Harness, asking: Asking, linger_ms: int) -> bool:
    """Whether it is answered then, and not a millisecond earlier."""
    harness.advance(linger_ms - 1)
    if asking.outcome is not None:
        return False
    harness.advance(1)
    return asking.outcome is not None


async def test_a_new_subscription_is_answered_after_the_linger(harness):
    epoch = await joined(harness)
    asking = await harness.put(heartbeat("m", epoch, topics=["other"]))
    assert is_answered_after(harness, asking, LINGER_MS)
    reply = harness.answer(asking)
    assert (reply.error_code, reply.member_epoch, reply.assignment.topic_partitions) == (0, epoch, [])


async def test_joining_and_leaving_are_answered_after_the_linger(harness):
    assert is_answered_after(harness, await harness.put(heartbeat("m", 0, topics=["orders"])), LINGER_MS)
    asking = await harness.put(heartbeat("m", -1))
    assert is_answered_after(harness, asking, LINGER_MS)
    assert harness.answer(asking).member_epoch == -1


async def test_the_change_is_written_before_the_response_is_sent(harness):
    log = harness.groups.log_of("group")
    before = log.high_watermark
    asking = await harness.put(heartbeat("m", 0, topics=["orders"], group="group"))
    assert asking.outcome is None and log.high_watermark > before
    other = await harness.ask(heartbeat("m", 7, group="group"))
    assert other.error_code == ErrorCode.FENCED_MEMBER_EPOCH


async def test_a_heartbeat_that_changes_nothing_is_answered_at_once(harness):
    epoch = await joined(harness)
    assert (await harness.ask(heartbeat("m", epoch))).error_code == 0


async def test_a_refused_heartbeat_is_answered_at_once(harness):
    assert (await harness.ask(heartbeat("m", 3))).error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_a_heartbeat_that_cannot_be_written_is_answered_at_once(harness, monkeypatch):
    def no_space(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(disk, "write_at", no_space)
    refused = await harness.ask(heartbeat("m", 0, topics=["orders"]))
    assert refused.error_code == ErrorCode.NOT_COORDINATOR


async def test_commits_are_answered_at_once(harness):
    assert await commit(harness, 42) == ErrorCode.NONE


async def test_without_a_linger_every_heartbeat_is_answered_at_once(tmp_path):
    harness = Harness(tmp_path, "group.coordinator.append.linger.ms=0")
    await find_coordinator(harness)
    assert (await harness.ask(heartbeat("m", 0, topics=["orders"]))).error_code == 0
    harness.close()


@pytest.mark.parametrize("linger_ms", [1, 2, 1_000])
async def test_the_linger_is_the_configured_one(tmp_path, linger_ms):
    harness = Harness(tmp_path, f"group.coordinator.append.linger.ms={linger_ms}")
    await find_coordinator(harness)
    assert is_answered_after(harness, await harness.put(heartbeat("m", 0, topics=["orders"])), linger_ms)
    harness.close()


@pytest.mark.parametrize(
    ("begun_ns", "wait_ms"), [(0, LINGER_MS), (1, LINGER_MS + 1), (999_999, LINGER_MS + 1)]
)
async def test_a_response_is_never_early(harness, monkeypatch, begun_ns, wait_ms):
    monkeypatch.setattr(harness.clock, "ns", lambda: harness.clock.now_ms * 1_000_000 + begun_ns)
    assert is_answered_after(harness, await harness.put(heartbeat("m", 0, topics=["orders"])), wait_ms)


async def test_a_closed_connection_gets_no_response(harness):
    asking = await harness.put(heartbeat("m", 0, topics=["orders"]))
    asking.context.connection.waiting.settle(OperationState.CANCELLED)
    harness.advance(LINGER_MS)
    assert asking.outcome is None


async def test_shutdown_sends_what_waits(harness):
    asking = await harness.put(heartbeat("m", 0, topics=["orders"]))
    harness.linger.responses.complete_all(harness.clock.ms())
    harness.deliver()
    assert harness.answer(asking).member_epoch == 2
