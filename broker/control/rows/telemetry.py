"""Client telemetry as the console and the REST API show it. See `views` for units."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SubscriptionRow:
    """One subscription to client metrics. `matching` counts the client instances that it is for now;
    `version` is the ETag, as a quota's.
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
    """One client instance. `subscriptions` are those that match it, `metrics` the prefixes that they come to.
    `pushes`, `throttles` and `errors` count since it was first heard of; `last_error` is Kafka's name of what
    its last request was answered with, "" where that was fine. `series` are its figures that are remembered.
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
    """One figure of a client, under its own name. `shape` is counter or gauge; `history` has (when, value),
    the last one last. A counter is what was told since the broker first heard of the client.
    """

    name: str
    attributes: tuple[tuple[str, str], ...]
    shape: str
    value: float
    history: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class MatchReach:
    """Whom a subscription would be for: `clients` of the `of` instances that are known, and the client ids of
    the first few.
    """

    clients: int
    of: int
    examples: tuple[str, ...]
