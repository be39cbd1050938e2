"""A gateway's report to the others, once a second: a record of `__weir_shares`, JSON in UTF-8.

    {"version": 1, "gateway": "g1-5f0c", "number": 17, "limits": [
      {"quota": "produce", "user": "alice", "passed": 250000, "waiting": 90000,
       "share": 333333, "wanted": 350000}]}

Numbers are millionths of the limit: `passed` of what it allows in a second, `waiting` of the same amount. A
gateway that stops writes "leaving": true and no limits. Gateways ignore reports of other versions and what
they cannot read. Version 2 is `summary`'s.

Before "limits" are those on connections, by their keys, each with an address or user, the same numbers, and
the limit on open ones. Gateways that do not know them skip them, and are none of those that share them:

    "connections": {"max.connections.per.user": [["alice", 250000, 90000, 333333, 350000, 12]]}
"""

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, NamedTuple, TypeGuard

import msgspec

from broker.common.slices import Steps
from broker.metrics.rate import INT_MAX
from broker.quotas.connections import CREATION_RATE, IP_RATE, PER_IP, PER_USER, USER_RATE
from broker.quotas.kinds import QuotaKind
from broker.quotas.shared_connections import ConnectionKey

VERSION: Final = 1

WHOLE: Final = 1_000_000
"""A whole limit. Shares are integers, so that all gateways compute the same ones."""

MAX_AMOUNT: Final = 1_000 * WHOLE
"""A larger demand is reported as this, and a larger number is no report's: JSON has numbers that no share can
be computed with.
"""

Amount = Annotated[int, msgspec.Meta(ge=0, le=MAX_AMOUNT)]

MAX_COUNT: Final = 2**63
"""A whole number of another gateway is below; a console adds them, and shows times of them."""

LINES_AT_ONCE: Final = 128
"""Limits that are written or read between two pauses; ours. Each takes 5 microseconds."""

READ_AT_ONCE: Final = 16_384
"""Bytes of a report whose outline is read at once, whatever is in it: half a millisecond."""

MAX_HEAD: Final = 65_536
"""Bytes before the limits of a larger report."""

PIECE_BYTES: Final = 65_536
MAX_PIECE: Final = 524_288
"""Bytes of limits after which a pause follows, and at most before one. Two names of one limit can have
400,000.
"""

LIMITS: Final = b',"limits":['
NEXT_LIMIT: Final = b'},{"quota":'
"""Where the limits of a written report begin, and where one ends and another begins. Within a name, the
quotes would be escaped.
"""

MAX_VERSION: Final = 16
"""Characters of an unknown version that are logged."""


class LimitKey(NamedTuple):
    """One limit: a quota, and the user and client id that its rule distinguishes (None: it does not)."""

    kind: QuotaKind
    user: str | None
    client_id: str | None


COUNTS: Final = frozenset((PER_IP, PER_USER))
"""Limits on open connections: `passed` are open, and they remain where they are."""

CONNECTION_LIMITS: Final = COUNTS | {CREATION_RATE, IP_RATE, USER_RATE}

SharedKey = LimitKey | ConnectionKey


def is_count(key: SharedKey) -> TypeGuard[ConnectionKey]:
    return isinstance(key, ConnectionKey) and key.limit in COUNTS


class Line(NamedTuple):
    """A gateway's use of one limit in millionths: `passed` per second, and `waiting` in muted connections.

    The gateway has at most `share` in force until it reads this report, and from then on as much of `wanted`
    as the table grants it for this report. Shares of a `maximum` of open connections are whole connections;
    0: parts of anything.
    """

    passed: int
    waiting: int
    share: int
    wanted: int
    maximum: int = 0


class Report(msgspec.Struct, frozen=True):
    """`number` counts the reports of a gateway from 1. A gateway that starts again has another id. With
    `has_connections` it shares limits on connections.
    """

    gateway: str
    number: int
    lines: Mapping[SharedKey, Line] = msgspec.field(default_factory=dict)
    leaving: bool = False
    has_connections: bool = False


class UnreadableReport(ValueError):  # noqa: N818 - describes the record
    """A record that is no report of this version."""


def check_size(data: bytes, maximum: int) -> None:
    """Raise UnreadableReport for a record of more bytes than are read."""
    if len(data) > maximum:
        raise UnreadableReport(f"{len(data)} bytes, and at most {maximum} are read")


def as_json(value: Any) -> bytes:
    """Return a part of a record. A name that is not valid Unicode does not end the task."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode(errors="replace")


def text_of(value: Any) -> str:
    """Raises UnreadableReport for what is no text."""
    if not isinstance(value, str):
        raise UnreadableReport("no text")
    return value


def count_of(value: Any) -> int:
    """Raises UnreadableReport for what is no number that a console can show."""
    if type(value) is not int or not 0 <= value < MAX_COUNT:
        raise UnreadableReport("no count")
    return value


class _Outline(msgspec.Struct):
    """A report whose limits have not been read."""

    version: Any
    gateway: Any = None
    number: Any = None
    leaving: Any = False
    connections: msgspec.Raw = msgspec.Raw()
    limits: list[msgspec.Raw] | None = None


def write_report(report: Report) -> Steps[bytes]:
    """Return the record."""
    found: dict[str, Any] = {"version": VERSION, "gateway": report.gateway, "number": report.number}
    if report.leaving:
        found["leaving"] = True
    pieces: list[bytes] = []
    limits: list[_Limit] = []
    connections: dict[str, list[tuple[str | int, ...]]] = {}
    for key, line in report.lines.items():
        if isinstance(key, ConnectionKey):
            connections.setdefault(key.limit, []).append((key.name, *line))
            continue
        limits.append(
            _Limit(
                quota=key.kind,
                user=key.user,
                client_id=key.client_id,
                passed=line.passed,
                waiting=line.waiting,
                share=line.share,
                wanted=line.wanted,
            )
        )
        if len(limits) == LINES_AT_ONCE:
            pieces.append(_limits_as_json(limits))
            limits.clear()
            yield
    if limits:
        pieces.append(_limits_as_json(limits))
    if report.has_connections:
        found["connections"] = connections
        yield
    return b'%b,"limits":[%b]}' % (as_json(found)[:-1], b",".join(pieces))


def _limits_as_json(limits: list["_Limit"]) -> bytes:
    """Return limits without brackets."""
    try:
        return msgspec.json.encode(limits)[1:-1]
    except UnicodeEncodeError:
        return as_json(msgspec.to_builtins(limits))[1:-1]


def reads_as(report: Report, data: bytes) -> bool:
    """Return whether `read_report` returns an equal report of what `write_report` has made of it, as far as
    that is certain without reading it.
    """
    if len(data) > MAX_PIECE or data.find(LIMITS, 0, MAX_HEAD) < 0:
        return False
    names = (name for key in report.lines for name in key[1:] if name is not None)
    try:
        "".join(names).encode()
    except UnicodeEncodeError:
        return False
    return True


def read_report(data: bytes) -> Steps[Report]:
    """Raises UnreadableReport."""
    try:
        head, pieces = _divided(data)
        found = msgspec.json.decode(head, type=_Outline)
        if found.version != VERSION:
            raise UnreadableReport(f"version {str(found.version)[:MAX_VERSION]}")
        gateway, number, leaving, limits = found.gateway, found.number, found.leaving, found.limits
        if not isinstance(gateway, str) or not gateway or not isinstance(leaving, bool) or limits is None:
            raise UnreadableReport("no gateway")
        lines: dict[SharedKey, Line] = {}
        given = bytes(found.connections)
        connections = _CONNECTIONS.decode(given) if given else {}
        for limit in CONNECTION_LIMITS.intersection(connections):
            yield
            for name, *numbers in map(msgspec.structs.astuple, connections[limit]):
                lines[ConnectionKey(limit, name)] = Line(*numbers)
        for piece in pieces:
            for each in _LINES.decode(piece):
                key = LimitKey(each.quota, each.user, each.client_id)
                lines[key] = Line(each.passed, each.waiting, each.share, each.wanted)
            yield
        return Report(gateway, _amount(number, "number"), lines, leaving, bool(given))
    except UnreadableReport:
        raise
    except (ValueError, KeyError, TypeError, RecursionError, msgspec.MsgspecError) as error:
        raise UnreadableReport(f"{type(error).__name__}: {error}") from error


class _Limit(msgspec.Struct, omit_defaults=True, kw_only=True):
    quota: QuotaKind
    user: str | None = None
    client_id: str | None = None
    passed: Amount
    waiting: Amount
    share: Amount
    wanted: Amount


class _Connections(msgspec.Struct, array_like=True):
    name: str
    passed: Amount
    waiting: Amount
    share: Amount
    wanted: Amount
    maximum: Annotated[int, msgspec.Meta(ge=0, lt=INT_MAX)] = 0


_CONNECTIONS: Final = msgspec.json.Decoder(dict[str, list[_Connections]])
_LINES: Final = msgspec.json.Decoder(list[_Limit])


def _divided(data: bytes) -> tuple[bytes, Iterator[bytes]]:
    """Return a report whose limits have not been read, and its limits as lists of LINES_AT_ONCE at most.

    Half a million empty limits would take 25 ms to separate: a large report is divided where it
    was put together. Raises UnreadableReport.
    """
    data = data.rstrip()
    if len(data) <= READ_AT_ONCE:
        found = msgspec.json.decode(data, type=_Outline)
        limits = found.limits or ()
        pieces = (
            b"[%b]" % b",".join(limits[at : at + LINES_AT_ONCE])
            for at in range(0, len(limits), LINES_AT_ONCE)
        )
        return data, pieces
    begin = data.find(LIMITS, 0, MAX_HEAD)
    if begin < 0 or not data.endswith(b"]}"):
        raise UnreadableReport("no limits")
    return data[:begin] + LIMITS + b"]}", _pieces(data, begin + len(LIMITS))


def _pieces(data: bytes, begin: int) -> Iterator[bytes]:
    """Yield the limits from `begin` on, some at a time. Raises UnreadableReport."""
    end = len(data) - 2
    while begin < end:
        stop = begin
        for _ in range(LINES_AT_ONCE):
            stop = data.find(NEXT_LIMIT, stop + 1, end)
            if stop < 0 or stop - begin > PIECE_BYTES:
                break
        stop = end if stop < 0 else stop + 1
        if stop - begin > MAX_PIECE:
            raise UnreadableReport(f"{stop - begin} bytes of limits that are not divided")
        yield b"[%b]" % data[begin:stop]
        begin = stop + 1


def _amount(value: Any, name: str) -> int:
    if type(value) is not int or not 0 <= value <= MAX_AMOUNT:
        raise UnreadableReport(f"{name} is no count")
    return value
