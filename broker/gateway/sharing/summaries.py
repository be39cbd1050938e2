"""The last summaries of all gateways: this one's, and those of the others until they are lost.

Filled by `task`, read by `views`. Pure: time is an argument.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Generic, TypeVar

from msgspec.structs import replace

from broker.common.slices import Steps
from broker.controller.rows.connections import ThrottledRow
from broker.gateway.sharing.client_summary import ClientSummary
from broker.gateway.sharing.summary import Summary
from broker.gateway.sharing.table import MAX_GATEWAYS

KEPT_MS: Final = 5_000
"""A gateway that has written no record for longer is lost. Records are written once a second."""

Record = TypeVar("Record")


class LatestRecords(Generic[Record]):
    """The latest record of each gateway, until the gateway is lost."""

    def __init__(self) -> None:
        # The gateway that wrote longest ago first.
        self._records: dict[str, tuple[int, Record]] = {}

    def __len__(self) -> int:
        return len(self._records)

    def put(self, gateway: str, record: Record, now_ms: int) -> None:
        """Take the next record of a gateway."""
        self._records.pop(gateway, None)
        self._records[gateway] = now_ms, record
        if len(self._records) > MAX_GATEWAYS:
            del self._records[next(iter(self._records))]
        while now_ms - next(iter(self._records.values()))[0] > KEPT_MS:
            del self._records[next(iter(self._records))]

    def forget(self, gateway: str) -> None:
        self._records.pop(gateway, None)

    def each(self, now_ms: int) -> Iterator[tuple[int, Record]]:
        """Yield the last record of each gateway that is not lost, and the milliseconds since it was read."""
        for at_ms, record in list(self._records.values()):
            if now_ms - at_ms <= KEPT_MS:
                yield now_ms - at_ms, record

    def by_gateway(self, now_ms: int) -> Mapping[str, Record]:
        """Return the same by the gateway's id."""
        return {name: record for name, (at_ms, record) in self._records.items() if now_ms - at_ms <= KEPT_MS}


class Summaries:
    """`own` is this gateway's last summary, None before the first. `measure_clients` makes the summary of its
    clients and addresses; None if it writes none.
    """

    def __init__(
        self,
        measure: Callable[[], Steps[Summary]],
        *,
        keeps_others: bool,
        measure_clients: Callable[[], Steps[ClientSummary]] | None = None,
    ) -> None:
        """`measure` makes this gateway's summary; with `keeps_others`, those of the others are kept."""
        self.keeps_others = keeps_others
        self.own: Summary | None = None
        self.measure_clients = measure_clients
        self._measure = measure
        self._summaries = LatestRecords[Summary]()
        self._clients = LatestRecords[ClientSummary]()

    def measure(self) -> Steps[Summary]:
        """Measure this gateway."""
        summary = self.own = yield from self._measure()
        return summary

    def receive(self, summary: Summary, now_ms: int) -> None:
        """Take the next summary of another gateway."""
        self._summaries.put(summary.gateway, summary, now_ms)

    def receive_clients(self, summary: ClientSummary, now_ms: int) -> None:
        """Take the next summary of the clients and addresses of another gateway."""
        self._clients.put(summary.gateway, summary, now_ms)

    def forget(self, gateway: str) -> None:
        """Remove a gateway that has stopped."""
        self._summaries.forget(gateway)
        self._clients.forget(gateway)

    def others(self, now_ms: int) -> Mapping[str, Summary]:
        """Return the last summary of each other gateway that is not lost."""
        return self._summaries.by_gateway(now_ms)

    def clients(self, now_ms: int) -> Mapping[str, ClientSummary]:
        """Return the last summary of the clients and addresses of each other gateway that is not lost."""
        return self._clients.by_gateway(now_ms)

    def throttled(self, now_ms: int) -> Iterator[ThrottledRow]:
        """Yield the throttled connections that the others list, with the remaining time at `now_ms`. One that
        has no time left remains until the next summary shows whether it is throttled again.
        """
        for passed_ms, summary in self._summaries.each(now_ms):
            for row in summary.channels:
                yield replace(
                    row,
                    remaining_ms=max(row.remaining_ms - passed_ms, 0),
                    since_ms=row.since_ms + passed_ms,
                )
