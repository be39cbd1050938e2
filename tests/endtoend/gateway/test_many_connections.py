"""5,000 clients on one gateway: each is served on its own upstream connection, an idle pair of connections
takes little memory, and all upstream connections end with their clients.
"""

import resource
import selectors
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from broker.protocol.api_key import ApiKey
from broker.protocol.codec import encode_request
from broker.protocol.messages.metadata import MetadataRequest
from tests.support import kafka_tools
from tests.support.broker_process import within
from tests.support.gateway_process import GatewayProcess
from tests.support.kafka_cluster import KafkaCluster

CONNECTIONS: Final = 5_000
AT_ONCE: Final = 250
"""Connections that wait for their first response."""
PAIR_BYTES: Final = 40 * 1_024
DESCRIPTORS: Final = CONNECTIONS + 1_000

pytestmark = [
    *kafka_tools.pytestmark,
    pytest.mark.skipif(
        resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 2 * CONNECTIONS + 1_000,
        reason="needs 11,000 open files for the gateway",
    ),
]


@contextmanager
def open_files(count: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(count, before[0]), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def resident(gateway: GatewayProcess) -> int:
    """Bytes of anonymous memory."""
    status = Path(f"/proc/{gateway.running.pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("RssAnon"))
    return int(line.split()[1]) * 1_024


def upstream_connections(gateway: GatewayProcess) -> int:
    return sum(node["connections"] for node in gateway.ask("GET", "/api/v1/upstream")["nodes"])


def ask_all(stack: ExitStack, addresses: list[tuple[str, int]], frame: bytes) -> list[socket.socket]:
    """Connect, send the frame on each connection, and return them when each has its response."""
    opened: list[socket.socket] = []
    for first in range(0, len(addresses), AT_ONCE):
        waiting = selectors.DefaultSelector()
        for address in addresses[first : first + AT_ONCE]:
            connection = stack.enter_context(socket.create_connection(address, timeout=30))
            connection.sendall(frame)
            waiting.register(connection, selectors.EVENT_READ)
            opened.append(connection)
        while waiting.get_map():
            found = waiting.select(60)
            assert found, f"{len(waiting.get_map())} connections have no response"
            for key, _ in found:
                connection = opened[[each.fileno() for each in opened].index(key.fd)]
                (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
                assert len(connection.recv(size, socket.MSG_WAITALL)) == size
                waiting.unregister(connection)
        waiting.close()
    return opened


def test_five_thousand_clients_are_served_in_little_memory(cluster: KafkaCluster, tmp_path: Path) -> None:
    frame = b"".join(encode_request(ApiKey.METADATA, 9)(MetadataRequest([]), 1, "many"))
    with (
        open_files(DESCRIPTORS),
        GatewayProcess(tmp_path, cluster.bootstrap()) as gateway,
        ExitStack() as stack,
    ):
        nodes = [(host, int(port)) for host, port in (a.split(":") for a in gateway.addresses.values())]
        # The first connections have what the gateway allocates once.
        ask_all(stack, nodes * 20, frame)
        own = upstream_connections(gateway)
        before = resident(gateway)
        clients = ask_all(stack, [nodes[at % 3] for at in range(CONNECTIONS)], frame)
        pair_bytes = (resident(gateway) - before) / CONNECTIONS
        print(f"{pair_bytes:,.0f} bytes of a pair")
        assert upstream_connections(gateway) == own + CONNECTIONS
        assert 0 < pair_bytes < PAIR_BYTES
        for client in clients:
            client.close()
        within(60, lambda: upstream_connections(gateway) == own, "the upstream connections are closed")
