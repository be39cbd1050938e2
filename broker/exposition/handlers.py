"""The request handlers, and the queues between them and the network threads. (Kafka: RequestChannel,
KafkaRequestHandlerPool)
"""

from collections.abc import Iterator
from typing import Final

from broker.config.listeners import Plane as PlaneName
from broker.metrics.growth import Growth
from broker.metrics.registry import FamilySamples, Kind, Sample
from broker.network.plane import Plane
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
    """Remembers what the last reader saw, since shares of time are made from totals."""

    def __init__(self, server: SocketServer, now_ns: int) -> None:
        self._server = server
        self._busy = Growth(now_ns)

    def families(self, now_ns: int) -> Iterator[FamilySamples]:
        yield from _queues(self._server)
        yield from self._idle(now_ns)

    def _idle(self, now_ns: int) -> Iterator[FamilySamples]:
        """Idle time over the number of threads, as Kafka counts it: a handler that waits for a commit is
        busy.
        """
        planes = list(self._server.planes.values())
        rates = self._busy.look(now_ns, tuple(sum(plane.handlers.busy) for plane in planes))
        yield _share("requesthandleravgidle", "all pools", sum(rates), _threads(*planes))
        for plane, rate in zip(planes, rates, strict=True):
            pool = POOLS[plane.name]
            yield _share(f"{pool}requesthandleravgidle", f"the pool {pool}", rate, _threads(plane))


def _threads(*planes: Plane) -> int:
    return sum(plane.handlers.size for plane in planes)


def _share(name: str, whose: str, busy: float, threads: int) -> FamilySamples:
    idle = max(1.0 - busy / 1e9 / threads, 0.0)
    about = f"Share of time that request handlers wait for requests, of {whose}"
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
