"""Requests, throttles and connections, added up for each second, and transactions that the coordinator
aborted.

The requests are read from the network's `UsageTaps`; requests that processors serve from a request cache
are counted by API only. The network's `Throttling` reports throttles; the socket server and the connection
gate report connections.

`EventSource` and `encode` are shared by all kinds of event.
"""

import json
from collections.abc import Iterator
from itertools import groupby, islice
from operator import itemgetter
from typing import Final, NamedTuple, Protocol

from broker.coordinator.transaction.state import CoordinatorAbort, TransactionClient
from broker.metadata.image import OUR_TOPICS
from broker.metrics.histogram import BUCKETS, top_of
from broker.network.connection.channel import Channel
from broker.network.requests.client_usage import TIMED_PHASES, ApiClient, ApiUsage, UsageTaps
from broker.network.requests.request_metrics import TICK_NS, AllMetrics
from broker.quotas.connections import IP_RATE
from broker.quotas.entity import Governing
from broker.quotas.kinds import QuotaKind
from broker.quotas.throttle_compliance import ThrottleCompliance
from broker.quotas.throttled import Throttle

VERSION: Final = 1
"""The version of most formats, `v` in every record. New fields do not change the version."""


class Event(NamedTuple):
    """One record. Events with the same key go to the same partition, in order."""

    key: bytes | None
    value: bytes


def client_key(principal: str, client_id: str) -> bytes:
    """Return the key of the events of a client."""
    return f"{principal}/{client_id}".encode("utf-8", "replace")


class EventSource(Protocol):
    """Collects events of one kind. `left_out` counts the events that exceeded the maximum number of rows."""

    topic: str
    left_out: int

    def drain(self, time_ms: int) -> Iterator[Event]:
        """Return the records for the time since the last call, which ends at `time_ms`."""


def encode(time_ms: int, fields: dict[str, object], version: int = VERSION) -> bytes:
    """Return a record's value: JSON with the end of its interval."""
    return json.dumps(
        {"v": version, "time_ms": time_ms, **fields}, separators=(",", ":"), ensure_ascii=False
    ).encode("utf-8", "replace")


REQUESTS_VERSION: Final = 3
"""Version 1 called the source `cached` "by_heart". Version 2 had `phases`, an object of lists of pairs."""

CACHED: Final = "cached"
OTHERS: Final = "others"


class RequestEvents:
    """A `EventSource` with a row for each principal, client id and API: at most `max_rows` rows a second;
    further clients share one row.
    """

    def __init__(self, max_rows: int, usage: UsageTaps, metrics: AllMetrics) -> None:
        self.topic = OUR_TOPICS + "requests"
        self.left_out = 0
        self._max_rows = max_rows
        self._usage = usage
        self._metrics = metrics
        self._cached: dict[str, int] = {}

    def begin(self) -> None:
        """Discard what was counted before; it belongs to no row."""
        for _ in self._usage.drain(0):
            pass
        self._cached = {api.name: sum(part.cached for part in api.parts) for api in self._metrics.once()}

    def drain(self, time_ms: int) -> Iterator[Event]:
        for client, use in self._usage.drain(self._max_rows):
            key = None if client is None else client_key(client.principal, client.client_id)
            yield Event(key, encode(time_ms, _request_row(client, use), REQUESTS_VERSION))
        for api in self._metrics.once():
            total = sum(part.cached for part in api.parts)
            more = total - self._cached.get(api.name, 0)
            if more:
                self._cached[api.name] = total
                row: dict[str, object] = {"source": CACHED, "api": api.name, "requests": more}
                yield Event(None, encode(time_ms, row, REQUESTS_VERSION))


EDGES_US: Final = tuple(-(-(top_of(bucket) + 1) * TICK_NS // 1000) for bucket in range(BUCKETS))
"""The upper edge of each bucket of a phase's histogram."""

PHASE_STEP: Final = 10
"""A bucket's number in an event is this times its edge, plus the place of its phase in `TIMED_PHASES`."""

_NUMBERS: Final = tuple(
    tuple(PHASE_STEP * edge + place for edge in EDGES_US) for place in range(len(TIMED_PHASES))
)
_LOCAL: Final = TIMED_PHASES.index("local")


def _request_row(client: ApiClient | None, use: ApiUsage) -> dict[str, object]:
    fields = {"source": OTHERS} if client is None else {"source": "client", **client._asdict()}
    buckets: list[int] = []
    counts: list[int] = []
    for numbers, histogram in zip(_NUMBERS, use.phases, strict=True):
        found = sorted(histogram)
        buckets += [numbers[bucket] for bucket in found]
        counts += [histogram[bucket] for bucket in found]
    return {
        **fields,
        "requests": use.requests,
        "bytes_in": use.bytes_in,
        "bytes_out": use.bytes_out,
        "throttle_ms": use.throttle_ms,
        "errors": {str(code): count for code, count in use.errors.items()},
        "timed": use.timed,
        "local_us": sum(EDGES_US[bucket] * count for bucket, count in use.phases[_LOCAL].items()),
        "buckets": buckets,
        "counts": counts,
    }


class _Throttled:
    """The sum of a row's throttles, with the observed value and bound of the last one."""

    __slots__ = ("channel", "count", "last", "longest_ms", "total_ms")

    def __init__(self, channel: Channel, throttle: Throttle) -> None:
        self.channel = channel
        self.last = throttle
        self.count = self.total_ms = self.longest_ms = 0

    def add(self, throttle: Throttle) -> None:
        self.last = throttle
        self.count += 1
        self.total_ms += throttle.throttle_ms
        self.longest_ms = max(self.longest_ms, throttle.throttle_ms)


class ThrottleEvents:
    """A `EventSource` with a row for each connection and rule: at most `max_rows` rows."""

    def __init__(self, max_rows: int, throttle_compliance: ThrottleCompliance) -> None:
        self.topic = OUR_TOPICS + "throttles"
        self.left_out = 0
        self._max_rows = max_rows
        self._throttle_compliance = throttle_compliance
        self._rows: dict[tuple[Channel, QuotaKind, Governing], _Throttled] = {}

    def throttled(self, channel: Channel, throttle: Throttle) -> None:
        key = channel, throttle.kind, throttle.rule
        row = self._rows.get(key)
        if row is None:
            if len(self._rows) >= self._max_rows:
                self.left_out += 1
                return
            row = self._rows[key] = _Throttled(channel, throttle)
        row.add(throttle)

    def drain(self, time_ms: int) -> Iterator[Event]:
        rows, self._rows = self._rows, {}
        for row in rows.values():
            channel, last = row.channel, row.last
            seen = self._throttle_compliance.take_observations(channel)
            value = encode(
                time_ms,
                {
                    "kind": last.kind,
                    "entity": dict(last.rule.pairs),
                    "principal": channel.principal,
                    "client_id": channel.client_id or "",
                    "connection": channel.id,
                    "listener": channel.listener,
                    "address": channel.address,
                    "software_name": channel.software_name,
                    "software_version": channel.software_version,
                    "upstream_node": last.sensor.node,
                    "observed": last.observed,
                    "bound": last.bound,
                    "count": row.count,
                    "throttle_ms": row.total_ms,
                    "longest_ms": row.longest_ms,
                    "obeys": seen.obeys,
                    "waited": seen.waited,
                    "sent_early": seen.sent_early,
                },
            )
            yield Event(client_key(channel.principal, channel.client_id or ""), value)


class _ConnectionRow(NamedTuple):
    event: str
    listener: str
    address: str
    principal: str = ""
    client_id: str = ""
    software_name: str = ""
    software_version: str = ""
    reason: str = ""
    bound: float | None = None


class _ConnectionSums:
    __slots__ = ("bytes_in", "bytes_out", "connection", "count", "delay_ms", "lived_ms", "requests")

    def __init__(self) -> None:
        self.connection: str | None = None
        self.count = self.requests = self.bytes_in = self.bytes_out = self.lived_ms = self.delay_ms = 0


class ConnectionEvents:
    """A `EventSource` with at most `max_rows` rows.

    A connection storm becomes one row for each combination of address, client and reason, with the number of
    connections; a row of a single connection has its id.
    """

    def __init__(self, max_rows: int) -> None:
        self.topic = OUR_TOPICS + "connections"
        self.left_out = 0
        self._max_rows = max_rows
        self._rows: dict[_ConnectionRow, _ConnectionSums] = {}
        self._closed: list[tuple[_ConnectionSums, int]] = []

    def opened(self, channel: Channel) -> None:
        self._count(_ConnectionRow("opened", channel.listener, channel.address), channel.id)

    def closed(self, channel: Channel, reason: str) -> None:
        row = _ConnectionRow(
            "closed",
            channel.listener,
            channel.address,
            channel.principal,
            channel.client_id or "",
            channel.software_name,
            channel.software_version,
            reason,
        )
        sums = self._count(row, channel.id)
        if sums is not None:
            sums.requests += channel.requests
            sums.bytes_in += channel.bytes_in
            sums.bytes_out += channel.bytes_out
            self._closed.append((sums, channel.opened_wall_ms))

    def refused(self, listener: str, address: str, rule: str, bound: float) -> None:
        self._count(_ConnectionRow("refused", listener, address, reason=rule, bound=bound))

    def delayed(self, listener: str, address: str, throttle_ms: int, bound: float) -> None:
        sums = self._count(_ConnectionRow("throttled", listener, address, reason=IP_RATE, bound=bound))
        if sums is not None:
            sums.delay_ms += throttle_ms

    def drain(self, time_ms: int) -> Iterator[Event]:
        rows, self._rows = self._rows, {}
        closed, self._closed = self._closed, []
        for sums, opened_ms in closed:
            sums.lived_ms += max(time_ms - opened_ms, 0)
        for row, sums in rows.items():
            value = encode(
                time_ms,
                {
                    **row._asdict(),
                    "connection": sums.connection if sums.count == 1 else None,
                    "count": sums.count,
                    "requests": sums.requests,
                    "bytes_in": sums.bytes_in,
                    "bytes_out": sums.bytes_out,
                    "lived_ms": sums.lived_ms,
                    "delay_ms": sums.delay_ms,
                },
            )
            yield Event(row.address.encode(), value)

    def _count(self, row: _ConnectionRow, connection: str | None = None) -> _ConnectionSums | None:
        sums = self._rows.get(row)
        if sums is None:
            if len(self._rows) >= self._max_rows:
                self.left_out += 1
                return None
            sums = self._rows[row] = _ConnectionSums()
        sums.count += 1
        sums.connection = connection
        return sums


MAX_PARTITIONS: Final = 1_000
"""Partitions that an event names; ours. A transaction may have 100,000."""

UNKNOWN: Final = TransactionClient("", "", "")


class TransactionEvents:
    """A `EventSource` with at most `max_rows` rows a second."""

    def __init__(self, max_rows: int) -> None:
        self.topic = OUR_TOPICS + "transactions"
        self.left_out = 0
        self._max_rows = max_rows
        self._aborts: list[CoordinatorAbort] = []

    def aborted(self, abort: CoordinatorAbort) -> None:
        if len(self._aborts) < self._max_rows:
            self._aborts.append(abort)
        else:
            self.left_out += 1

    def drain(self, time_ms: int) -> Iterator[Event]:
        aborts, self._aborts = self._aborts, []
        for each in aborts:
            key = each.transactional_id.encode("utf-8", "replace")
            yield Event(key, encode(time_ms, _fields(each)))


def _fields(abort: CoordinatorAbort) -> dict[str, object]:
    data, client = abort.before, abort.client or UNKNOWN
    named = islice(sorted(data.partitions), MAX_PARTITIONS)
    return {
        "event": "aborted",
        "reason": abort.reason,
        "transactional_id": abort.transactional_id,
        "producer_id": data.producer_id,
        "producer_epoch": data.producer_epoch,
        "principal": client.principal.removeprefix("User:"),
        "client_id": client.client_id,
        "address": client.address,
        "timeout_ms": data.timeout_ms,
        "started_ms": data.started_ms,
        "open_ms": max(abort.wall_ms - data.started_ms, 0),
        "partitions": {
            topic: [index for _, index in group] for topic, group in groupby(named, itemgetter(0))
        },
        "partition_count": len(data.partitions),
    }
