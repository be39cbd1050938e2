"""One gateway's parts of the limits on connections. `member` asks for them once a second, and
`quotas.connections` at each connection that has such a limit.

Rates are divided as byte rates are (`division`); connections that were refused or delayed wait.

Open connections stay where they are, so their number must be right at once, and shares of it are whole
connections. While no gateway uses much of a limit, each may open an equal part of it without a line in any
report; all know the gateways that open one more if the limit cannot be divided. Once one uses half of its
equal part, or refuses connections, each gateway writes a line with what it has open. What none has open is
divided, by what was refused, or equally, and a gateway raises its share into room that no other one has
(`table`). In addition, no gateway opens another connection once those that it knows of are as many as the
limit.

So the limit is exceeded only by a gateway that joins others, or is cut off: it opens at most a quarter of an
equal part, and at least one connection, and the others may open those meanwhile. Whatever is open stays open,
and no other connection is opened until there are fewer than the limit.

A gateway that begins alone may open the whole limit from its first report on, and does not know of another
one that begins at the same time. The other one knows from the log that it is second, and opens none until
both know each other.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol
from zlib import crc32

from broker.common.slices import SLICE, Steps, nlargest_in_steps
from broker.gateway.sharing.division import COUNTS, SPAN_MS, Demand, millionths
from broker.gateway.sharing.report import MAX_AMOUNT, WHOLE, Line, SharedKey, as_json, is_count
from broker.gateway.sharing.summary import MAX_NAME
from broker.gateway.sharing.table import (
    STARTING_PARTS,
    Division,
    ShareTable,
    connections_of,
    equal_part,
    share_of,
)
from broker.metrics.rate import INT_MAX
from broker.quotas.connection_rates import AcceptRate
from broker.quotas.connections import CREATION_RATE, IP_RATE, PER_IP, PER_USER, USER_RATE, ConnectionQuotas
from broker.quotas.shared_connections import ConnectionKey

MAX_LINES: Final = 500
MAX_BYTES: Final = 49_152
"""Limits on connections in one report, and their size. The fullest ones are there; of the others, a gateway
has an equal part of the number, and the starting share of the rate.
"""

WAITS_FIRST: Final = 4.0 * MAX_AMOUNT

NUMBERS: Final = 60
"""The most bytes of a line beside its name."""

MAX_WAITING: Final = 2_000
"""Limits for which refused connections are counted at once; ours. Clients choose their addresses."""


class Standing(Protocol):
    """What a member knows of itself and the others."""

    @property
    def gateway(self) -> str: ...
    @property
    def table(self) -> ShareTable: ...
    @property
    def shares(self) -> Mapping[SharedKey, int]: ...
    @property
    def other_share(self) -> int: ...
    @property
    def is_settled(self) -> bool: ...
    @property
    def may_want(self) -> bool: ...
    @property
    def is_alone(self) -> bool: ...
    @property
    def is_behind(self) -> bool: ...
    @property
    def has_expired(self) -> bool: ...


class SharedConnections:
    """A `ConnectionShares` of `quotas`. `poke` is called when the shares of rates have changed."""

    def __init__(self, quotas: ConnectionQuotas, poke: Callable[[], None] = lambda: None) -> None:
        self._quotas = quotas
        self._poke = poke
        self._refused: Counter[ConnectionKey] = Counter()
        self._rounds: dict[ConnectionKey, deque[int]] = {}
        self._in_force: tuple[dict[ConnectionKey, int], int] = {}, 0

    def join(self, standing: Standing) -> None:
        """Enforce the parts of this member from now on."""
        self._standing = standing
        self._quotas.share(self)

    def limit(self, key: ConnectionKey) -> float:
        """Return the whole limit, INT_MAX if there is none."""
        quotas, (limit, name) = self._quotas, key
        if limit == PER_IP:
            return quotas.per_ip.of(name)
        if limit == PER_USER:
            return quotas.users.count.of(name)
        if limit == IP_RATE:
            return quotas.ips.rate_for(name)
        return quotas.users.rate.of(name) if limit == USER_RATE else quotas.creation_rate

    # For `quotas.connections`

    def most(self, key: ConnectionKey, maximum: int) -> int:
        held = self._held(key, maximum)
        division = self._standing.table.divisions.get(key)
        if division is None or self._standing.has_expired:
            return held
        return min(held, max(maximum - self._open_elsewhere(division, maximum), 0))

    def part(self, key: ConnectionKey) -> float:
        standing = self._standing
        return standing.shares.get(key, standing.other_share) / WHOLE

    def refused(self, key: ConnectionKey) -> None:
        if key in self._refused or len(self._refused) < MAX_WAITING:
            self._refused[key] += 1

    # For `member`

    def measure(self, least: int, now_ms: int) -> Steps[dict[ConnectionKey, Demand]]:
        """Return the demand for the limits of this report: the rates of which more than `least` passes or for
        which connections wait, and the numbers of open connections that all gateways report now. Called once
        for each report.
        """
        self._end_round()
        found: dict[ConnectionKey, tuple[float, Demand]] = {}
        for key, sensor, rate in self._rates():
            yield
            demand = self._rate_demand(key, sensor, rate, now_ms)
            if demand.waiting or demand.passed > least:
                found[key] = _urgency(demand), demand
        for limit in (PER_IP, PER_USER):
            for key in (yield from self._counted(limit)):
                yield
                use = self._use(key)
                if use is not None:
                    found[key] = use
        fullest = yield from nlargest_in_steps(MAX_LINES, list(found), lambda each: found[each][0])
        chosen: dict[ConnectionKey, Demand] = {}
        size = 0
        for key in fullest:
            yield
            size += NUMBERS + len(as_json(key.name))
            if size > MAX_BYTES:
                break
            chosen[key] = found[key][1]
        return chosen

    def line(self, key: ConnectionKey, *, may_lower: bool) -> Line | None:
        """Return the line of a limit on open connections; None if it was removed or is 0 since `measure`."""
        maximum, opened = int(self.limit(key)), self._opened(key)
        if not 0 < maximum < INT_MAX:
            return None
        waiting = self._waiting(key)
        held, part = max(self._held(key, maximum), opened), self._part(key, maximum)
        if may_lower:
            held = min(held, part)
        wanted = held
        if self._standing.may_want:
            # Room that a gateway leaves behind is there for the first that wants it, as at one gateway.
            wanted = max(part, min(opened + waiting, maximum) if waiting else 0)
        shares = share_of(held, maximum), share_of(wanted, maximum)
        return Line(*_demand(opened, waiting, maximum), *shares, maximum)

    def least_share(self, key: ConnectionKey) -> int:
        """Return the share of a limit on open connections that this gateway keeps."""
        maximum = int(self.limit(key))
        return share_of(self._part(key, maximum), maximum) if maximum else 0

    def enforce(self, now_ms: int) -> Steps[None]:
        """Give the rates their present parts from `now_ms` on."""
        standing = self._standing
        rates = {
            key: share
            for key, share in standing.shares.items()
            if isinstance(key, ConnectionKey) and not is_count(key)
        }
        before, other_before = self._in_force
        other = standing.other_share
        if (rates, other) == (before, other_before):
            return
        self._in_force = rates, other
        changed = None
        if other == other_before:
            changed = [key for key in {**before, **rates} if before.get(key) != rates.get(key)]
        yield from self._quotas.rebound(changed, now_ms)
        self._poke()

    def _end_round(self) -> None:
        refused, self._refused = self._refused, Counter()
        for key in [*self._rounds, *(key for key in refused if key not in self._rounds)]:
            counts = self._rounds.setdefault(key, deque(maxlen=COUNTS))
            counts.append(refused[key])
            if not any(counts):
                del self._rounds[key]

    def _waiting(self, key: ConnectionKey) -> int:
        """Return the most connections that a number of open ones refused in one of the last seconds; none if
        it has room now that no client has taken.
        """
        counts = self._rounds.get(key)
        if counts is None or (not counts[-1] and self._opened(key) < self.most(key, int(self.limit(key)))):
            return 0
        return max(counts)

    def _rates(self) -> Iterator[tuple[ConnectionKey, AcceptRate, float]]:
        quotas = self._quotas
        found = [(ConnectionKey(CREATION_RATE, ""), quotas.rate)]
        found += [(ConnectionKey(IP_RATE, name), each) for name, each in quotas.ips.sensors.items()]
        found += [(ConnectionKey(USER_RATE, name), each) for name, each in quotas.users.rates.items()]
        for key, sensor in found:
            limit = self.limit(key)
            if 0 < limit < INT_MAX and len(key.name) <= MAX_NAME:
                yield key, sensor, limit

    def _rate_demand(self, key: ConnectionKey, sensor: AcceptRate, limit: float, now_ms: int) -> Demand:
        total, elapsed_ms = sensor.recent(now_ms, SPAN_MS)
        passed, waiting = millionths(total * 1_000 / elapsed_ms, limit), 0
        counts = self._rounds.get(key)
        if counts is not None:
            # How many wait for an acceptor is not known: it waits for one at a time.
            seen = [min(each, 1) for each in counts] if key.limit == CREATION_RATE else counts
            waiting = millionths(sum(seen) / len(seen), limit)
            if all(counts):
                passed = millionths(sensor.bound, limit)
        return Demand(passed, waiting)

    def _counted(self, limit: str) -> Steps[list[ConnectionKey]]:
        """Return the limits on open connections that may have to be reported."""
        quotas, users = self._quotas, self._quotas.users
        counts, maximum = quotas.counts, float(quotas.per_ip.maximum)
        overrides: Mapping[str, float] = quotas.per_ip.overrides
        if limit == PER_USER:
            counts, maximum, overrides = users.counts, users.count.maximum, users.count.overrides
        least = maximum / (2 * len(self._sharing()))
        names = {name for name in overrides if name in counts}
        if maximum != INT_MAX:
            known = list(counts.items())
            for begin in range(0, len(known), SLICE):
                names.update(name for name, count in known[begin : begin + SLICE] if count >= least)
                yield
        names.update(key.name for key in self._rounds if key.limit == limit)
        names.update(
            key.name for key in self._standing.table.divisions if is_count(key) and key.limit == limit
        )
        return [ConnectionKey(limit, name) for name in names if len(name) <= MAX_NAME]

    def _use(self, key: ConnectionKey) -> tuple[float, Demand] | None:
        """Return the demand for a limit on open connections, and how urgent its line is; None if no gateway
        uses much of it.
        """
        maximum = int(self.limit(key))
        if not 0 < maximum < INT_MAX:
            return None
        own = _demand(self._opened(key), self._waiting(key), maximum)
        division = self._standing.table.divisions.get(key)
        lines = {} if division is None else division.lines
        others = (Demand(*each[:2]) for name, each in lines.items() if name != self._standing.gateway)
        demands = (own, *others)
        sharing = len(self._sharing())
        if not any(each.waiting or 2 * sharing * each.passed >= WHOLE for each in demands):
            return None
        return max(map(_urgency, demands)), own

    def _opened(self, key: ConnectionKey) -> int:
        counts = self._quotas.counts if key.limit == PER_IP else self._quotas.users.counts
        return counts.get(key.name, 0)

    def _open_elsewhere(self, division: Division, maximum: int) -> int:
        own = division.lines.get(self._standing.gateway)
        return (division.passed - (0 if own is None else own.passed)) * maximum // WHOLE

    def _sharing(self) -> list[str]:
        return sorted({*self._standing.table.with_connections, self._standing.gateway})

    def _held(self, key: ConnectionKey, maximum: int) -> int:
        """Return the connections that this gateway may have, as far as others leave them to it."""
        standing = self._standing
        if standing.is_alone:
            return maximum
        names = self._sharing()
        sharing = len(names)
        is_known = standing.is_settled and standing.gateway in standing.table
        if standing.is_behind and not standing.has_expired:
            return 0
        if standing.has_expired or not is_known:
            return min(maximum, max(maximum // (STARTING_PARTS * sharing), 1))
        if sharing == 1:
            return maximum
        share = standing.shares.get(key)
        if share is not None:
            return connections_of(share, maximum)
        equal = maximum // sharing + (self._rank(key, names) < maximum % sharing)
        division = standing.table.divisions.get(key)
        if division is None:
            return equal
        granted = division.shares.get(standing.gateway)
        if granted is None:
            without = sharing - len(division.lines)
            if division.total + without * equal_part(sharing) <= WHOLE:
                return equal
            granted = max(WHOLE - division.total, 0) // max(without, 1)
        return min(equal, connections_of(granted, maximum))

    def _rank(self, key: ConnectionKey, names: list[str]) -> int:
        """Return this gateway's place among `names` when what is left of a limit is divided."""
        return (names.index(self._standing.gateway) - crc32(key.name.encode(errors="replace"))) % len(names)

    def _part(self, key: ConnectionKey, maximum: int) -> int:
        """Return the connections of this gateway, and its part of those that none has open."""
        standing, opened = self._standing, self._opened(key)
        division = standing.table.divisions.get(key)
        waiting, elsewhere = {standing.gateway: self._waiting(key)}, 0
        if division is not None:
            elsewhere = self._open_elsewhere(division, maximum)
            waiting |= {
                name: line.waiting * maximum // WHOLE
                for name, line in division.lines.items()
                if name != standing.gateway
            }
        sharing, names = len(self._sharing()), sorted(waiting)
        free = maximum - opened - elsewhere - max(sharing - len(names), 0) * (maximum // sharing)
        if free <= 0:
            return opened
        wanted = sum(waiting.values())
        if wanted >= free:
            # Parts of a running sum: together they are all that is free.
            before = sum(waiting[name] for name in names[: names.index(standing.gateway)])
            after = before + waiting[standing.gateway]
            return opened + free * after // wanted - free * before // wanted
        free -= wanted
        rank = self._rank(key, names)
        return opened + waiting[standing.gateway] + free // len(names) + (rank < free % len(names))


def _urgency(demand: Demand) -> float:
    """Return how soon a limit is reported: first those for which clients wait."""
    return demand.passed + demand.waiting + (WAITS_FIRST if demand.waiting else 0.0)


def _demand(opened: int, waiting: int, maximum: int) -> Demand:
    """Return the demand in millionths, rounded up: parts of a connection count for it."""
    return Demand(*(min(-(-each * WHOLE // maximum), MAX_AMOUNT) for each in (opened, waiting)))
