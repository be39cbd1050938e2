"""The gateway's own connections to a real cluster: every way to log in, nodes that stop, die and return."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
import trio

from broker.config.listeners import Address, SecurityProtocol, read_address
from broker.config.sections import UpstreamConfig
from broker.controller.rows.upstream import UpstreamCondition
from broker.gateway.upstream.client import UpstreamClient
from broker.gateway.upstream.cluster import UpstreamCluster
from broker.gateway.upstream.errors import Reason, UpstreamError
from broker.gateway.upstream.security import UpstreamSecurity
from broker.network.clock import TrioClock
from broker.protocol.messages.metadata import MetadataRequest
from broker.security.client_login import SCRAM_MODULE
from broker.security.plain import PLAIN_MODULE
from tests.support import kafka_tools
from tests.support.broker_process import USERS
from tests.support.certificates import certificates
from tests.support.kafka_cluster import CLUSTER_ID, KafkaCluster

pytestmark = kafka_tools.pytestmark

WITHIN_S: Final = 60


def servers(cluster: KafkaCluster, listener: str) -> tuple[Address, ...]:
    return tuple(read_address(each) for each in cluster.bootstrap(listener).split(","))


def login(mechanism: str, password: str = USERS["alice"]) -> dict[str, Any]:
    module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
    return {
        "security_protocol": SecurityProtocol.SASL_PLAINTEXT,
        "sasl_mechanism": mechanism,
        "sasl_jaas_config": f'{module} required username="alice" password="{password}";',
    }


@asynccontextmanager
async def watching(config: UpstreamConfig) -> AsyncIterator[tuple[UpstreamCluster, UpstreamClient]]:
    clock = TrioClock()
    security = UpstreamSecurity(config, clock)
    upstream = UpstreamCluster(config, security, clock)
    client = UpstreamClient(config, security, upstream)
    async with trio.open_nursery() as nursery:
        await nursery.start(upstream.run)
        await nursery.start(client.run)
        yield upstream, client
        nursery.cancel_scope.cancel()


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(WITHIN_S):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in another process
            await trio.sleep(0.05)


def are_connected(upstream: UpstreamCluster, *node_ids: int) -> bool:
    """Whether the cluster has these nodes and no other, and all are connected."""
    states = upstream.node_states.values()
    return tuple(upstream.nodes) == node_ids and all(
        s.condition is UpstreamCondition.CONNECTED for s in states
    )


def way_of(name: str) -> tuple[str, dict[str, Any]]:
    """A listener, and how the gateway connects to it."""
    match name:
        case "plain":
            return "PLAINTEXT", {}
        case "tls":
            authority = str(certificates().authority.certificate)
            return "SSL", {"security_protocol": SecurityProtocol.SSL, "ssl_truststore_location": authority}
    return "SASL_PLAINTEXT", login(name)


@pytest.mark.parametrize("way", ["plain", "tls", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_every_node_is_found_and_asked(cluster: KafkaCluster, way: str) -> None:
    listener, more = way_of(way)
    config = UpstreamConfig(bootstrap_servers=servers(cluster, listener)[:1], **more)
    async with watching(config) as (upstream, client):
        await until(lambda: are_connected(upstream, 1, 2, 3))
        assert upstream.cluster_id == CLUSTER_ID
        assert tuple(node.address for node in upstream.nodes.values()) == servers(cluster, listener)
        for node_id in (1, 2, 3, None):
            answer = await client.request(node_id, MetadataRequest([]))
            assert sorted(broker.node_id for broker in answer.brokers) == [1, 2, 3]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_a_wrong_password_is_refused(cluster: KafkaCluster, mechanism: str) -> None:
    more = login(mechanism, "wrong")
    config = UpstreamConfig(bootstrap_servers=servers(cluster, "SASL_PLAINTEXT"), **more)
    async with watching(config) as (upstream, client):
        with pytest.raises(UpstreamError, match="Authentication failed") as caught:
            await client.request(None, MetadataRequest([]))
        assert caught.value.reason is Reason.CREDENTIALS
        await until(lambda: upstream.state.condition is UpstreamCondition.CREDENTIALS)


async def test_nodes_that_stop_and_die_are_followed(
    cluster: KafkaCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="broker.gateway")

    def lines(node_id: int) -> list[str]:
        return [r.getMessage() for r in caplog.records if getattr(r, "node", None) == node_id]

    config = UpstreamConfig(bootstrap_servers=servers(cluster, "PLAINTEXT"))
    async with watching(config) as (upstream, client):
        await until(lambda: are_connected(upstream, 1, 2, 3))
        stopped, killed = cluster.nodes[2], cluster.nodes[3]

        await trio.to_thread.run_sync(stopped.stop)
        await until(lambda: are_connected(upstream, 1, 3))
        assert lines(2)[-1] == "an upstream node left" and len(lines(2)) <= 2
        with pytest.raises(UpstreamError, match="no upstream node has the id 2"):
            await client.request(2, MetadataRequest([]))
        stopped.start()
        await until(lambda: are_connected(upstream, 1, 2, 3))
        assert lines(2)[-1] == "an upstream node joined" and len(lines(2)) <= 3
        await trio.to_thread.run_sync(cluster.wait)

        killed.kill()
        await until(lambda: are_connected(upstream, 1, 2))
        assert lines(3) == ["cannot reach an upstream node", "an upstream node left"]
        killed.start()
        await until(lambda: are_connected(upstream, 1, 2, 3))
        assert lines(3)[2:] == ["an upstream node joined"]
        await trio.to_thread.run_sync(cluster.wait)
        await client.request(3, MetadataRequest([]))
        assert lines(1) == []
