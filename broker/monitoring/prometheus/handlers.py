"""Metrics of the request handlers, their queues, and the memory of requests. (Kafka: RequestChannel,
KafkaRequestHandlerPool, SocketServer's MemoryPoolAvailable and MemoryPoolUsed, the Meter of its
memoryPoolSensor)

Without a memory bound the values of the memory pool are those of Kafka's MemoryPool.NONE.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from broker.config.listeners import Plane
from broker.metrics.families import FamilySamples, MetricType, Sample, gauge
from broker.network.automq.handler_queues import RequestQueues
from broker.network.leased_receive import LeasedFrames
from broker.network.requests.request_channel import Requests
from broker.network.server_metrics import Idle
from broker.network.socket_server import SocketServer
from broker.quotas.connection_metrics import label_of

CHANNEL: Final = "kafka_network_requestchannel"
POOL: Final = "kafka_server_kafkarequesthandlerpool"

POOLS: Final = {
    Plane.DATA: "broker",
    Plane.CONTROLLER: "controller",
    Plane.CONTROL: "controlplane",
}
"""The name prefix of the metrics of a plane's own pool (KIP-1207, KIP-291)."""


def handler_families(server: SocketServer, idle: Idle) -> Iterator[FamilySamples]:
    """Yield the families."""
    yield from _queues(server)
    yield _share("requesthandleravgidle", "all pools", idle.handlers)
    for name in server.planes:
        share = idle.pools.get(name, 1.0)
        yield _share(f"{POOLS[name]}requesthandleravgidle", f"the pool {POOLS[name]}", share)


def _share(name: str, pool: str, idle: float) -> FamilySamples:
    about = f"Share of time without work for the request handlers of {pool}"
    return gauge(f"{POOL}_{name}_percent", about, idle)


def _queues(server: SocketServer) -> Iterator[FamilySamples]:
    for plane in server.planes.values():
        prefix = "" if plane.name is Plane.DATA else POOLS[plane.name]
        yield gauge(f"{CHANNEL}_{prefix}requestqueuesize", "Requests in the queue", plane.requests.depth())
    waiting = [(str(each.id), len(each.responder.responses)) for each in server.processors()]
    yield gauge(
        f"{CHANNEL}_responsequeuesize",
        "Responses in the queue, by processor; without that label, of all processors",
        [
            Sample((), sum(count for _, count in waiting)),
            *(Sample((("processor", name),), count) for name, count in waiting),
        ],
    )


def automq_families(requests: Requests) -> Iterator[FamilySamples]:
    """Yield the permits of the size semaphore, and the depth of each handler's queue."""
    if not isinstance(requests, RequestQueues):
        return
    yield gauge(
        "kafka_network_requestchannel_availablerequestsize",
        "Bytes of requests that may still come to wait for a handler",
        requests.sizes.available,
    )
    yield gauge(
        "kafka_network_requestchannel_handlerqueuesize",
        "Requests waiting, by handler",
        [Sample((("handler", str(index)),), depth) for index, depth in enumerate(requests.depths())],
    )


ENDLESS: Final = 2**63 - 1
"""The available memory of MemoryPool.NONE."""


FAMILIES: Final = (
    (
        "kafka_network_socketserver_memorypoolavailable",
        "Free bytes of the request memory pool",
        MetricType.GAUGE,
    ),
    ("kafka_network_socketserver_memorypoolused", "Used bytes of the request memory pool", MetricType.GAUGE),
    (
        "kafka_server_socket_server_metrics_memorypoolavgdepletedpercent",
        "Share of time in which the memory pool was depleted",
        MetricType.GAUGE,
    ),
    (
        "kafka_server_socket_server_metrics_memorypooldepletedtimetotal",
        "Milliseconds in which the memory pool was depleted",
        MetricType.COUNTER,
    ),
    ("weir_memory_pool_waiting", "Connections waiting for request memory", MetricType.GAUGE),
)


def memory_families(servers: Mapping[str, LeasedFrames | None], now_ms: int) -> Iterator[FamilySamples]:
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
