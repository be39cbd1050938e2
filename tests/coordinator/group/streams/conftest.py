"""A streams group without delays, a topic of four partitions, and the changelog that its state needs."""

import pytest

from tests.coordinator.group.streams.streamers import Streamers


@pytest.fixture
def talk() -> Streamers:
    return Streamers()
