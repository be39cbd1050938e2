"""The shares of all gateways, computed from the log of reports in its order.

Filled by `member` with every report, so every gateway computes the same table, however late it reads. No
clock: a gateway is gone when another one has written `MISSED` reports since its last, and reports are written
once a second. So no gateway loses a share while the log cannot be written, and clocks that differ or jump do
not matter.

Why the shares in force never add up to more than a limit, once every gateway has read a report of every
other: the table raises a gateway's share only with that gateway's own report, and only into room that no
share in the table occupies; the gateway learns of it when it reads that report back. What it has in force is
at most what its last report says, or what the table grants for that report, and the others see the latter. A
gateway that the table does not know, because it starts or was away, exceeds the limit by what it brings until
the others have lowered their shares, which they do when they read its report.

Of a limit on open connections, a gateway without a line has an equal part too, which the table leaves free;
see `connections`.
"""

from collections import OrderedDict, deque
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from broker.common.slices import Steps
from broker.gateway.sharing.report import MAX_AMOUNT, WHOLE, Line, Report, SharedKey, is_count

MISSED: Final = 5
"""Reports of another gateway, one a second, after which a silent gateway's shares are free."""

MAX_GATEWAYS: Final = 1_000
"""Gateways of a cluster, and those that are remembered after they have left, since a report can come after
the farewell; ours. For another one, the one that reported longest ago makes room. Reports can name gateways
that there are not, and each takes a part of every limit and time in each report.
"""

LINES_PER_STEP: Final = 16
"""Lines between two pauses; ours. Each takes 2 microseconds."""

STARTING_PARTS: Final = 4
"""Before it has a share, a gateway uses an equal part of a limit divided by this."""


def starting_share(gateways: int) -> int:
    """Return what each takes of a limit of which it has no share: it uses little, or has just begun."""
    return max(WHOLE // (STARTING_PARTS * gateways), 1)


def share_of(connections: int, maximum: int) -> int:
    """Return a number of connections in millionths of the maximum, rounded down."""
    return min(connections * WHOLE // maximum, MAX_AMOUNT)


def connections_of(share: int, maximum: int) -> int:
    """Return the whole connections of a share, which may have been rounded down."""
    return (share + 1) * maximum // WHOLE


def equal_part(gateways: int) -> int:
    """Return what each has of a limit on open connections of which no gateway uses much."""
    return WHOLE // max(gateways, 1)


class Division:
    """The gateways that use one limit: their last `lines`, the `shares` that they have at most, the sum of
    these, `total`, and what passes at all of them.
    """

    __slots__ = ("lines", "passed", "shares", "total")

    def __init__(self) -> None:
        self.lines: dict[str, Line] = {}
        self.shares: dict[str, int] = {}
        self.total = 0
        self.passed = 0

    def put(self, gateway: str, line: Line, reserved: int = 0) -> None:
        """Take the gateway's next line, and raise its share as far as the others and what is `reserved` for
        those without a line leave room.
        """
        before = self.lines.get(gateway)
        self.passed += line.passed - (0 if before is None else before.passed)
        others = self.total - self.shares.get(gateway, 0)
        share = min(line.wanted, WHOLE - others - reserved)
        if line.maximum:
            share = share_of(connections_of(share, line.maximum), line.maximum)
        share = max(share, line.share)
        self.lines[gateway] = line
        self.shares[gateway] = share
        self.total = others + share

    def remove(self, gateway: str) -> None:
        """Free the gateway's share."""
        self.passed -= self.lines.pop(gateway).passed
        self.total -= self.shares.pop(gateway)


class _Member:
    """A gateway: its last report's number, its limits, and the positions of its last reports in the log;
    `was_alone` is whether no other gateway was there at some time since it began.
    """

    __slots__ = ("keys", "number", "positions", "was_alone")

    def __init__(self) -> None:
        self.was_alone = False
        self.number = 0
        self.positions: deque[int] = deque(maxlen=MISSED)
        self.keys: frozenset[SharedKey] = frozenset()


class ShareTable:
    """The gateways that report, and the division of each limit that they use."""

    def __init__(self) -> None:
        # The gateway that reported longest ago first.
        self._members: OrderedDict[str, _Member] = OrderedDict()
        self._divisions: dict[SharedKey, Division] = {}
        self._position = 0
        self._with_connections: dict[str, None] = {}
        # The gateways that have left last, the latest at the end.
        self._left: OrderedDict[str, None] = OrderedDict()

    @property
    def gateways(self) -> list[str]:
        """The gateways that are there, the one that reported last at the end."""
        return list(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, gateway: str) -> bool:
        return gateway in self._members

    def alone_before(self, number: int) -> list[str]:
        """Return the gateways that were alone, and have not written their report of this number: they may not
        know of others yet.
        """
        return [name for name, each in self._members.items() if each.was_alone and each.number < number]

    @property
    def with_connections(self) -> Collection[str]:
        """The gateways that share limits on connections, in the order in which they joined."""
        return self._with_connections.keys()

    @property
    def divisions(self) -> Mapping[SharedKey, Division]:
        """The limits that gateways use."""
        return self._divisions

    def receive(self, report: Report) -> Steps[list[SharedKey] | None]:
        """Take the next report of the log. Returns the limits of the report whose shares are too large
        together, and None for one that comes twice or too late, which changes nothing.
        """
        self._position += 1
        name = report.gateway
        member = self._members.get(name)
        if name in self._left or (member is not None and report.number <= member.number):
            return None
        if report.leaving:
            self._left[name] = None
            if len(self._left) > MAX_GATEWAYS:
                self._left.popitem(last=False)
            self._remove([name])
            return []
        if member is None:
            if len(self._members) >= MAX_GATEWAYS:
                self._remove([next(iter(self._members))])
            member = self._members[name] = _Member()
        member.number = report.number
        member.positions.append(self._position)
        self._members.move_to_end(name)
        self._remove(self._gone(member))
        if report.has_connections:
            self._with_connections.setdefault(name)
        before, member.keys = member.keys, frozenset(report.lines)
        for key in before - member.keys:
            self._drop(key, name)
            yield
        full: list[SharedKey] = []
        for number, (key, line) in enumerate(report.lines.items()):
            if number % LINES_PER_STEP == 0:
                yield
            division = self._divisions.get(key)
            if division is None:
                division = self._divisions[key] = Division()
            division.put(name, line, self._reserved(division, name) if is_count(key) else 0)
            if division.total > WHOLE:
                full.append(key)
        return full

    def _reserved(self, division: Division, name: str) -> int:
        """Return the equal parts of the gateways without a line, once `name` has one."""
        sharing = len(self._with_connections)
        without = sharing - len(division.lines) - (name not in division.lines)
        return max(without, 0) * equal_part(sharing)

    def gone_with_next(self, gateway: str) -> frozenset[str]:
        """Return the gateways that the next report of this one removes, unless they write one before."""
        member = self._members.get(gateway)
        if member is None or len(member.positions) < MISSED - 1:
            return frozenset()
        return frozenset(self._silent_since(member.positions[1 - MISSED]))

    def _gone(self, member: _Member) -> list[str]:
        """Return the gateways that have missed too many reports, now that `member` has written one."""
        if len(member.positions) < MISSED:
            return []
        return self._silent_since(member.positions[0])

    def _silent_since(self, since: int) -> list[str]:
        gone = []
        for name, other in self._members.items():
            if other.positions[-1] >= since:
                break
            gone.append(name)
        return gone

    def _remove(self, names: Iterable[str]) -> None:
        for name in names:
            member = self._members.pop(name, None)
            self._with_connections.pop(name, None)
            if member is not None:
                for key in member.keys:
                    self._drop(key, name)
        self._note_alone()

    def _note_alone(self) -> None:
        if len(self._members) == 1:
            (alone,) = self._members.values()
            alone.was_alone = True

    def _drop(self, key: SharedKey, name: str) -> None:
        division = self._divisions[key]
        division.remove(name)
        if not division.lines:
            del self._divisions[key]
