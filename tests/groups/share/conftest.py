"""Share groups with Kafka's defaults and a topic of four partitions."""

import pytest

from tests.groups.share.sharers import Sharers


@pytest.fixture
def talk() -> Sharers:
    return Sharers()
