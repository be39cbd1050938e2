"""The last summaries of all gateways: this one's, and those of the others until they are lost.

Filled by `task`, read by `views`. Pure: time is an argument.
"""

from collections.abc import Callable, Iterator, Mapping

from msgspec.structs import replace

from broker.common.steps import Steps
from broker.controller.rows.connections import ThrottledRow
from broker.gateway.sharing.client_summary import ClientSummary
from broker.gateway.sharing.last_heard import LastHeard
from broker.gateway.sharing.summary import Summary


class Summaries:
    """`own` is this gateway's last summary, None before the first. `measure_clients` makes what it tells of
    its clients and addresses, None for nothing.
    """

    __slots__ = ("_clients", "_heard", "_measure", "hears", "measure_clients", "own")

    def __init__(
        self,
        measure: Callable[[], Steps[Summary]],
        *,
        hears: bool,
        measure_clients: Callable[[], Steps[ClientSummary]] | None = None,
    ) -> None:
        """`measure` makes this gateway's summary. `hears`: those of the others are read, for a console."""
        self.hears = hears
        self.own: Summary | None = None
        self.measure_clients = measure_clients
        self._measure = measure
        self._heard = LastHeard[Summary]()
        self._clients = LastHeard[ClientSummary]()

    def measure(self) -> Steps[Summary]:
        """Measure this gateway. Yields after every few throttled connections."""
        summary = self.own = yield from self._measure()
        return summary

    def hear(self, summary: Summary, now_ms: int) -> None:
        """Take the next summary of another gateway."""
        self._heard.hear(summary.gateway, summary, now_ms)

    def hear_clients(self, summary: ClientSummary, now_ms: int) -> None:
        """Take what another gateway tells of its clients and addresses."""
        self._clients.hear(summary.gateway, summary, now_ms)

    def forget(self, gateway: str) -> None:
        """Remove a gateway that has stopped."""
        self._heard.forget(gateway)
        self._clients.forget(gateway)

    def others(self, now_ms: int) -> Mapping[str, Summary]:
        """Return the last summary of each other gateway that is not lost."""
        return self._heard.by_gateway(now_ms)

    def clients(self, now_ms: int) -> Mapping[str, ClientSummary]:
        """Return what each other gateway that is not lost tells of its clients and addresses."""
        return self._clients.by_gateway(now_ms)

    def throttled(self, now_ms: int) -> Iterator[ThrottledRow]:
        """Yield the throttled connections that the others list, with the remaining time at `now_ms`. One that
        has no time left stays until the next summary tells whether it is throttled again.
        """
        for passed_ms, summary in self._heard.each(now_ms):
            for row in summary.channels:
                yield replace(
                    row,
                    remaining_ms=max(row.remaining_ms - passed_ms, 0),
                    since_ms=row.since_ms + passed_ms,
                )
