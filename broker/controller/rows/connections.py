"""Connections, including throttled ones, addresses, and flow control. See `views` for units."""

from typing import Annotated

import msgspec

from broker.controller.rows.fields import HIDDEN, Measured, Moment, Node, Rate, ShownEntity, Tags, pairs
from broker.controller.rows.quotas import TemporaryQuota
from broker.quotas.kinds import QuotaKind


class ThrottledRow(msgspec.Struct, frozen=True):
    """A connection that is muted now, and the reason; or an address whose new connections wait because it
    exceeds its connection rate, without client id and principal.

    `entity` is the rule that matched; with a quota callback it is empty, and `tags` are the callback's
    result. `remaining_ms` counts down from `throttle_ms`; `since_ms` is how long it has been muted. `times`
    counts this connection's throttles so far. `obeys`: whether the client waits for throttle_time_ms (None:
    unknown); see `quotas.throttle_compliance`. `upstream_node` is the node at which the limit was exceeded,
    None unless limits hold at each node (quota.scope=broker). `gateway` is the id of the other gateway that
    throttles it, as of its last report; "" if it is this server.
    """

    connection_id: str
    client_id: str
    principal: str
    address: str
    quota_type: QuotaKind
    entity: ShownEntity
    observed: Measured
    bound: float
    throttle_ms: int
    remaining_ms: int
    since_ms: int = msgspec.field(name="since")
    times: int
    obeys: bool | None = None
    tags: Tags = ()
    upstream_node: Node | None = None
    gateway: str = ""


class ConnectionRow(msgspec.Struct, frozen=True, kw_only=True):
    """An open connection. `mute_state` is Kafka's ChannelMuteState in lower case: `not_muted` while it is
    read, `muted_for_memory` while it waits for queued.max.request.bytes. `tls` is the version and the cipher
    suite, "" without TLS. `obeys` is None if the client was never throttled. At a gateway, `upstream` is the
    host:port that it is forwarded to, "" while there is none, and `upstream_node` the node there.
    `gateway` is the id of the other gateway that has it; "" if it is this server. `proxy` is the address of
    the balancer that it came through, by its PROXY header; the same as `address` if it is the balancer's own,
    "" without one.
    """

    connection_id: str
    listener: str
    protocol: str
    principal: str
    client_id: str
    software_name: str
    software_version: str
    address: str
    requests: int
    bytes_in: int
    bytes_out: int
    mute_state: str
    tls: str = ""
    obeys: bool | None = None
    upstream: str = ""
    upstream_node: Node | None = None
    gateway: str = ""
    proxy: str = ""
    opened_at_ms: Moment


class AddressUse(msgspec.Struct, frozen=True):
    """The current use of one address. `rate` is of accepted connections; `accepted`, `throttled` (for
    their address's rate) and `refused` are totals since its first connection; `max_connections` None:
    unlimited. `gateway` is the id of the other gateway where this is the use; "" if it is this server.
    """

    address: str
    rate: Annotated[Measured, msgspec.Meta(ge=0)]
    connections: int
    max_connections: int | None
    accepted: int
    throttled: int
    refused: int
    gateway: str = ""


_Use = Annotated[AddressUse, msgspec.Meta(title="AddressUse")]


class SoftwareRow(msgspec.Struct, frozen=True):
    """The open connections of one version of a client's software; "unknown" before a client says it."""

    software_name: str
    software_version: str
    connections: int


class AddressRow(msgspec.Struct, frozen=True):
    """An address that has a rule or connected in the last hour. `address` None is the default rule.

    `limit` is its own `connection_creation_rate`, `bound` the effective one, possibly the default's. Without
    its own limit, `version` is 0. `use` is on the broker's listeners, `controller_use` on the controller's;
    limits apply to each separately. None: no connections there. `elsewhere` is the use at each other gateway
    that reports it; limits apply there separately, too. `temporary` is its own temporary limit, in force or
    not yet: `limit` is the one in force.
    """

    address: str | None
    limit: Annotated[float, msgspec.Meta(gt=0)] | None = msgspec.field(name="connection_creation_rate")
    bound: float | None
    version: int
    changed_at_ms: Moment
    changed_by: str
    use: _Use | None
    controller_use: _Use | None = None
    elsewhere: tuple[_Use, ...] = ()
    temporary: Annotated[TemporaryQuota | None, HIDDEN] = None

    @property
    def uses(self) -> tuple[AddressUse, ...]:
        """Return its use on each socket server of this broker where it connected."""
        return tuple(use for use in (self.use, self.controller_use) if use is not None)

    @property
    def all_uses(self) -> tuple[AddressUse, ...]:
        """Return its use here and at the other gateways."""
        return self.uses + self.elsewhere

    @property
    def rate(self) -> float | None:
        """Return its connections per second: the most on one server here, whose limits are separate, and
        those at other gateways, which share the limit.
        """
        here = max((use.rate for use in self.uses), default=0.0)
        return here + sum(use.rate for use in self.elsewhere) if self.all_uses else None


class ConnectionLimitRow(msgspec.Struct, frozen=True):
    """The connections of one listener of a socket server, or of all (`listener` empty): number, rate, and
    their limits, None for unlimited. `rejected` counts by the key of the rule. `server` is `broker` or
    `controller`, which count separately.
    """

    listener: str
    connections: int
    max_connections: int | None
    rate: Rate
    max_rate: int | None
    rejected: Annotated[tuple[tuple[str, int], ...], pairs("rule", "count")]
    server: str = "broker"


class SelectorRow(msgspec.Struct, frozen=True):
    """A processor: its open connections, and how many of them were idle for a minute."""

    name: str
    connections: int
    idle: int


class Flow(msgspec.Struct, frozen=True):
    """`mutes` and `unmutes` per second, by quotas and watermarks. A request that mutes its own connection
    until its response does not count.

    `in_flight` are requests in progress of all connections, `deepest` those of the connection with the most,
    limited to `deepest_limit`. `available_request_size` is the free part of `request_size_limit` bytes; both
    None without a limit of queued requests. `oversized` counts connections closed since the start for too
    large a request. `callbacks` wait for completion, of `callback_capacity`; `blocked_callbacks` counts those
    that found the queue full since the start.
    """

    mutes: float
    unmutes: float
    in_flight: int
    deepest: int
    deepest_limit: int
    available_request_size: int | None
    request_size_limit: int | None
    oversized: int
    callbacks: int
    callback_capacity: int
    blocked_callbacks: int
    selectors: tuple[SelectorRow, ...]
