"""The broker's live numbers and addresses, settings, tokens, tasks and audit trail. See `views` for units."""

from typing import Annotated

import msgspec

from broker.controller.commands import ChangeOrigin
from broker.controller.rows.client_endpoint import ClientEndpoint
from broker.controller.rows.fields import AnyText, Measured, Moment, Node, RuleEntity, Word, one_of
from broker.controller.rows.upstream import GatewaySums, UpstreamSummary


class QueueRow(msgspec.Struct, frozen=True):
    """A bounded queue: `peak` is its maximum depth since the start."""

    name: str
    depth: int
    capacity: int
    peak: int


class PhaseRow(msgspec.Struct, frozen=True):
    """One phase of one API's requests (RequestQueueTimeMs, LocalTimeMs, ... as in Kafka): requests completed
    since the start, and quantiles of the last five minutes, NaN without requests.
    """

    api: str
    phase: str
    count: int
    p50_ms: Measured
    p99_ms: Measured


class BrokerMetrics(msgspec.Struct, frozen=True):
    """The broker's live numbers. Idle fractions: over 0.6 healthy, under 0.2 urgent. Network threads and
    handlers are tasks of one thread: `thread_idle` is what is left for both.

    The `_total` counters start at 0 with the process and never decrease, so that a page can compute rates.
    `memory_pool_size` is None if queued.max.request.bytes is off; `controller_memory_pool_size` also if the
    controller has no listener. The first of `queues` is the request queue. `offline_partitions` are unusable
    until the next start; `missing_offsets` counts offsets whose records are lost.
    """

    uptime_ms: int
    bytes_in_total: int
    bytes_out_total: int
    requests_total: int
    bytes_in_per_s: Measured
    bytes_out_per_s: Measured
    requests_per_s: Measured
    connections: int
    throttled: int
    groups: int
    processor_idle: Measured
    handler_idle: Measured
    acceptor_blocked: Measured
    memory_pool_used: int
    memory_pool_size: int | None
    controller_memory_pool_used: int = 0
    controller_memory_pool_size: int | None = None
    offline_partitions: int = 0
    missing_offsets: int = 0
    thread_idle: Measured = 1.0
    queues: tuple[QueueRow, ...] = ()
    phases: tuple[PhaseRow, ...] = ()


class DiskRow(msgspec.Struct, frozen=True):
    """The volume of a log directory. `used` is a share from 0 to 1, as df computes it."""

    directory: AnyText
    total_bytes: int
    free_bytes: int
    used: float


class ServerInfo(msgspec.Struct, frozen=True):
    """`endpoints` has a listener of the data plane each, `console` is a URL, empty without a console."""

    node_id: int
    software_version: str
    endpoints: tuple[ClientEndpoint, ...]
    console: str

    @property
    def bootstrap(self) -> tuple[str, ...]:
        """The addresses for clients as host:port."""
        return tuple(each.address for each in self.endpoints)

    @property
    def endpoint(self) -> ClientEndpoint:
        """The listener that printed commands use: the first where an address is enough, or else the first."""
        plain = (each for each in self.endpoints if each.is_plain)
        return next(plain, next(iter(self.endpoints), ClientEndpoint("localhost:9092")))


class Overview(msgspec.Struct, frozen=True):
    """`quota_rules` counts entities of users and client ids with a limit, `ip_quota_rules`
    those of addresses. `user_topics` are those of `topics` in which the broker does not store its own data.
    `upstream` is a gateway's; its topics are not counted.
    `gateways` are the sums of all gateways that share limits, this one included; None if it shares none.
    `metrics` are its own.
    """

    cluster_id: str
    node_id: Node
    software_version: str
    bootstrap: tuple[str, ...]
    console: str
    topics: int
    user_topics: int
    partitions: int
    quota_rules: int
    ip_quota_rules: int
    metrics: Annotated[BrokerMetrics, msgspec.Meta(title="BrokerMetrics")]
    upstream: UpstreamSummary | None = None
    gateways: GatewaySums | None = None


class ConfigSynonym(msgspec.Struct, frozen=True):
    """One source of a value; the first in the list is in force."""

    name: str
    value: str | None
    source: int


class ConfigRange(msgspec.Struct, frozen=True):
    """The properties of a setting that DescribeConfigs does not return.

    `default` is None if there is none or if it is secret, `default_words` describe the former; `allowed`
    describes the valid values, `choices` has them if they are few. `per_broker`: not as a default of all.
    """

    default: str | None = None
    default_words: str = ""
    allowed: str = ""
    choices: tuple[str, ...] = ()
    unit: str = ""
    per_broker: bool = False


class ConfigRow(msgspec.Struct, frozen=True):
    """One setting of one resource, as in DescribeConfigs. `source` and `type` are Kafka's wire numbers."""

    name: str
    value: str | None
    source: int
    type: int
    read_only: bool
    sensitive: bool
    documentation: str
    synonyms: tuple[ConfigSynonym, ...] = ()
    range: ConfigRange = ConfigRange()

    @property
    def is_default(self) -> bool:
        return self.source == 5


class TokenRow(msgspec.Struct, frozen=True):
    """`version` changes with every change of the token; `expires_at_ms` None: never; `password_at_ms` is when
    its password was set, None without one.
    """

    name: str
    role: str
    changed_at_ms: int
    changed_by: str
    version: int
    expires_at_ms: int | None = None
    password_at_ms: int | None = None

    def has_expired(self, now_ms: int) -> bool:
        """`now_ms` is wall-clock."""
        return self.expires_at_ms is not None and now_ms >= self.expires_at_ms


class ScramRow(msgspec.Struct, frozen=True):
    """A user's credential for one mechanism; `version` changes with every change of it. An upstream cluster
    tells neither when it was changed (None) nor by whom ("").
    """

    user: str
    mechanism: str
    iterations: int
    version: int
    changed_at_ms: Moment | None
    changed_by: str


class Owned(msgspec.Struct, frozen=True):
    """A resource that a task owns: its current amount, its limit and its peak. None: no limit, or not
    recorded.
    """

    name: str
    now: int
    capacity: int | None = None
    peak: int | None = None


class TaskRow(msgspec.Struct, frozen=True):
    """A task under the name of Kafka's thread, or a nursery (`kind` "nursery").

    Parents precede children; `depth` is the nesting level, and deeper tasks end earlier. `idle` is the idle
    fraction of the last second, where defined. `count` tasks of the same name are one row.
    """

    name: str
    kind: str
    parent: str | None
    depth: int
    owns: tuple[Owned, ...]
    idle: Annotated[Measured, msgspec.Meta(ge=0, le=1)] | None
    count: int
    since_at_ms: Moment = msgspec.field(name="since")


class AuditEntry(msgspec.Struct, frozen=True):
    """An `AuditRow` as users see it: secrets read "(secret)". `quota` is the entity of a client quota, and
    `entity` its text; changes made together share `batch`. `final` says why the old value cannot be restored;
    None: the role of the change can restore it.
    """

    seq: int = msgspec.field(name="id")
    batch: int
    time_ms: Moment = msgspec.field(name="at")
    actor: str
    role: Word
    address: str
    origin: Annotated[str, one_of(*ChangeOrigin)]
    kind: Word
    entity: str
    quota: RuleEntity | None
    key: str
    old: AnyText | None
    new: AnyText | None
    final: Word | None
