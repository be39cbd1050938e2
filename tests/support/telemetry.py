"""Subscriptions for real clients' metrics, and what the broker shows of them. For tests with real clients."""

import socket
from urllib.parse import quote

from broker.controller.commands import OpType, ResourceType
from broker.protocol import codec
from broker.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.broker_process import BrokerProcess
from tests.support.prometheus import parse

CONNECTIONS = "org_apache_kafka_producer_connection_creation_total"


def subscribe(broker: BrokerProcess, **configs: str) -> None:
    ops = [AlterableConfig(key.replace("_", "."), OpType.SET, text) for key, text in configs.items()]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(ResourceType.CLIENT_METRICS, "s", ops)])
    frame = b"".join(map(bytes, codec.encode_request(request.API_KEY, 1)(request, 1, "test")))
    host, _, port = broker.plain.partition(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(frame)
        assert connection.recv(4)


def shown(broker: BrokerProcess, name: str, client_id: str) -> list[float]:
    """The samples of this name that a client has on /metrics."""
    family = parse(broker.ask("GET", "/metrics")).get(name)
    if family is None:
        return []
    return [value for (_, labels), value in family.samples.items() if ("client_id", client_id) in labels]


def gauges_shown(broker: BrokerProcess, client_id: str) -> dict[str, float]:
    """What Prometheus reads of a client, by family; those without labels of their own."""
    return {
        name: value
        for name, family in parse(broker.ask("GET", "/metrics")).items()
        for (_, labels), value in family.samples.items()
        if family.kind == "gauge" and name.startswith("org_") and len(labels) == 2
        if ("client_id", client_id) in labels
    }


def gauges_answered(broker: BrokerProcess, client_id: str) -> dict[str, float]:
    """What the REST API says of a client, by family; those without labels of their own."""
    (row,) = broker.ask("GET", f"/api/v1/client-instances?search={client_id}")["items"]
    instance = broker.ask("GET", f"/api/v1/client-instances/{quote(row['instance_id'], safe='')}")
    assert (instance["software_name"], instance["subscriptions"]) == ("confluent-kafka-python", ["s"])
    return {
        figure["name"].replace(".", "_"): figure["value"]
        for figure in instance["latest_metrics"]
        if figure["shape"] == "gauge" and not figure["attributes"]
    }
