"""The broker's settings of groups, changed while it runs, on the mock clock."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from trio.testing import MockClock

from broker.coordinator.group.share.group import ShareGroup
from broker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.support.live import ALL_BROKERS, alter, takes_effect
from tests.support.produce import create_topic
from tests.support.running import RunningBroker, running_broker

LARGE = 600
"""Partitions of a group that is assigned in pieces."""


@pytest.fixture
async def broker(tmp_path: Path, mock_clock: MockClock) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path, "group.coordinator.append.linger.ms=-1") as running:
        client = await running.connect()
        assert (await client.ask(create_topic("events", LARGE), 5)).topics[0].error_code == 0
        found = await client.ask(FindCoordinatorRequest(coordinator_keys=["readers"]), 4)
        assert found.coordinators[0].error_code == 0
        yield running


async def assigned(broker: RunningBroker, member: str) -> int:
    """Return how many partitions a member is told to have that joins now."""
    client = await broker.connect()
    joining = ConsumerGroupHeartbeatRequest(
        "readers",
        member,
        0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["events"],
        topic_partitions=[],
    )
    reply = await client.ask(joining, 1)
    assert reply.error_code == 0, reply.error_message
    return sum(len(topic.partitions) for topic in reply.assignment.topic_partitions)


@takes_effect("group.consumer.assignment.interval.ms")
async def test_how_long_members_wait_to_be_assigned_together(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    group = broker.server.delayed.groups.groups.coordinator.groups
    assert await assigned(broker, "a") == LARGE
    assert await assigned(broker, "b") == 0 and group.by_id["readers"].target_epoch == 2
    await alter(broker, ALL_BROKERS, group_consumer_assignment_interval_ms="0")
    await assigned(broker, "c")
    assert group.by_id["readers"].target_epoch == 4


@takes_effect("group.share.assignment.interval.ms")
async def test_how_long_members_of_a_share_group_wait(broker: RunningBroker, mock_clock: MockClock) -> None:
    groups = broker.server.delayed.groups.groups.coordinator.groups
    assert groups.times_of(ShareGroup("g")).assignment_interval_ms == 1_000
    await alter(broker, group_share_assignment_interval_ms="15000")
    assert groups.times_of(ShareGroup("g")).assignment_interval_ms == 15_000


@takes_effect("group.streams.assignment.interval.ms")
async def test_how_long_members_of_a_streams_group_wait(broker: RunningBroker, mock_clock: MockClock) -> None:
    groups = broker.server.delayed.groups.groups.coordinator.groups
    assert groups.streams_settings_of("g").assignment_interval_ms == 1_000
    await alter(broker, group_streams_assignment_interval_ms="15000")
    assert groups.streams_settings_of("g").assignment_interval_ms == 15_000
