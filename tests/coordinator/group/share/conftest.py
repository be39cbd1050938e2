"""Share groups with Kafka's defaults and a topic of four partitions."""

import pytest

from tests.coordinator.group.share.sharers import Sharers


@pytest.fixture
def talk() -> Sharers:
    return Sharers()
