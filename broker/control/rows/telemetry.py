"""Client telemetry. See `views` for units."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SubscriptionRow:
    """A client metrics subscription. `matching` counts the client instances that match now; `version` is the
    ETag, as a quota's.
    """

    name: str
    metrics: tuple[str, ...]
    interval_ms: int
    match: tuple[str, ...]
    matching: int
    version: int
    changed_at_ms: int
    changed_by: str


@dataclass(frozen=True, slots=True)
class ClientInstanceRow:
    """A client instance. `subscriptions` are those that match it, `metrics` their prefixes. `pushes`,
    `throttles` and `errors` are totals; `last_error` is Kafka's name of the last request's error, "" without
    one. `series` counts its stored metrics.
    """

    instance_id: str
    client_id: str
    principal: str
    address: str
    software_name: str
    software_version: str
    connection_id: str
    subscriptions: tuple[str, ...]
    metrics: tuple[str, ...]
    interval_ms: int
    pushes: int
    pushed_bytes: int
    throttles: int
    errors: int
    last_error: str
    last_push_at_ms: int | None
    terminating: bool
    series: int


@dataclass(frozen=True, slots=True)
class ClientMetricRow:
    """One metric of a client, under its own name. `shape` is counter or gauge; `history` contains (time,
    value), the newest last. A counter starts when the broker first sees the client.
    """

    name: str
    attributes: tuple[tuple[str, str], ...]
    shape: str
    value: float
    history: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class MatchReach:
    """The clients that a subscription would match: `clients` of the `of` known instances, and the client ids
    of the first few.
    """

    clients: int
    of: int
    examples: tuple[str, ...]
