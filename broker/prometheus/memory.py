"""The memory of requests, of each socket server. (Kafka: SocketServer's MemoryPoolAvailable and
MemoryPoolUsed, and the Meter of its memoryPoolSensor)

Where memory is not bounded the figures are those of Kafka's MemoryPool.NONE.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from broker.metrics.families import FamilySamples, Kind, Sample
from broker.network.memory.leased_frames import LeasedFrames
from broker.quotas.connection_metrics import label_of

ENDLESS: Final = 2**63 - 1
"""What MemoryPool.NONE has available."""


FAMILIES: Final = (
    (
        "kafka_network_socketserver_memorypoolavailable",
        "Bytes of requests that may still be read",
        Kind.GAUGE,
    ),
    ("kafka_network_socketserver_memorypoolused", "Bytes of requests in memory", Kind.GAUGE),
    (
        "kafka_server_socket_server_metrics_memorypoolavgdepletedpercent",
        "Share of time without memory",
        Kind.GAUGE,
    ),
    (
        "kafka_server_socket_server_metrics_memorypooldepletedtimetotal",
        "Milliseconds without memory",
        Kind.COUNTER,
    ),
    ("weir_memory_pool_waiting", "Connections that wait for memory", Kind.GAUGE),
)


def families(servers: Mapping[str, LeasedFrames | None], now_ms: int) -> Iterator[FamilySamples]:
    """By the name of the socket server, which is a label where there are several. None without
    `queued.max.request.bytes`.
    """
    values = {name: _values(frames, now_ms) for name, frames in servers.items()}
    for number, (name, text, kind) in enumerate(FAMILIES):
        samples = [Sample(label_of(server, servers), each[number]) for server, each in values.items()]
        yield FamilySamples(name, text, kind, samples)


def _values(frames: LeasedFrames | None, now_ms: int) -> tuple[float, ...]:
    """In the order of `FAMILIES`."""
    if frames is None:
        return ENDLESS, 0, 0.0, 0.0, 0
    memory = frames.memory
    memory.account(now_ms)
    depleted = memory.depleted
    return memory.available, memory.used, depleted.rate.measure(now_ms), depleted.total, frames.waiting
