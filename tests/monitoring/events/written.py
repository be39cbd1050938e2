"""Reads the broker's events from their topics."""

import json
from typing import Any

import trio
from trio.testing import MockClock

from broker.records.walk import Record, batches, records
from tests.support.running import RunningBroker


async def second_passes(broker: RunningBroker, mock_clock: MockClock) -> None:
    """Wait until the next second's events are in their topics.

    A thread creates topics, independent of the mock clock: so this calls the writer once more, which is
    done when it returns.
    """
    mock_clock.jump(1.0)
    await trio.testing.wait_all_tasks_blocked(0.02)
    await broker.server.events.write()


def written(broker: RunningBroker, kind: str) -> list[dict[str, Any]]:
    """Return every event of one kind so far, oldest first, without version and time."""
    version = 3 if kind == "requests" else 1
    return [_opened(value, version) for value in values(broker, f"__weir_{kind}")]


def quota_events(broker: RunningBroker, *kinds: str) -> list[dict[str, Any]]:
    """Return the events of `limit`, `shadow` or `snapshot`, oldest first, without version and time."""
    found = (json.loads(value) for value in values(broker, "__weir_quota_changes"))
    events = [each for each in found if each["event"] in kinds]
    for each in events:
        assert each.pop("v") == 2 and each.pop("time_ms") > 0
    return events


def values(broker: RunningBroker, topic: str) -> list[bytes]:
    return [bytes(each.value or b"") for each in event_records(broker, topic)]


def event_records(broker: RunningBroker, topic: str) -> list[Record]:
    """Return the records of all partitions, by time and within a partition in order."""
    hosted = broker.server.partitions.by_name.get(topic)
    found: list[Record] = []
    for index in range(0 if hosted is None else hosted.count):
        found += partition_records(broker, topic, index)
    return sorted(found, key=lambda each: each.timestamp)


def partition_records(broker: RunningBroker, topic: str, partition: int) -> list[Record]:
    log = broker.server.partitions.by_name[topic].log(partition)
    assert log is not None
    chunk = log.read(0, 64 * 1024 * 1024, min_one_batch=True).read()
    return [each for batch in batches(chunk) for each in records(batch)]


def _opened(value: bytes, version: int) -> dict[str, Any]:
    event: dict[str, Any] = json.loads(value)
    assert event.pop("v") == version and event.pop("time_ms") > 0
    return event
