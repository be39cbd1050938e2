"""One gateway among those that share limits: its reports, and the shares that its quotas enforce.

Run by `task` with a clock and a topic; the simulation in the tests runs it with neither.
"""

from collections.abc import Collection, Mapping
from typing import Final

from broker.common.slices import Steps
from broker.gateway.sharing.connections import SharedConnections
from broker.gateway.sharing.division import Demand, Demanding, DemandMeter, part_of
from broker.gateway.sharing.report import WHOLE, LimitKey, Line, Report, SharedKey, is_count
from broker.gateway.sharing.table import LINES_PER_STEP, Division, ShareTable, starting_share
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.kinds import QuotaKind
from broker.quotas.usage import SensorKey

SETTLED: Final = 3
"""The first report with which a gateway wants more than it has. By then it has read a report that each of the
others wrote after its start, and they have read one of it.
"""

UNREPORTED_PARTS: Final = 16
"""A gateway reports nothing about a limit of which it uses less than the starting share divided by this. All
gateways together can exceed a limit by a sixty-fourth this way.
"""

LEASE_MS: Final = 4_000
"""How long a gateway keeps its shares after the beginning of a report that it has read back. By then the
others may have written `table.MISSED` reports that have not reached it, the last of which frees and takes
them, or a new one may be there. That a report is written is not enough: who reads nothing does not know them.
"""

UNREAD: Final = 8
"""Reports whose beginnings are remembered until they are read back: the lease of an earlier one has ended."""

TOLERATED: Final = 50
"""A share is lowered if it exceeds its part by more than a fiftieth, so that it does not follow every
variation of a measured rate.
"""


class SharingMember:
    """`table` has the shares of all gateways, `shares` those that this one has in force.

    `gateway` is this gateway's id, another one after each start. `lease_ends_ms` is None before the first
    report has been read back. Without `connections`, limits on connections are not shared.
    """

    def __init__(
        self, gateway: str, quotas: ClientQuotas, connections: SharedConnections | None = None
    ) -> None:
        self.gateway = gateway
        self.table = ShareTable()
        self.shares: dict[SharedKey, int] = {}
        self._quotas = quotas
        self.connections = connections
        self._meter = DemandMeter()
        self._number = 0
        self._received = 0
        self._begun_ms: dict[int, int] = {}
        self._is_behind = False
        self._has_changed = True
        self._other_in_force = -1.0
        self.lease_ends_ms: int | None = None
        self.has_expired = False
        self._in_force: dict[QuotaKind, tuple[Mapping[SensorKey, float], float]] = {}
        if connections is not None:
            connections.join(self)

    @property
    def is_settled(self) -> bool:
        """Whether this gateway and the others know each other."""
        return self._number >= SETTLED

    @property
    def may_want(self) -> bool:
        """Whether a report may claim more than this gateway has. Others would keep free for it what it does
        not learn of.
        """
        return self.is_settled and not self.has_expired

    @property
    def is_alone(self) -> bool:
        """Whether no other gateway is there, up to this one's own last report in the log. One that comes
        later reads that report before it has clients (`task.announced`).
        """
        return self._received > 0 and not self.has_others and not self.has_expired

    @property
    def is_behind(self) -> bool:
        """Whether another gateway, which was alone and began just before this one, may use the whole of each
        limit: it may not have read of this one yet. It has once this one is settled.
        """
        return self._is_behind and not self.is_settled

    @property
    def other_share(self) -> int:
        """The share of every limit that is not in `shares`: the whole if no other gateway is there."""
        return WHOLE if self.is_alone else self._starting_share

    @property
    def has_others(self) -> bool:
        """Whether other gateways are there."""
        return self._others > 0

    @property
    def _others(self) -> int:
        return len(self.table) - (self.gateway in self.table)

    def report(self, now_ms: int) -> Steps[Report]:
        """Lower the shares that exceed their part from `now_ms` on, and return the next report, which the
        caller appends to the log.

        Lowers nothing if the last report was not read back: then the others' reports may be missing, too.
        """
        other, floor = self.other_share, self._starting_share
        least = floor // UNREPORTED_PARTS
        demands: dict[SharedKey, Demand] = {}
        demands.update((yield from self._meter.measure(self._quotas, least, now_ms)).items())
        connections = self.connections
        if connections is not None:
            demands.update((yield from connections.measure(least, now_ms)).items())
        is_received = self._received == self._number
        gone = self.table.gone_with_next(self.gateway)
        self._number += 1
        self._begun_ms[self._number] = now_ms
        self._begun_ms.pop(self._number - UNREAD, None)
        lines: dict[SharedKey, Line] = {}
        for number, (key, demand) in enumerate(demands.items()):
            if connections is not None and is_count(key):
                line = connections.line(key, may_lower=is_received)
                if line is not None:
                    lines[key] = line
            else:
                lines[key] = self._line(key, demand, self.shares.get(key, other), floor, is_received, gone)
            if number % 32 == 31:
                yield
        self._replace_shares({key: line.share for key, line in lines.items()})
        yield from self.enforce(now_ms)
        return Report(self.gateway, self._number, lines, has_connections=connections is not None)

    def farewell(self) -> Report:
        """Return the report that frees all shares of this gateway."""
        self._number += 1
        return Report(self.gateway, self._number, leaving=True)

    def receive(self, report: Report) -> Steps[None]:
        """Take the next report of the log. The caller calls `enforce` after one or more of them."""
        table, name = self.table, self.gateway
        was_there = name in table
        full = yield from table.receive(report)
        if full is None:
            return
        if was_there and name not in table:
            self._give_up_shares()
            return
        # A later report, which may be in the log already, claims less than this one is granted.
        is_last = report.gateway == name and report.number == self._number
        if report.gateway == name:
            self._renew_lease(report.number)
        if is_last:
            if not self._received:
                self._is_behind = any(each != name for each in table.alone_before(SETTLED))
            self._received = report.number
        shares, divisions = self.shares, table.divisions
        # Another's report takes from this one's share where all together are too large, and gives nothing.
        for number, key in enumerate(report.lines if is_last else full):
            if number % LINES_PER_STEP == 0:
                yield
            before = share = shares.get(key)
            division = divisions.get(key)
            if share is None or division is None or name not in division.shares:
                continue
            if is_last:
                share = division.shares[name]
            if division.total > WHOLE:
                share = min(share, self._least_share(key, division))
            if share != before:
                shares[key] = share
                self._has_changed = True

    def enforce(self, now_ms: int) -> Steps[None]:
        """Give the quotas the present shares from `now_ms` on, or what the end of the lease leaves."""
        self.has_expired = self.lease_ends_ms is not None and now_ms >= self.lease_ends_ms
        if self.has_expired:
            self._give_up_shares()
        other = self.other_share / WHOLE
        if self._has_changed or other != self._other_in_force:
            yield from self._put_in_force(other, now_ms)
        if self.connections is not None:
            yield from self.connections.enforce(now_ms)

    def _put_in_force(self, other: float, now_ms: int) -> Steps[None]:
        self._has_changed, self._other_in_force = False, other
        wanted: dict[QuotaKind, dict[SensorKey, float]] = {kind: {} for kind in self._quotas.managers}
        for key, share in self.shares.items():
            if isinstance(key, LimitKey):
                wanted[key.kind][key.user, key.client_id] = share / WHOLE
        for kind, shares in wanted.items():
            if self._in_force.get(kind) != (shares, other):
                self._in_force[kind] = shares, other
                yield from self._quotas.managers[kind].set_shares(shares, other, now_ms)

    def _renew_lease(self, number: int) -> None:
        """Keep the shares for LEASE_MS from the beginning of this report, which has been read back."""
        begun_ms = self._begun_ms.pop(number, None)
        if begun_ms is not None:
            self.lease_ends_ms = begun_ms + LEASE_MS

    def _give_up_shares(self) -> None:
        """Keep as much as a gateway that has just begun: the others may have taken its shares."""
        most = self._starting_share
        self._replace_shares({key: min(share, most) for key, share in self.shares.items()})

    def _replace_shares(self, shares: dict[SharedKey, int]) -> None:
        if shares != self.shares:
            self._has_changed = True
        self.shares = shares

    def _least_share(self, key: SharedKey, division: Division) -> int:
        """Return what this gateway keeps of a limit whose shares are too large together."""
        if self.connections is not None and is_count(key):
            return self.connections.least_share(key)
        return self._part(division, division.lines[self.gateway], self._starting_share)

    def _line(
        self,
        key: SharedKey,
        demand: Demand,
        share: int,
        floor: int,
        may_lower: bool,
        gone: Collection[str],
    ) -> Line:
        """Return the line of a limit of which this gateway has `share` in force. It wants its part of what
        `gone` leave: this report frees their shares.
        """
        division = self.table.divisions.get(key)
        part = wanted = self._part(division, demand, floor)
        if gone:
            wanted = self._part(division, demand, floor, gone)
        is_full = division is not None and division.total > WHOLE
        if may_lower and (share - part > share // TOLERATED or is_full):
            share = min(share, part)
        return Line(demand.passed, demand.waiting, share, wanted if self.may_want else share)

    def _part(
        self, division: Division | None, demand: Demanding, floor: int, gone: Collection[str] = ()
    ) -> int:
        own, lines = self.gateway, {} if division is None else division.lines
        others = [line for name, line in lines.items() if name != own and name not in gone]
        return part_of(demand, others, floor)

    @property
    def _starting_share(self) -> int:
        return starting_share(self._others + 1)
