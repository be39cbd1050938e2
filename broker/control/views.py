"""What the console and the REST API can see: rows, as values.

`Views` (broker.control.reading) answers them from the metadata image and from the live figures that the
composition root hands in as a `LiveFigures`. Nothing here is on a client's path: rows are made when somebody
looks. Knows nothing of HTML, JSON or Prometheus, and of the broker's rooms only what the rows say.

Rates are per second; sizes and byte rates in bytes; `_ms` are milliseconds; `_at_ms` and `time_ms` are
wall-clock milliseconds since the epoch; fractions run from 0.0 to 1.0. A quota entity is written as in
`commands.EntityPairs`.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from broker.control.commands import ConfigResource, EntityPairs
from broker.control.task_rows import TaskRow
from broker.metadata.audit import AuditFilter, AuditRow
from broker.quotas.kinds import QuotaKind

__all__ = [
    "AuditFilter",
    "AuditRow",
    "ConfigRow",
    "ConfigSynonym",
    "ConnectionRow",
    "Figures",
    "GroupRow",
    "LiveFigures",
    "MatchType",
    "Overview",
    "PhaseRow",
    "Place",
    "ProbeRow",
    "QueueRow",
    "QuotaFilter",
    "QuotaKind",
    "QuotaLimit",
    "QuotaRow",
    "QuotaUse",
    "ResolvedLimit",
    "ThrottledRow",
    "TokenRow",
    "TopicRow",
    "TopicSize",
    "Views",
]


@dataclass(frozen=True, slots=True)
class ThrottledRow:
    """One connection that is muted at this moment, and why.

    `entity` is the rule that matched. `remaining_ms` counts down from `throttle_ms`; `since_ms` is how long
    it has been muted. `times` counts this connection's throttles so far. `obeys` says whether the client
    waited after its last throttle (None: not known yet).
    """

    connection_id: str
    client_id: str
    principal: str
    address: str
    quota_type: QuotaKind
    entity: EntityPairs
    observed: float
    bound: float
    throttle_ms: int
    remaining_ms: int
    since_ms: int
    times: int
    obeys: bool | None = None


@dataclass(frozen=True, slots=True)
class ConnectionRow:
    """One open connection. `mute_state` is Kafka's ChannelMuteState in lower case, `not_muted` while it is
    read, and `muted_for_memory` while it stands in line for queued.max.request.bytes. `tls` is the version
    and the cipher suite, "" without TLS.
    """

    connection_id: str
    listener: str
    protocol: str
    principal: str
    client_id: str
    software_name: str
    software_version: str
    address: str
    opened_at_ms: int
    requests: int
    bytes_in: int
    bytes_out: int
    mute_state: str
    tls: str = ""


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """What one rule's clients do now: `observed` in the key's own unit, `throttled` connections muted by
    it.
    """

    entity: EntityPairs
    key: str
    observed: float
    throttled: int = 0


@dataclass(frozen=True, slots=True)
class QuotaLimit:
    """One limit of one entity. `observed` is None while nobody that it governs has been seen."""

    key: str
    value: float
    observed: float | None
    throttled: int
    changed_at_ms: int
    changed_by: str

    @property
    def used(self) -> float | None:
        """Use against the limit: 1.0 is at the limit."""
        return None if self.observed is None else self.observed / self.value


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """All limits of one entity. `version` is the ETag: it grows with every change of the entity, and is never
    used twice.
    """

    entity: EntityPairs
    limits: tuple[QuotaLimit, ...]
    version: int
    changed_at_ms: int
    changed_by: str

    def value(self, key: str) -> float | None:
        return next((limit.value for limit in self.limits if limit.key == key), None)


@dataclass(frozen=True, slots=True)
class ProbeRow:
    """One step of the search for the rule that governs a client: `entity` was looked for, `value` is what was
    found.
    """

    entity: EntityPairs
    value: float | None
    matched: bool


@dataclass(frozen=True, slots=True)
class ResolvedLimit:
    """Which rule governs (user, client id) for one key, and the probes in the order in which they are
    made.
    """

    key: str
    probes: tuple[ProbeRow, ...]
    matched: EntityPairs | None
    bound: float | None
    observed: float | None


@dataclass(frozen=True, slots=True)
class TopicRow:
    """`size_bytes` and `records` over all partitions, now; `configs` the topic's own settings, not the
    defaults.
    """

    name: str
    topic_id: bytes
    partitions: int
    internal: bool
    size_bytes: int
    records: int
    configs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class TopicSize:
    name: str
    size_bytes: int
    records: int


@dataclass(frozen=True, slots=True)
class GroupRow:
    group_id: str
    state: str
    protocol: str
    members: int
    lag: int | None


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One bounded queue: `peak` is the deepest it has been since the start."""

    name: str
    depth: int
    capacity: int
    peak: int


@dataclass(frozen=True, slots=True)
class PhaseRow:
    """One phase of one API's requests (RequestQueueTimeMs, LocalTimeMs, ... as in Kafka): how many were
    answered since the start, and the quantiles of the last five minutes, NaN where there were none.
    """

    api: str
    phase: str
    count: int
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class Figures:
    """The broker's live numbers, made by the composition root. Idle fractions: over 0.6 healthy, under 0.2
    urgent.

    The `_total` counters start at 0 with the process and only grow, so that a page can draw its own rates.
    `memory_pool_size` is None where queued.max.request.bytes is off.
    """

    uptime_ms: int
    bytes_in_total: int
    bytes_out_total: int
    requests_total: int
    bytes_in_per_s: float
    bytes_out_per_s: float
    requests_per_s: float
    connections: int
    throttled: int
    groups: int
    processor_idle: float
    handler_idle: float
    acceptor_blocked: float
    memory_pool_used: int
    memory_pool_size: int | None
    queues: tuple[QueueRow, ...] = ()
    phases: tuple[PhaseRow, ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """Where the broker can be reached: `bootstrap` as host:port for clients, `console` as a URL, empty if it
    is off.
    """

    software_version: str
    bootstrap: tuple[str, ...]
    console: str


@dataclass(frozen=True, slots=True)
class Overview:
    """`quota_rules` counts entities with a limit."""

    cluster_id: str
    node_id: int
    software_version: str
    bootstrap: tuple[str, ...]
    console: str
    topics: int
    partitions: int
    quota_rules: int
    figures: Figures


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """One place where a value is set; the first in the list is the one that counts."""

    name: str
    value: str | None
    source: int


@dataclass(frozen=True, slots=True)
class ConfigRow:
    """One setting of one resource, as DescribeConfigs answers it. `source` and `type` are Kafka's wire
    numbers.
    """

    name: str
    value: str | None
    source: int
    type: int
    read_only: bool
    sensitive: bool
    documentation: str
    synonyms: tuple[ConfigSynonym, ...] = ()

    @property
    def is_default(self) -> bool:
        return self.source == 5


@dataclass(frozen=True, slots=True)
class TokenRow:
    name: str
    role: str
    changed_at_ms: int
    changed_by: str


class MatchType(StrEnum):
    """DescribeClientQuotas' filter: this name, the default entity, or any name at all."""

    EXACT = "exact"
    DEFAULT = "default"
    ANY = "any"


@dataclass(frozen=True, slots=True)
class QuotaFilter:
    """One component of a filter; `name` only with EXACT."""

    entity_type: str
    match: MatchType
    name: str | None = None


class LiveFigures(Protocol):
    """What the composition root hands in. Every call is cheap and synchronous, and answers the moment's
    state.
    """

    def figures(self) -> Figures: ...

    def throttled(self) -> Sequence[ThrottledRow]: ...

    def connections(self) -> Sequence[ConnectionRow]: ...

    def quota_use(self) -> Sequence[QuotaUse]: ...

    def topic_sizes(self) -> Sequence[TopicSize]: ...

    def groups(self) -> Sequence[GroupRow]: ...

    def tasks(self) -> list[TaskRow]: ...


class Views(Protocol):
    """The surface that webui builds on; reading needs the role viewer, which the door has checked by letting
    one in.
    """

    @property
    def version(self) -> int:
        """Of the metadata image: changes whenever anything that an operator can edit has changed."""

    def overview(self) -> Overview: ...

    def throttled(self) -> list[ThrottledRow]:
        """Longest remaining first."""

    def quotas(self, components: Sequence[QuotaFilter] = (), *, strict: bool = False) -> list[QuotaRow]:
        """Kafka's filter semantics (KIP-546): all components must match; strict: and no other entity type may
        be there.

        Raises ApiError INVALID_REQUEST or UNSUPPORTED_VERSION as DescribeClientQuotas does.
        """

    def quota(self, entity: EntityPairs) -> QuotaRow | None: ...

    def resolve(self, user: str | None, client_id: str | None) -> list[ResolvedLimit]:
        """The probes and the match for each key; None as user is an anonymous connection."""

    def resolve_all(
        self, clients: Sequence[tuple[str | None, str | None]], keys: Collection[str]
    ) -> list[list[ResolvedLimit]]:
        """`resolve` of many (user, client id), for these keys only. The use is gathered once for all of them,
        which makes thousands bearable: some 30 us for each client and key.
        """

    def connections(self) -> list[ConnectionRow]: ...

    def topics(self) -> list[TopicRow]: ...

    def groups(self) -> list[GroupRow]: ...

    def tasks(self) -> list[TaskRow]: ...

    def describe_configs(self, resource: ConfigResource) -> list[ConfigRow]:
        """Every setting of a topic or of the broker, sorted by name, with where its value comes from.

        Raises ApiError as DescribeConfigs does. The broker of the empty name shows what is set for all
        brokers.
        """

    def tokens(self) -> list[TokenRow]: ...

    async def audit(self, query: AuditFilter) -> list[AuditRow]:
        """Newest first. The values of secrets read "(secret)"."""
