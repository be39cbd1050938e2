"""The memory pools of the socket servers. (Kafka: SocketServer's MemoryPoolAvailable and MemoryPoolUsed,
and the Meter of its memoryPoolSensor)

Without a memory bound the values are those of Kafka's MemoryPool.NONE.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from broker.metrics.families import FamilySamples, Kind, Sample
from broker.network.memory.leased_frames import LeasedFrames
from broker.quotas.connection_metrics import label_of

ENDLESS: Final = 2**63 - 1
"""The available memory of MemoryPool.NONE."""


FAMILIES: Final = (
    (
        "kafka_network_socketserver_memorypoolavailable",
        "Free bytes of the request memory pool",
        Kind.GAUGE,
    ),
    ("kafka_network_socketserver_memorypoolused", "Used bytes of the request memory pool", Kind.GAUGE),
    (
        "kafka_server_socket_server_metrics_memorypoolavgdepletedpercent",
        "Share of time in which the memory pool was depleted",
        Kind.GAUGE,
    ),
    (
        "kafka_server_socket_server_metrics_memorypooldepletedtimetotal",
        "Milliseconds in which the memory pool was depleted",
        Kind.COUNTER,
    ),
    ("weir_memory_pool_waiting", "Connections waiting for request memory", Kind.GAUGE),
)


def families(servers: Mapping[str, LeasedFrames | None], now_ms: int) -> Iterator[FamilySamples]:
    """Yield the families by socket server, a label if there are several. None: no
    `queued.max.request.bytes`.
    """
    values = {name: _values(frames, now_ms) for name, frames in servers.items()}
    for number, (name, text, kind) in enumerate(FAMILIES):
        samples = [Sample(label_of(server, servers), each[number]) for server, each in values.items()]
        yield FamilySamples(name, text, kind, samples)


def _values(frames: LeasedFrames | None, now_ms: int) -> tuple[float, ...]:
    """Return the values in the order of `FAMILIES`."""
    if frames is None:
        return ENDLESS, 0, 0.0, 0.0, 0
    memory = frames.memory
    memory.account(now_ms)
    depleted = memory.depleted
    return memory.available, memory.used, depleted.rate.measure(now_ms), depleted.total, frames.waiting
