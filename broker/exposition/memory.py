"""The memory of requests. (Kafka: SocketServer's MemoryPoolAvailable and MemoryPoolUsed, and the Meter of
its memoryPoolSensor)

Where memory is not bounded the figures are those of Kafka's MemoryPool.NONE.
"""

from collections.abc import Iterator
from typing import Final

from broker.metrics.registry import FamilySamples, Kind, Sample
from broker.network.memory.leased_frames import LeasedFrames

ENDLESS: Final = 2**63 - 1
"""What MemoryPool.NONE has available."""


def families(frames: LeasedFrames | None, now_ms: int) -> Iterator[FamilySamples]:
    """`frames` is None without `queued.max.request.bytes`."""
    available, used, waiting, share, total = ENDLESS, 0, 0, 0.0, 0.0
    if frames is not None:
        memory = frames.memory
        memory.account(now_ms)
        available, used, waiting = memory.available, memory.used, frames.waiting
        share, total = memory.depleted.rate.measure(now_ms), memory.depleted.total
    sockets, group = "kafka_network_socketserver", "kafka_server_socket_server_metrics"
    for name, text, kind, value in (
        (f"{sockets}_memorypoolavailable", "Bytes of requests that may still be read", Kind.GAUGE, available),
        (f"{sockets}_memorypoolused", "Bytes of requests in memory", Kind.GAUGE, used),
        (f"{group}_memorypoolavgdepletedpercent", "Share of time without memory", Kind.GAUGE, share),
        (f"{group}_memorypooldepletedtimetotal", "Milliseconds without memory", Kind.COUNTER, total),
        ("weir_memory_pool_waiting", "Connections that wait for memory", Kind.GAUGE, waiting),
    ):
        yield FamilySamples(name, text, kind, [Sample((), value)])
