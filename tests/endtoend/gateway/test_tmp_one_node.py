"""Temporary."""
import pytest
from tests.endtoend.gateway.test_shared_connections import *
from tests.endtoend.gateway.test_shared_connections import gateways
from tests.support.kafka_cluster import KafkaCluster
import tests.support.gateway_process as gp
gp.STARTED_WITHIN_S = 200

@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    with KafkaCluster(tmp_path_factory.mktemp("kafka"), 1) as running:
        yield running
