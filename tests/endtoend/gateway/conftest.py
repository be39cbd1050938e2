"""One cluster of three nodes for all tests of this folder: more do not fit into memory. Tests that kill or
stop a node start it again before they end.
"""

from collections.abc import Iterator
from typing import Final

import pytest

from tests.support.gateway_process import Way
from tests.support.kafka_cluster import KafkaCluster
from tests.support.streams import STREAMS_GROUPS

RACKS: Final = (
    "broker.rack=rack-{node}",
    "replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector",
)
"""Each node is in a rack of its own. Consumers that name no rack read from leaders."""


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with KafkaCluster(tmp_path_factory.mktemp("kafka"), 3, *STREAMS_GROUPS, *RACKS) as running:
        yield running


@pytest.fixture(scope="session", params=["kafka", "gateway"])
def way(
    request: pytest.FixtureRequest, cluster: KafkaCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Way]:
    """Directly to the cluster, which says what must pass, and through a gateway."""
    with Way(request.param, cluster, tmp_path_factory.mktemp(request.param)) as found:
        yield found
