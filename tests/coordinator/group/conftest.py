"""A `Conversation` with Kafka's defaults."""

import pytest

from tests.coordinator.group.conversation import Conversation


@pytest.fixture
def talk() -> Conversation:
    return Conversation()
