"""The broker's events as a reader of their topics finds them."""

import json
from typing import Any

import trio
from trio.testing import MockClock

from broker.records.walk import batches, records
from tests.support.running import RunningBroker


async def second_passes(mock_clock: MockClock, seconds: float = 1.0) -> None:
    """The next second's events are written, and on the disk's side of the broker."""
    mock_clock.jump(seconds)
    await trio.testing.wait_all_tasks_blocked(0.02)


def written(broker: RunningBroker, kind: str) -> list[dict[str, Any]]:
    """Every event of one kind so far, oldest first, without what all have: version and time."""
    return [_opened(value) for value in values(broker, f"__weir_{kind}")]


def values(broker: RunningBroker, topic: str) -> list[bytes]:
    hosted = broker.house.partitions.by_name.get(topic)
    if hosted is None:
        return []
    log = hosted.log(0)
    assert log is not None
    chunk = log.read(0, 64 * 1024 * 1024, min_one_batch=True).read()
    return [bytes(each.value or b"") for batch in batches(chunk) for each in records(batch)]


def _opened(value: bytes) -> dict[str, Any]:
    event: dict[str, Any] = json.loads(value)
    assert event.pop("v") == 1 and event.pop("time_ms") > 0
    return event
