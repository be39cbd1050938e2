"""The usage of clients: by API and second for the event log, and in accounts for the console.

Taps on the request metrics collect requests, bytes, errors and phases by principal, client id and API while
`UsageTaps` is enabled, and `broker.monitoring.events` takes them once a second. Disabled, no tap exists.
All requests of a client are counted; only the first of each second are timed, so the phases of a busy client
are a sample.

`ClientAccounts` updates the accounts of clients every second from open connections, and when a connection
closes. It adds nothing to a request; an update costs half a microsecond per inactive connection and four per
active one.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import trio

from broker.metrics.histogram import bucket_of
from broker.network.clock import TrioClock
from broker.network.connection.channel import Channel
from broker.network.requests.request_metrics import TICK_BITS, MeasuredRequest
from broker.quotas.accounts import Accounts

TIMED: Final = 16
"""Requests per connection and API that are timed within a second."""

TIMED_PHASES: Final = ("queue", "local", "remote", "response_queue", "response_send", "total")

Histogram = dict[int, int]
"""Counts per bucket of `broker.metrics.histogram`, in ticks, without empty buckets."""


class ApiUsage:
    """The usage of one API by one connection. `throttle_ms` is the sum of its responses' throttle times."""

    __slots__ = ("bytes_in", "bytes_out", "errors", "phases", "requests", "throttle_ms", "timed")

    def __init__(self) -> None:
        self.requests = self.timed = self.bytes_in = self.bytes_out = self.throttle_ms = 0
        self.errors: dict[int, int] = {}
        self.phases: tuple[Histogram, ...] = ({}, {}, {}, {}, {}, {})

    def add(self, other: "ApiUsage") -> None:
        self.requests += other.requests
        self.timed += other.timed
        self.bytes_in += other.bytes_in
        self.bytes_out += other.bytes_out
        self.throttle_ms += other.throttle_ms
        for code, count in other.errors.items():
            self.errors[code] = self.errors.get(code, 0) + count
        for mine, others in zip(self.phases, other.phases, strict=True):
            for bucket, count in others.items():
                mine[bucket] = mine.get(bucket, 0) + count


class ApiClient(NamedTuple):
    """A principal and client id, and the API that they use."""

    principal: str
    client_id: str
    api: str


class UsageTap:
    """One API's requests by connection, since the last `drain`."""

    wants_all = False

    def __init__(self, name: str) -> None:
        self.name = name
        self._uses: dict[Channel, ApiUsage] = {}

    def response_sent(self, request: MeasuredRequest, taken: int, sent: int, size: int) -> None:
        try:
            use = self._uses[request.channel]
        except KeyError:
            use = self._of(request.channel)
        use.requests += 1
        use.bytes_in += request.size + 4
        use.bytes_out += size
        if use.timed < TIMED:
            use.timed += 1
            _time(use.phases, request, taken, sent)

    def forwarded(self, channel: Channel, bytes_in: int, bucket: int, bytes_out: int) -> None:
        """Record a request and its response, whose time, in ticks, is in `bucket` and was all remote."""
        use = self._uses.get(channel)
        if use is None:
            use = self._of(channel)
        use.requests += 1
        use.bytes_in += bytes_in
        use.bytes_out += bytes_out
        if use.timed < TIMED:
            use.timed += 1
            queue, local, remote, response_queue, _, total = use.phases
            queue[0] = queue.get(0, 0) + 1
            local[0] = local.get(0, 0) + 1
            remote[bucket] = remote.get(bucket, 0) + 1
            response_queue[0] = response_queue.get(0, 0) + 1
            total[bucket] = total.get(bucket, 0) + 1

    def errors_counted(self, request: MeasuredRequest, counts: Mapping[int, int]) -> None:
        errors = self._of(request.channel).errors
        for code, count in counts.items():
            errors[code] = errors.get(code, 0) + count

    def throttled(self, request: MeasuredRequest, throttle_ms: int) -> None:
        self._of(request.channel).throttle_ms += throttle_ms

    def drain(self) -> dict[Channel, ApiUsage]:
        """Return the usage and start from zero."""
        taken, self._uses = self._uses, {}
        return taken

    def _of(self, channel: Channel) -> ApiUsage:
        return self._uses.setdefault(channel, ApiUsage())


class UsageTaps:
    """Disabled at first."""

    def __init__(self) -> None:
        self.is_enabled = False
        self._taps: dict[str, UsageTap] = {}

    def tap(self, name: str) -> UsageTap | None:
        """Return the tap that counts one API's requests by client, or None while disabled."""
        return self._taps.setdefault(name, UsageTap(name)) if self.is_enabled else None

    def enable(self, is_enabled: bool) -> None:
        """Turn the counting on or off. The caller must `renew_metrics` the routes if it changes."""
        self.is_enabled = is_enabled

    def drain(self, max_clients: int) -> Iterator[tuple[ApiClient | None, ApiUsage]]:
        """Yield the usage since the last call for at most `max_clients` clients; the others are added up
        under None.
        """
        found: dict[ApiClient, ApiUsage] = {}
        others = ApiUsage()
        for tap in self._taps.values():
            for channel, use in tap.drain().items():
                client = ApiClient(channel.principal, channel.client_id or "", tap.name)
                known = found.get(client)
                if known is not None:
                    known.add(use)
                elif len(found) < max_clients:
                    found[client] = use
                else:
                    others.add(use)
        yield from found.items()
        if others.requests:
            yield None, others


def _time(phases: tuple[Histogram, ...], request: MeasuredRequest, taken: int, sent: int) -> None:
    """Record the phases as RequestMetrics.count_phases does: a phase that did not occur is not recorded."""
    queue, local, remote, response_queue, response_send, total = phases
    local_complete = request.local_complete or request.completed
    _count(queue, request.dequeued - request.received)
    _count(local, local_complete - request.dequeued)
    if request.local_complete:
        _count(remote, request.completed - local_complete)
    _count(response_queue, taken - request.completed)
    if sent > taken:
        _count(response_send, sent - taken)
    _count(total, sent - request.received)


def _count(histogram: Histogram, nanoseconds: int) -> None:
    bucket = bucket_of(max(nanoseconds, 0) >> TICK_BITS)
    histogram[bucket] = histogram.get(bucket, 0) + 1


NAME: Final = "client-usage-timer"

CHANNELS_PER_SECOND: Final = 1_000
"""Average number of connections examined per second; with more connections, updates are less frequent."""


class ClientAccounts:
    """`channels` returns all open connections."""

    def __init__(self, channels: Callable[[], Iterable[Channel]], clock: TrioClock) -> None:
        self._channels = channels
        self._clock = clock
        self._accounts = Accounts()

    def update(self) -> Accounts:
        """Update and return the accounts."""
        self._accounts.update(self._channels(), self._clock.ms())
        return self._accounts

    @property
    def last(self) -> Accounts:
        """The accounts as of their last update."""
        return self._accounts

    def closed(self, channel: Channel) -> None:
        self._accounts.closed(channel, self._clock.ms())

    async def run(self) -> None:
        """Update the accounts until cancelled."""
        while True:
            connections = sum(account.connections for account in self._accounts)
            await trio.sleep(max(1.0, connections / CHANNELS_PER_SECOND))
            self.update()
