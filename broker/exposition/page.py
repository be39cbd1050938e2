"""The page itself: which families there are, in which order. Made by `app`, read by /metrics."""

from collections.abc import Iterable, Iterator
from typing import Any

from broker.exposition import connections, memory, requests, sockets, topics
from broker.metrics.prometheus import render
from broker.metrics.registry import FamilySamples
from broker.network.automq import figures as automq
from broker.network.clock import TrioClock
from broker.network.socket_server import SocketServer
from broker.purgatory import figures as purgatory
from broker.purgatory.purgatory import Purgatory
from broker.quotas import figures as quotas
from broker.quotas.client_quotas import ClientQuotas
from broker.services.partitions import Partitions


class Exposition:
    """One page, made afresh each time it is read."""

    def __init__(
        self,
        clock: TrioClock,
        server: SocketServer,
        client_quotas: ClientQuotas,
        partitions: Partitions,
        purgatories: Iterable[Purgatory[Any]],
    ) -> None:
        self._clock = clock
        self._server = server
        self._quotas = client_quotas
        self._partitions = partitions
        self._purgatories = tuple(purgatories)

    def page(self) -> str:
        """The Prometheus text format, version 0.0.4."""
        return render(self._families()).decode()

    def _families(self) -> Iterator[FamilySamples]:
        yield from quotas.families(self._quotas, self._clock.ms())
        yield from connections.families(self._server, self._clock.ms())
        yield from requests.families(self._server)
        yield from sockets.families(self._server)
        yield from purgatory.families(self._purgatories)
        yield from memory.families(self._server.memory, self._clock.ms())
        yield from automq.families(self._server.requests)
        yield from topics.families(self._partitions)
