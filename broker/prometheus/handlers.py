"""The request handlers, and the queues between them and the network threads. (Kafka: RequestChannel,
KafkaRequestHandlerPool)
"""

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
"""What the figures of a plane's own pool begin with (KIP-1207, KIP-291)."""


class HandlerFamilies:
    """Reads the socket server when somebody looks."""

    def __init__(self, server: SocketServer) -> None:
        self._server = server

    def families(self, idle: float) -> Iterator[FamilySamples]:
        """`idle` is the share of the last window in which the one thread of all handlers was idle."""
        yield from _queues(self._server)
        yield _share("requesthandleravgidle", "all pools", idle)
        for name in self._server.planes:
            yield _share(f"{POOLS[name]}requesthandleravgidle", f"the pool {POOLS[name]}", idle)


def _share(name: str, whose: str, idle: float) -> FamilySamples:
    """Every pool has the same: what the thread has left is left for each of them."""
    about = f"Share of time that the thread which runs the request handlers is idle, of {whose}"
    return FamilySamples(f"{POOL}_{name}_percent", about, Kind.GAUGE, [Sample((), idle)])


def _queues(server: SocketServer) -> Iterator[FamilySamples]:
    for plane in server.planes.values():
        prefix = "" if plane.name is PlaneName.DATA else POOLS[plane.name]
        depth = [Sample((), plane.requests.depth())]
        yield FamilySamples(f"{CHANNEL}_{prefix}requestqueuesize", "Requests waiting", Kind.GAUGE, depth)
    waiting = [(str(each.id), len(each.responder.responses)) for each in server.processors()]
    yield FamilySamples(
        f"{CHANNEL}_responsequeuesize",
        "Answers waiting to be written, by processor; without that label, of all",
        Kind.GAUGE,
        [
            Sample((), sum(count for _, count in waiting)),
            *(Sample((("processor", name),), count) for name, count in waiting),
        ],
    )
