"""The routes of requests by API and version, and one request that goes upstream.

`client_receive` looks a route up by the first four bytes of a request; the first lookup builds it. A route
holds everything that does not depend on the connection, so that a request costs one dictionary lookup.
"""

from collections import deque
from collections.abc import Callable, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final

import trio

from broker.api.registry import Registry
from broker.api.requests.context import RequestContext
from broker.common.errors import ProtocolViolation
from broker.gateway.api_versions import STATES_NODE, Forwardable, forwardable, is_allowed, judged
from broker.gateway.client_racks import HEARTBEATS, takes_rack
from broker.gateway.internal_topics import internal_marks
from broker.gateway.kept_responses import KeptResponse
from broker.gateway.own_topics import TRANSACTIONAL_FROM
from broker.gateway.responses import Rewriter, max_response, plain_ending, rewriter
from broker.gateway.throttle_time import throttle_offset
from broker.gateway.topics_named import TOPICS_AT
from broker.gateway.upstream.errors import Reason, UpstreamError
from broker.metrics.histogram import BUCKET_OF, LINEAR, bucket_of
from broker.network.connection.channel import Channel
from broker.network.requests.client_usage import UsageTap
from broker.network.requests.request_metrics import TICK_BITS, RequestMetrics
from broker.protocol.api_key import FLEXIBLE_FROM, NAMES, ApiKey
from broker.protocol.codec import known_versions

MetricsOf = Callable[[str, int], RequestMetrics]

Answers = Callable[[memoryview | None, Channel], bool]
"""Takes a request without its size, or None for one of more than SMALL_BYTES, and the connection of its
client. Returns whether the gateway answers it; else it is forwarded.
"""

AnswersVersion = Callable[[int], Answers | None]
"""Takes a version of an API. Returns None if its requests are always forwarded."""

SASL: Final = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
BEFORE_LOGIN: Final = (ApiKey.API_VERSIONS, *SASL)

JUDGED_BY_ROLE: Final = (ApiKey.METADATA, ApiKey.FIND_COORDINATOR)
"""Whether the gateway answers one of these depends on nothing but the request and its client's role, which no
setting changes during a run.
"""

FETCH_TOPICS_AT: Final = {13: 22, 14: 22, 15: 18}
"""Where the topics of a Fetch without tags begin, behind the first three bytes of its body, by version."""


class Treatment(IntEnum):
    """The work of `client_receive` for a request beyond forwarding it."""

    FORWARD = 0
    PRODUCE = 1
    """Reads acks, and charges the client's produce quota."""
    FETCH = 2
    """Charges the client's fetch quota for the response."""
    WHOLE = 3
    """Reads the whole request first: its names, credentials or number of partitions matter."""
    LOCAL = 4
    """Answers it here."""


RECORDS: Final[dict[int, Treatment]] = {ApiKey.PRODUCE: Treatment.PRODUCE, ApiKey.FETCH: Treatment.FETCH}

FETCHES: Final = (ApiKey.FETCH, ApiKey.SHARE_FETCH)
"""APIs whose responses the fetch quota is charged for."""

MAX_REFUSED: Final = 1024 * 1024
"""The largest Produce or Fetch that is answered if it is refused; a larger one closes the connection. Ours.
"""

LAST_KEY: Final = 255
LAST_VERSION: Final = 31
"""The routes that stay, and the versions with metrics of their own, go up to these; ours. Kafka 4.4 has keys
up to 94 and versions up to 18. A client may send any, and each version takes 20 kB.
"""

MAX_OTHERS: Final = 64
"""Routes beyond these that are kept at once; ours. The oldest one makes room for another one."""


NEVER: Final = 256
"""More than a byte can be: the topics of such a request are not noted."""


class ForwardRoute:
    """One API in one version. `rewrite` is set if its responses contain addresses; one that ends in
    `plain_ending` has none. With `collects`, responses are passed on when they are whole, and have at most
    `max_response` bytes. `throttle_at` is the offset of their throttle time; see `throttle_time`. The fetch
    quota is charged for them if the API `is_fetch`. `topics_at` is the offset of the topics of a Fetch by
    id, behind the four bytes after a usual client id; `names_at` is that of the last byte of the number of
    topics, of a Fetch whose topics are noted; up to `no_topics` it has none. With `answers`, a request is
    LOCAL only if that returns True; with `refuses_replicas`, a Fetch is if it is a replica's. A Produce or
    Fetch that is refused is answered if it has up to `max_refused` bytes: 0 in a version that the codec
    does not know. A request is a usual one if the number in the four bytes behind its client id is between
    `usual_above` and `usual_below`; see `client_receive`. One that `takes_rack` can name a rack. With
    `repeats`, an equal request of the same connection is forwarded too. `last` is the response that was
    rewritten last.
    """

    def __init__(
        self,
        api_key: int,
        version: int,
        treatment: Treatment,
        metrics: RequestMetrics,
        *,
        collects: bool = False,
        answers: Answers | None = None,
        refuses_replicas: bool = False,
        has_racks: bool = False,
    ) -> None:
        self.api_key = api_key
        self.version = version
        self.head = api_key << 16 | version
        self.last: KeptResponse | None = None
        self.treatment = treatment
        self.before_login = api_key in BEFORE_LOGIN
        self.is_fetch = api_key in FETCHES
        self.flexible = version >= FLEXIBLE_FROM.get(api_key, 0)
        self.rewrite: Rewriter | None = rewriter(api_key, version)
        self.plain_ending: bytes | None = plain_ending(api_key, version)
        self.max_response = max_response(api_key)
        self.collects = (
            collects
            or self.rewrite is not None
            or api_key in BEFORE_LOGIN
            or internal_marks(api_key, version) is not None
        )
        self.answers = answers
        self.repeats = answers is not None and api_key in JUDGED_BY_ROLE
        self.refuses_replicas = refuses_replicas
        self.throttle_at: int | None = throttle_offset(api_key, version)
        self.topics_at = FETCH_TOPICS_AT.get(version, 0) if treatment is Treatment.FETCH else 0
        topics_at = TOPICS_AT.get(version) if api_key == ApiKey.FETCH else None
        self.names_at = 0 if topics_at is None else topics_at - (4 if self.flexible else 1)
        self.no_topics = NEVER if topics_at is None else int(self.flexible)
        is_written = treatment in RECORDS.values() and version >= known_versions(api_key)[0]
        self.max_refused = MAX_REFUSED if is_written else 0
        self.usual_above, self.usual_below = _usual_starts(treatment, version, flexible=self.flexible)
        if refuses_replicas:
            self.usual_above, self.usual_below = _CONSUMERS_FLEXIBLE if self.flexible else _CONSUMERS
        self.takes_rack = has_racks and takes_rack(api_key, version)
        if self.takes_rack and api_key in HEARTBEATS:
            self.usual_above, self.usual_below = NEVER_USUAL
        if self.repeats:
            self.usual_above, self.usual_below = ALWAYS_USUAL
        self.use(metrics)

    def use(self, metrics: RequestMetrics) -> None:
        """Record with these metrics from now on."""
        self.metrics = metrics
        self._remote, self._total, self._sizes = metrics.remote, metrics.total, metrics.size
        usage = [tap for tap in metrics.taps if isinstance(tap, UsageTap)]
        self._usage: UsageTap | None = usage[0] if usage else None
        self._others = [tap for tap in metrics.taps if not isinstance(tap, UsageTap)]

    def record(self, request: "ForwardedRequest", now: int, size: int) -> None:
        """Count a request, all of whose time is remote, with the size of its response."""
        ticks = now - request.received >> TICK_BITS
        bucket = BUCKET_OF[ticks] if 0 <= ticks < LINEAR else bucket_of(ticks)
        asked = request.size
        self._remote[bucket] += 1
        self._total[bucket] += 1
        self._sizes[BUCKET_OF[asked] if asked < LINEAR else bucket_of(asked)] += 1
        usage = self._usage
        if usage is not None:
            usage.forwarded(request.channel, asked + 4, bucket, size)
        if self._others:
            request.dequeued = request.local_complete = request.received
            request.completed = now
            request.close_reason = None
            for tap in self._others:
                tap.response_sent(request, now, now, size)


class ForwardedRequest(RequestContext):
    """A request whose response comes from upstream. Times are nanoseconds of the run's clock; `forwarded` is
    when its head was sent. `throttle_ms` is the gateway's own throttle time, which its response reports.
    `has_response` is False for acks=0.
    """

    __slots__ = (
        "channel",
        "close_reason",
        "completed",
        "dequeued",
        "errors",
        "has_response",
        "local_complete",
        "received",
        "route",
        "throttle_ms",
    )

    def __init__(
        self,
        channel: Channel,
        route: ForwardRoute,
        client_id: str | None,
        correlation_id: int,
        size: int,
        received: int,
    ) -> None:
        self.channel = self.connection = channel
        self.route = route
        self.client_id = client_id
        self.correlation_id = correlation_id
        self.size = size
        self.received = received
        self.throttle_ms = 0
        self.has_response = True

    completed: int
    dequeued: int
    local_complete: int
    close_reason: str | None
    errors: tuple[int, ...]


LOST: Final = "the client's connections closed before the upstream broker answered"


class AskedRequest(ForwardedRequest):
    """A request of a handler of the gateway, or of its own login, on a client's upstream connection. Its
    response, without the size, is for the task that waits. `answer` or `lose` is called once.
    """

    __slots__ = ("_answered", "_response")

    def __init__(
        self,
        channel: Channel,
        route: ForwardRoute,
        client_id: str | None,
        correlation_id: int,
        size: int,
        received: int,
    ) -> None:
        super().__init__(channel, route, client_id, correlation_id, size, received)
        self._answered = trio.Event()
        self._response: bytes | bytearray | None = None

    def answer(self, response: bytes | bytearray) -> None:
        self._response = response
        self._answered.set()

    def lose(self) -> None:
        """Let the task that waits know that no response will come."""
        self._answered.set()

    async def wait(self) -> bytes | bytearray:
        """Return the response. Raises UpstreamError if the client's or its upstream connection closes."""
        await self._answered.wait()
        if self._response is None:
            raise UpstreamError(Reason.CLOSED, LOST)
        return self._response


class ForwardRoutes:
    """The routes of one listener, by (API key << 16 | version). `local` are the APIs that the gateway always
    answers, `answers` those that it answers at times. With `forwards_logins`, SASL messages go upstream,
    where the client is known; else the gateway judges what it may ask. With `has_racks`, clients' addresses
    have racks.
    """

    def __init__(
        self,
        local: Registry,
        metrics: MetricsOf,
        *,
        forwards_logins: bool,
        answers: Mapping[int, AnswersVersion] = MappingProxyType({}),
        has_racks: bool = False,
    ) -> None:
        self._local = local
        self._answers = answers
        self._metrics = metrics
        self._forwards_logins = forwards_logins
        self._has_racks = has_racks
        self.versions_of: Forwardable = forwardable if forwards_logins else judged
        self._routes: dict[int, ForwardRoute] = {}
        self._others: deque[int] = deque()
        self._unusual: set[int] = set()
        self.get = self._routes.get

    def build(self, head: int) -> ForwardRoute:
        """Build the route for `head`, and keep it; beyond LAST_KEY and LAST_VERSION it is one of MAX_OTHERS.
        Raises ProtocolViolation for an API or version that is not served.
        """
        key, version = head >> 16, head & 0xFFFF
        answers = self._answers_of(key, version)
        treatment = self._treatment(key, version, answers)
        if treatment is None:
            raise ProtocolViolation(f"API key {key} version {version} is not served")
        route = ForwardRoute(
            key,
            version,
            treatment,
            self._metrics(_name(key), min(version, LAST_VERSION)),
            answers=answers,
            refuses_replicas=key == ApiKey.FETCH and not self._forwards_logins,
            has_racks=self._has_racks,
        )
        if key in self._unusual:
            route.usual_above, route.usual_below = NEVER_USUAL
        if key > LAST_KEY or version > LAST_VERSION:
            if len(self._others) == MAX_OTHERS:
                self._routes.pop(self._others.popleft(), None)
            self._others.append(head)
        self._routes[head] = route
        return route

    def look_at(self, key: int) -> None:
        """Let no request of an API be a usual one from now on."""
        self._unusual.add(key)
        for route in self._routes.values():
            if route.api_key == key:
                route.usual_above, route.usual_below = NEVER_USUAL

    def renew_metrics(self) -> None:
        """Renew the metrics of every route that is kept."""
        for route in self._routes.values():
            route.use(self._metrics(_name(route.api_key), min(route.version, LAST_VERSION)))

    def _answers_of(self, key: int, version: int) -> Answers | None:
        of_version = self._answers.get(key)
        if of_version is None or not is_allowed(key, version, self.versions_of):
            return None
        return of_version(version)

    def _treatment(self, key: int, version: int, answers: Answers | None) -> Treatment | None:
        if key in SASL:
            return Treatment.WHOLE if self._forwards_logins else Treatment.LOCAL
        if key == ApiKey.API_VERSIONS:
            # Handlers check what clients state, and answer versions that only later clients know, as a broker
            # does. (KIP-511)
            return Treatment.WHOLE if version < STATES_NODE else Treatment.LOCAL
        if key in RECORDS:
            # Handlers answer the few that name a topic of the gateways, or that come from a replica; see
            # `client_receive`.
            return RECORDS[key] if is_allowed(key, version, self.versions_of) else None
        if self._local.get(key) is not None:
            return Treatment.LOCAL
        if not is_allowed(key, version, self.versions_of):
            return None
        return Treatment.FORWARD if answers is None else Treatment.LOCAL


NEVER_USUAL: Final = 0, 0
ALWAYS_USUAL: Final = -1, 1 << 32

_CONSUMERS: Final = 0x7FFF_FFFF, 1 << 32
_CONSUMERS_FLEXIBLE: Final = 0x007F_FFFF, 1 << 24
"""The bounds of a Fetch whose replica id, behind no tagged fields in the flexible versions, is negative."""


def _usual_starts(treatment: Treatment, version: int, *, flexible: bool) -> tuple[int, int]:
    """Return the exclusive bounds of the first four bytes behind the client id of a usual request.

    A usual Produce has neither a transactional id nor tagged fields in its header, and acks other than 0: the
    bytes are 0, 0 and acks, or before the flexible versions -1 as two bytes and acks. Before versions with a
    transactional id, they begin with acks.
    """
    if treatment is Treatment.LOCAL:
        return NEVER_USUAL
    if treatment is not Treatment.PRODUCE:
        return ALWAYS_USUAL
    if version < TRANSACTIONAL_FROM:
        return 0xFFFF, 1 << 32
    return (0, 1 << 16) if flexible else (0xFFFF << 16, 1 << 32)


def _name(key: int) -> str:
    """Return the name in the metrics; the APIs of later Kafka versions share one."""
    if key == ApiKey.FETCH:
        return "FetchConsumer"
    return NAMES.get(key, "Unknown")
