"""Opened, closed, refused and delayed connections. Reported by the socket server and the connection gate.

A connection storm becomes one row for each combination of address, client and reason, with the number of
connections; a row of a single connection has its id.
"""

from collections.abc import Iterator
from typing import NamedTuple

from broker.events.source import encode, topic_of
from broker.network.connection.channel import Channel
from broker.quotas.connections import IP_RATE


class _Row(NamedTuple):
    event: str
    listener: str
    address: str
    principal: str = ""
    client_id: str = ""
    software_name: str = ""
    software_version: str = ""
    reason: str = ""
    bound: float | None = None


class _Sums:
    __slots__ = ("bytes_in", "bytes_out", "connection", "count", "delay_ms", "lived_ms", "requests")

    def __init__(self) -> None:
        self.connection: str | None = None
        self.count = self.requests = self.bytes_in = self.bytes_out = self.lived_ms = self.delay_ms = 0


class ConnectionEvents:
    """A `Source` with at most `most` rows."""

    def __init__(self, most: int) -> None:
        self.topic = topic_of("connections")
        self.left_out = 0
        self._most = most
        self._rows: dict[_Row, _Sums] = {}
        self._closed: list[tuple[_Sums, int]] = []

    def opened(self, channel: Channel) -> None:
        self._count(_Row("opened", channel.listener, channel.address), channel.id)

    def closed(self, channel: Channel, reason: str) -> None:
        row = _Row(
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
        self._count(_Row("refused", listener, address, reason=rule, bound=bound))

    def delayed(self, listener: str, address: str, throttle_ms: int, bound: float) -> None:
        sums = self._count(_Row("throttled", listener, address, reason=IP_RATE, bound=bound))
        if sums is not None:
            sums.delay_ms += throttle_ms

    def take(self, time_ms: int) -> Iterator[bytes]:
        rows, self._rows = self._rows, {}
        closed, self._closed = self._closed, []
        for sums, opened_ms in closed:
            sums.lived_ms += max(time_ms - opened_ms, 0)
        for row, sums in rows.items():
            yield encode(
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

    def _count(self, row: _Row, connection: str | None = None) -> _Sums | None:
        sums = self._rows.get(row)
        if sums is None:
            if len(self._rows) >= self._most:
                self.left_out += 1
                return None
            sums = self._rows[row] = _Sums()
        sums.count += 1
        sums.connection = connection
        return sums
