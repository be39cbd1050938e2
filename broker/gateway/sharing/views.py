"""The gateways of the cluster as one console shows them: their last summaries, and their shares.

A gateway that has written no summary for some seconds is lost.

`task` fills `Summaries`, the console reads `SharedLimits`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Generic, TypeVar

from msgspec.structs import replace

from broker.common.clock import Clock
from broker.common.slices import Steps
from broker.controller.rows.connections import AddressUse, ThrottledRow
from broker.controller.rows.quotas import ClientUsage
from broker.controller.rows.upstream import GatewayRow, GatewaySums, Incomplete, ShareRow
from broker.gateway.sharing.client_summary import ClientSummary
from broker.gateway.sharing.connection_lists import ConnectionLists
from broker.gateway.sharing.member import SharingMember
from broker.gateway.sharing.report import WHOLE, LimitKey, SharedKey
from broker.gateway.sharing.summary import Summary
from broker.gateway.sharing.table import MAX_GATEWAYS
from broker.metrics.rate import INT_MAX
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.connections import IP_RATE, PER_IP
from broker.quotas.kinds import CLIENT_KEYS, KEY_OF
from broker.quotas.remote_use import Clients, RemoteUse, remote_use
from broker.quotas.shared_connections import ConnectionKey
from broker.views.connection_search import ConnectionQuery, RemoteConnections
from broker.views.upstream_views import ShareViews

KEPT_MS: Final = 5_000
"""A gateway that has written no record for longer is lost. Records are written once a second."""

MAX_REPORT_TIMES: Final = 1_000
"""Gateways whose last report's time is remembered, those that are gone included."""

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
        keeps_clients: bool,
        measure_clients: Callable[[], Steps[ClientSummary]] | None = None,
    ) -> None:
        """`measure` makes this gateway's summary; with `keeps_clients`, those of the others' clients are
        kept.
        """
        self.keeps_clients = keeps_clients
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


class SharedLimits(ShareViews):
    """The views of the other gateways, as far as `member` knows them. `note_report` is called with the id of
    the gateway of each report.
    """

    def __init__(
        self,
        member: SharingMember,
        summaries: Summaries,
        quotas: ClientQuotas,
        clock: Clock,
        lists: ConnectionLists | None = None,
    ) -> None:
        self._member = member
        self._summaries = summaries
        self._quotas = quotas
        self._clock = clock
        self._lists = lists
        self._report_times: dict[str, int] = {}

    def note_report(self, gateway: str) -> None:
        """Note that a report of a gateway has just been read."""
        self._report_times.pop(gateway, None)
        self._report_times[gateway] = self._clock.wall_ms()
        if len(self._report_times) > MAX_REPORT_TIMES:
            del self._report_times[next(iter(self._report_times))]

    def gateways(self) -> Sequence[GatewayRow]:
        """Return the gateways that are there, this one first."""
        own, table = self._summaries.own, self._member.table
        summaries = self._others()
        rows = [GatewayRow(self._member.gateway, "", None)]
        if own is not None:
            rows = [GatewayRow(own.gateway, own.address, None, own.traffic)]
        for each in table.gateways:
            if each != self._member.gateway:
                summary = summaries.get(each)
                address, traffic = ("", None) if summary is None else (summary.address, summary.traffic)
                rows.append(GatewayRow(each, address, self._report_times.get(each), traffic))
        return rows

    def shares(self) -> Iterable[ShareRow]:
        """Yield the shares of all gateways in the units of their limits."""
        for key, division in self._member.table.divisions.items():
            limit = self._limit(key)
            if limit is None:
                continue
            name = key.limit if isinstance(key, ConnectionKey) else KEY_OF[key.kind]
            for gateway, line in division.lines.items():
                demand = limit * (line.passed + line.waiting) / WHOLE
                share = limit * division.shares[gateway] / WHOLE
                yield ShareRow(gateway, _entity(key), name, limit, demand, share)

    def _limit(self, key: SharedKey) -> float | None:
        """Return the whole limit here; None for one on connections that this gateway does not have."""
        if isinstance(key, LimitKey):
            return self._quotas.managers[key.kind].bound(key.user or "", key.client_id)
        connections = self._member.connections
        limit = INT_MAX if connections is None else connections.limit(key)
        return None if limit == INT_MAX else float(limit)

    def others(self) -> GatewaySums:
        """Return the sums of the other gateways whose summaries are known."""
        found = [each.traffic for each in self._others().values()]
        return GatewaySums(
            len(found),
            sum(each.connections for each in found),
            sum(each.throttled for each in found),
            sum(each.bytes_in_per_s for each in found),
            sum(each.bytes_out_per_s for each in found),
            sum(each.requests_per_s for each in found),
        )

    def remote_use(self) -> RemoteUse:
        """Return the use of limits that the other gateways report."""
        summaries = self._others()
        return remote_use((gateway, summary.uses) for gateway, summary in summaries.items())

    def unlisted_use(self) -> int:
        """Return how many limits the other gateways use beside those that they list."""
        return sum(each.unlisted_uses for each in self._others().values())

    def clients(self) -> Iterator[ClientUsage]:
        """Yield the clients that the other gateways list."""
        return (row for each in self._clients().values() for row in each.clients)

    def addresses(self) -> Iterator[AddressUse]:
        """Yield the addresses that the other gateways list."""
        return (row for each in self._clients().values() for row in each.addresses)

    def unlisted_clients(self) -> int:
        """Return how many clients the other gateways have beside those that they list."""
        return sum(each.unlisted_clients for each in self._clients().values())

    def unlisted_addresses(self) -> int:
        """Return how many addresses the other gateways have beside those that they list."""
        return sum(each.unlisted_addresses for each in self._clients().values())

    def without_report(self) -> Sequence[str]:
        """Return the other gateways that have not reported their clients and addresses."""
        reported = self._clients()
        return [each for each in self._member.table.gateways if each not in (self._member.gateway, *reported)]

    def incomplete(self) -> Incomplete:
        """Return the gateways that list less than they have, or have not reported."""
        there = set(self._member.table.gateways) - {self._member.gateway}
        summaries, clients = self._others(), self._clients()
        uses = frozenset(name for name, each in summaries.items() if each.unlisted_uses)
        more_clients = frozenset(name for name, each in clients.items() if each.unlisted_clients)
        more_addresses = frozenset(name for name, each in clients.items() if each.unlisted_addresses)
        without_report = frozenset(self.without_report())
        return Incomplete(
            uses | frozenset(there - summaries.keys()),
            more_clients | without_report,
            more_addresses | without_report,
        )

    def share(self, key: str, clients: Clients, gateway: str) -> float | None:
        """Return the fraction of a limit that a gateway has, "" for this one; None if it is not known."""
        member, shared = self._member, LimitKey(CLIENT_KEYS[key].kind, *clients)
        if gateway:
            division = member.table.divisions.get(shared)
            share = None if division is None else division.shares.get(gateway)
        else:
            share = member.shares.get(shared, member.other_share)
        return None if share is None else share / WHOLE

    def throttled(self) -> Iterable[ThrottledRow]:
        """Yield the throttled connections that the other gateways list."""
        return self._summaries.throttled(self._clock.ms())

    def unlisted_throttled(self) -> int:
        """Return how many more the other gateways throttle."""
        found = self._others().values()
        return sum(max(each.traffic.throttled - len(each.channels), 0) for each in found)

    async def connections(self, query: ConnectionQuery) -> RemoteConnections:
        """Ask the other gateways for their connections."""
        return RemoteConnections() if self._lists is None else await self._lists.ask(query)

    def _others(self) -> Mapping[str, Summary]:
        return self._summaries.others(self._clock.ms())

    def _clients(self) -> Mapping[str, ClientSummary]:
        """Return the gateways always in the same order, whichever reported last."""
        return dict(sorted(self._summaries.clients(self._clock.ms()).items()))


def _entity(key: SharedKey) -> tuple[tuple[str, str | None], ...]:
    if isinstance(key, ConnectionKey):
        kind = "ip" if key.limit in (PER_IP, IP_RATE) else "user"
        return ((kind, key.name),) if key.name else ()
    named = (("user", key.user), ("client-id", key.client_id))
    return tuple((kind, name) for kind, name in named if name is not None)
