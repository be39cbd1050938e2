"""Three brokers of Apache Kafka with two gateways in front of them, which share their limits.

Used by demo.__main__ with --gateways. Everything is in temporary folders and ends with the demo.
"""

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from demo.place import Place, own_broker
from tests.support.kafka_cluster import KafkaCluster

NODES: Final = 3
PORTS: Final = 10
"""Ports of a gateway's nodes, behind its bootstrap port."""

SECOND: Final = 100
"""From the first gateway's ports to the second's."""

KAFKA_PORTS: Final = tuple(gateway + port for gateway in (0, SECOND) for port in range(PORTS + 1))
CONSOLE_PORTS: Final = (0, SECOND)
"""What both gateways need above the first one's ports."""


@contextmanager
def own_gateways(bootstrap: str, console: str) -> Iterator[Place]:
    """The first gateway is at `bootstrap` and `console`, the second at the same ports plus `SECOND`. Clients
    connect to both; what is changed at the console holds at both.
    """
    token = secrets.token_urlsafe(32)
    with tempfile.TemporaryDirectory(prefix="weir-demo-kafka-") as data:
        click.echo("Three Kafka brokers start; this takes some ten seconds.")
        with KafkaCluster(Path(data), NODES) as cluster:
            upstream, key = cluster.bootstrap(), Path(data) / "weir-cluster-key"
            key.touch(mode=0o600)
            key.write_text(secrets.token_hex(32))
            second = own_broker(
                _moved(bootstrap),
                _moved(console),
                *_settings(upstream, _moved(bootstrap), 1, key),
                command="gateway",
                token=token,
            )
            first = own_broker(
                bootstrap, console, *_settings(upstream, bootstrap, 0, key), command="gateway", token=token
            )
            with first as place, second as other:
                other.wait_until_ready()
                click.echo(f"Gateways: {bootstrap} and {other.bootstrap}; the second console: {other.url}")
                yield replace(place, bootstrap=f"{bootstrap},{other.bootstrap}")


def _settings(upstream: str, bootstrap: str, number: int, key: Path) -> list[str]:
    port = int(bootstrap.rpartition(":")[2])
    return [
        f"upstream.bootstrap.servers={upstream}",
        f"gateway.port.range={port + 1}-{port + PORTS}",
        f"node.id={100 + number}",
        "quota.scope=cluster",
        f"gateway.cluster.keys.location={key}",
    ]


def _moved(address: str) -> str:
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) + SECOND}"
