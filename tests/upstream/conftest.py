"""The tables of the Kafka that Weir follows, from the jars that the other tests with Kafka's tools use."""

import pytest

from benchmarks.install import KAFKA_LIBS
from broker.common.version import KAFKA_VERSION
from tests.upstream.jars import Tables, read


@pytest.fixture(scope="package")
def kafka() -> Tables:
    found = read(KAFKA_LIBS)
    assert found.version == KAFKA_VERSION
    return found
