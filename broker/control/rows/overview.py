"""The broker's live numbers and where it can be reached. See `views` for units."""

from dataclasses import dataclass


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
    `memory_pool_size` is None where queued.max.request.bytes is off, `controller_memory_pool_size` there too
    and where the controller has no listener. The first of `queues` is that of the requests.
    `offline_partitions` cannot be used until the next start; the records of `missing_offsets` were there and
    are not.
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
    controller_memory_pool_used: int = 0
    controller_memory_pool_size: int | None = None
    offline_partitions: int = 0
    missing_offsets: int = 0


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
