"""Consumers with Kafka's defaults and a topic of four partitions."""

import pytest

from tests.coordinator.group.consumer.consumers import Consumers


@pytest.fixture
def talk() -> Consumers:
    return Consumers()
