"""Quota entities, the broker's and the cluster's limits, with their use; the search for a client's rule. See
`views` for units.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated

import msgspec

from broker.common.temporary_limits import TemporaryLimit
from broker.controller.commands import EntityPairs
from broker.controller.rows.fields import HIDDEN, Measured, Moment, Node, Rate, RuleEntity
from broker.quotas.kinds import QuotaKind


class NodeUse(msgspec.Struct, frozen=True):
    """The current use of one limit at one upstream node by all clients that share it; -1 is a connection's
    node before it is known. `wait_ms` is the throttle time of the next request at this use.
    """

    upstream_node: Node
    observed: Measured
    wait_ms: int


class GatewayUse(msgspec.Struct, frozen=True):
    """The current use of one limit at one of the gateways that share limits: `gateway` "" is this one.
    `throttled` connections of its clients are throttled there. `share` is the gateway's present part of the
    limit, None if it enforces the whole limit or if the limit is hypothetical.
    """

    gateway: str
    observed: Measured
    throttled: int = 0
    share: float | None = None


class ShadowUse(msgspec.Struct, frozen=True):
    """The throttles that one limit in shadow mode would have caused since its mark or the start. `times`
    counts requests, `throttle_ms` is the total throttle time, with overlaps counted once, and `last_at_ms`
    the time of the last throttle (None: never).
    """

    entity: Annotated[EntityPairs, HIDDEN]
    key: Annotated[str, HIDDEN]
    times: int
    throttle_ms: int
    last_at_ms: Moment | None


class OverriddenBy(msgspec.Struct, frozen=True):
    """The rules because of which a limit applies to no client, those with the most clients first, and the
    number of `more` rules. All `clients` that are connected and match the limit come under these rules; None
    if none is connected: the one rule precedes the limit for every client.
    """

    rules: tuple[RuleEntity, ...]
    more: int = 0
    clients: int | None = None


class QuotaLimit(msgspec.Struct, frozen=True):
    """One limit of one entity with its use: `observed` in the key's unit, None without recent clients, and
    `throttled` connections that it mutes. `upstream_node` is the node that `observed` is about, None unless
    limits hold at each node (quota.scope=broker). `shadow` is what the limit would have done, None if it is
    enforced. `overridden_by` is None if the limit applies to clients, or could.

    If gateways share limits, the use is the sum of all gateways. Of a limit that each gateway enforces alone
    (request_percentage, connection_creation_rate), `observed` is the highest, and `gateway` the other gateway
    that has it; otherwise "".
    """

    key: str
    value: float
    observed: float | None
    throttled: int
    changed_at_ms: int
    changed_by: str
    shadow: ShadowUse | None = None
    upstream_node: int | None = None
    gateway: str = ""
    overridden_by: OverriddenBy | None = None

    @property
    def used(self) -> float | None:
        """The use divided by the limit: 1.0 is at the limit."""
        return None if self.observed is None else self.observed / self.value


class TemporaryQuota(msgspec.Struct, frozen=True):
    """A temporary limit over the `permanent` one of its key, if any. It begins or ends next at
    `changes_at_ms`, in `seconds_left`, rounded up; None on a machine that does not know its zone.
    """

    key: str
    limit: TemporaryLimit
    permanent: float | None
    is_active: bool
    changes_at_ms: int | None
    seconds_left: int | None
    changed_at_ms: int
    changed_by: str


class QuotaRow(msgspec.Struct, frozen=True):
    """All limits of one entity that are in force, and its temporary limits, in force or not yet. `version` is
    the ETag: it grows with every change and is never reused. `shadow`: the limits are measured, not enforced.
    """

    entity: EntityPairs
    limits: tuple[QuotaLimit, ...]
    version: int
    changed_at_ms: int
    changed_by: str
    shadow: bool = False
    temporary: tuple[TemporaryQuota, ...] = ()

    def value(self, key: str) -> float | None:
        return next((limit.value for limit in self.limits if limit.key == key), None)

    @property
    def permanent(self) -> dict[str, float]:
        """Return the permanent limits by key."""
        values: dict[str, float | None] = {limit.key: limit.value for limit in self.limits}
        values.update({each.key: each.permanent for each in self.temporary})
        return {key: value for key, value in values.items() if value is not None}


class ProbeRow(msgspec.Struct, frozen=True):
    """One step of the search for a client's rule: the `entity` looked up and the `value` found. `shadow`: the
    limit found is measured, not enforced.
    """

    entity: RuleEntity
    value: float | None
    matched: bool
    shadow: bool = False


class MeasuredBy(StrEnum):
    """The source of `observed`: the quota's sensor, or the byte counters of all connections that share the
    limit.
    """

    QUOTA = "quota"
    CONNECTIONS = "connections"


class Decided(msgspec.Struct, frozen=True):
    """A quota callback's decision for one client and key: the tags that the clients of the limit share (None
    if it failed), and the limit (None: unlimited). `observed` is their total use, None without recent
    clients.
    """

    tags: tuple[tuple[str, str], ...] | None
    bound: float | None
    observed: float | None


class FirstWait(msgspec.Struct, frozen=True):
    """The first throttle after a change, in ms: 0 if clients only wait for what they send from now on.
    `gentler` is about the lowest limit with a short first throttle, `gentler_ms`; None if this one is short.
    """

    wait_ms: int
    gentler: float | None = None
    gentler_ms: int = 0


class ResolvedLimit(msgspec.Struct, frozen=True):
    """The rule that applies to a client for one key, and the probes in order.

    `observed` is the current use of all clients that share the limit. `wait_ms` is the throttle time of the
    next request at this use; 0: none, None: unknown; in shadow mode it is only counted. If a callback decides
    (`decided`), no probe matched, and `bound` is the callback's. If limits hold at each upstream node,
    `nodes` has the use there, and `observed` is the highest.

    If gateways share limits, `gateways` has the use at each of them. `observed` is the sum, or the highest of
    a limit that each gateway enforces alone. `unlisted` gateways may use it without reporting it.

    `first_wait` is the first throttle of the client at this broker under a hypothetical rule that is
    enforced; None if nothing changes for it.
    """

    key: str
    probes: tuple[ProbeRow, ...]
    matched: EntityPairs | None
    bound: float | None
    observed: float | None
    measured_by: MeasuredBy | None = None
    shadow: bool = False
    wait_ms: int | None = None
    decided: Decided | None = None
    nodes: tuple[NodeUse, ...] = ()
    gateways: tuple[GatewayUse, ...] = ()
    unlisted: tuple[str, ...] = ()
    first_wait: FirstWait | None = None


class ClientUsage(msgspec.Struct, frozen=True):
    """The use of one client, limited or not, since `since_at_ms`: open `connections`, rates over the last ten
    to fifteen seconds, totals.

    `request_percentage` is None while no rule limits request time. `limited_by` contains the keys with a
    rule. `history` returns a row for every five seconds of the last five minutes, the oldest first: bytes in,
    bytes out, requests. Call it for displayed rows only: a thousand clients would have 60,000 tuples. If
    limits hold at each upstream node, `nodes` has the use of each limit there, by key.

    `gateways` are the other gateways whose use is included: all is added up, but `request_percentage` is the
    highest of a gateway. A gateway reports the history of few clients, so that of the others is missing.
    """

    user: str
    client_id: str
    connections: int
    bytes_in_per_s: Rate
    bytes_out_per_s: Rate
    requests_per_s: Rate
    request_percentage: Rate | None
    bytes_in: int
    bytes_out: int
    requests: int
    since_at_ms: Moment = msgspec.field(name="since")
    last_active_at_ms: Moment
    limited_by: tuple[str, ...]
    history: Annotated[Callable[[], Sequence[tuple[int, int, int]]], HIDDEN] = tuple
    nodes: Annotated[Mapping[str, tuple[NodeUse, ...]], HIDDEN] = msgspec.field(default_factory=dict)
    gateways: tuple[str, ...] = ()


class MatchType(StrEnum):
    """The match types of DescribeClientQuotas: this name, the default entity, or any name."""

    EXACT = "exact"
    DEFAULT = "default"
    ANY = "any"


class QuotaFilter(msgspec.Struct, frozen=True):
    """One component of a filter; `name` only with EXACT."""

    entity_type: str
    match: MatchType
    name: str | None = None


class BrokerLimit(msgspec.Struct, frozen=True):
    """One `broker.quota` rate: `value` and `observed` in `unit`; a `value` of None means unlimited.
    `throttled` counts connections throttled now; `throttles` all throttles since it was enabled,
    `throttle_ms` their total.
    """

    kind: QuotaKind
    key: str
    unit: str
    value: float | None
    observed: Measured
    throttled: int
    throttles: int
    throttle_ms: int


class WhiteList(msgspec.Struct, frozen=True):
    """Clients that one key exempts from the `broker.quota` limits."""

    key: str
    names: tuple[str, ...]


class ClusterLimit(msgspec.Struct, frozen=True):
    """The current and the maximum number (None: unlimited)."""

    key: str
    value: int | None
    count: int


class RetryStormUse(msgspec.Struct, frozen=True):
    """`delayed` responses since the start, for `delayed_ms` in total; `waiting` of them now."""

    delayed: int
    delayed_ms: int
    waiting: int


class RetryStormRow(msgspec.Struct, frozen=True):
    """Its setting, and the fields of `RetryStormUse`."""

    is_enabled: bool = msgspec.field(name="enabled")
    max_delay_ms: int
    delayed: int
    delayed_ms: int
    waiting: int


class BrokerQuotas(msgspec.Struct, frozen=True):
    """`version` is that of the broker's dynamic settings, which include the limits."""

    is_enabled: bool = msgspec.field(name="enabled")
    limits: tuple[BrokerLimit, ...]
    white_lists: tuple[WhiteList, ...]
    cluster: tuple[ClusterLimit, ...]
    retry_storm: RetryStormRow
    version: int
