"""A networkless broker with a topic "orders" that the group "readers" starts to read at offset 0."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.api.harness import Harness


async def start(directory: Path, *overrides: str) -> Harness:
    harness = Harness(directory, "share.coordinator.state.topic.num.partitions=1", *overrides)
    if "orders" not in harness.partitions.by_name:
        await harness.create_topic("orders", partitions=2)
        topic_id = harness.partitions.by_name["orders"].topic_id
        for partition in range(2):
            await harness.share.persister.initialize("readers", topic_id, partition, 0)
    return harness


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[Harness]:
    harness = await start(tmp_path)
    yield harness
    harness.close()
