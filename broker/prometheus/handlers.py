"""Metrics of the request handlers and their queues. (Kafka: RequestChannel, KafkaRequestHandlerPool)"""

from collections.abc import Iterator
from typing import Final

from broker.config.listeners import Plane as PlaneName
from broker.metrics.families import FamilySamples, Kind, Sample
from broker.network.socket_server import SocketServer

CHANNEL: Final = "kafka_network_requestchannel"
POOL: Final = "kafka_server_kafkarequesthandlerpool"

POOLS: Final = {
    PlaneName.DATA: "broker",
    PlaneName.CONTROLLER: "controller",
    PlaneName.CONTROL: "controlplane",
}
"""The name prefix of the metrics of a plane's own pool (KIP-1207, KIP-291)."""


class HandlerFamilies:
    """Reads the socket server on each scrape."""

    def __init__(self, server: SocketServer) -> None:
        self._server = server

    def families(self, idle: float) -> Iterator[FamilySamples]:
        """Yield the families. `idle` is the idle share of the handlers' one thread over the last window."""
        yield from _queues(self._server)
        yield _share("requesthandleravgidle", "all pools", idle)
        for name in self._server.planes:
            yield _share(f"{POOLS[name]}requesthandleravgidle", f"the pool {POOLS[name]}", idle)


def _share(name: str, whose: str, idle: float) -> FamilySamples:
    """Return a pool's family. All pools have the same value, because they share the thread."""
    about = f"Idle share of the request handlers' thread, for {whose}"
    return FamilySamples(f"{POOL}_{name}_percent", about, Kind.GAUGE, [Sample((), idle)])


def _queues(server: SocketServer) -> Iterator[FamilySamples]:
    for plane in server.planes.values():
        prefix = "" if plane.name is PlaneName.DATA else POOLS[plane.name]
        depth = [Sample((), plane.requests.depth())]
        yield FamilySamples(f"{CHANNEL}_{prefix}requestqueuesize", "Requests in the queue", Kind.GAUGE, depth)
    waiting = [(str(each.id), len(each.responder.responses)) for each in server.processors()]
    yield FamilySamples(
        f"{CHANNEL}_responsequeuesize",
        "Responses in the queue, by processor; without that label, of all processors",
        Kind.GAUGE,
        [
            Sample((), sum(count for _, count in waiting)),
            *(Sample((("processor", name),), count) for name, count in waiting),
        ],
    )
