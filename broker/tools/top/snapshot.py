"""The console's latest events as typed rows.

Made by broker.tools.top.command, drawn by the tables. Refuses data that is not a console's. Names are as
clients chose them, cut to `MAX_NAME`; broker.tools.escaping makes them safe for a terminal.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from broker.tools.escaping import entity_text

MAX_NAME: Final = 256

QUOTA_KEYS: Final = {
    "produce": "producer_byte_rate",
    "fetch": "consumer_byte_rate",
    "request": "request_percentage",
    "controller_mutation": "controller_mutation_rate",
    "connection_rate": "connection_creation_rate",
}
"""The quota key of each kind of quota."""

Entity = dict[str, str | None]


class InvalidSnapshotError(ValueError):
    """The response does not have the form of a console's response."""


class _Row(msgspec.Struct):
    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, str):
                setattr(self, name, value[:MAX_NAME])


class Sample(_Row):
    """Rates of the last second."""

    bytes_in: float | None
    bytes_out: float | None
    requests: float | None


class Averages(_Row):
    """Rates per second; idle times and `acceptor_blocked` are fractions, None if the broker has none."""

    bytes_in_per_s: float | None
    bytes_out_per_s: float | None
    requests_per_s: float | None
    connections: int
    processor_idle: float | None
    handler_idle: float | None
    acceptor_blocked: float | None
    thread_idle: float | None = None


class Gateways(_Row):
    """The sums of all gateways that share limits."""

    gateways: int
    connections: int


class Overview(_Row):
    """At a gateway that shares limits, `sample` has the rates of all gateways."""

    software_version: str
    bootstrap: list[str]
    at: str
    metrics: Averages
    sample: Sample | None
    gateways: Gateways | None = None

    @property
    def rates(self) -> Sample:
        """Return the rates of the last second, or Kafka's average of a newly started broker."""
        average = self.metrics
        return self.sample or Sample(average.bytes_in_per_s, average.bytes_out_per_s, average.requests_per_s)


class Tag(_Row):
    name: str
    value: str


class ThrottledChannel(_Row):
    """A throttled connection. `obeys` is None if unknown, `upstream_node` unless limits hold at each node.
    `gateway` is the id of another gateway, or "".
    """

    client_id: str
    principal: str
    address: str
    quota_type: str
    entity: Entity
    tags: list[Tag]
    observed: float | None
    bound: float
    throttle_ms: int
    remaining_ms: int
    times: int
    obeys: bool | None
    upstream_node: int | None = None
    gateway: str = ""

    @property
    def rule(self) -> str:
        """Return the entity of the rule, or the tags of a quota callback, and the node where it holds."""
        rule = _entity_text(self.entity) or ", ".join(f"{tag.name}={tag.value}" for tag in self.tags)
        return rule if self.upstream_node is None else f"{rule} at node {self.upstream_node}"

    @property
    def key(self) -> str:
        return QUOTA_KEYS.get(self.quota_type, self.quota_type)

    @property
    def excess(self) -> float:
        """Return the observed rate as a multiple of the limit."""
        return (self.observed or 0.0) / self.bound if self.bound else 0.0


class Limit(_Row):
    """`used` is a fraction of the limit, `throttled` the number of connections that it throttles."""

    value: float
    observed: float | None
    used: float | None
    throttled: int


class Quota(_Row):
    entity: Entity
    limits: dict[str, Limit]
    shadow: bool


class LimitRow(msgspec.Struct, frozen=True):
    """One limit of one entity."""

    entity: str
    key: str
    limit: Limit
    used: float
    shadow: bool


class ClientRow(_Row):
    """All connections of one user and client id; `request_percentage` is Kafka's."""

    client_id: str
    user: str
    bytes_in_per_s: float
    bytes_out_per_s: float
    requests_per_s: float
    request_percentage: float | None
    connections: int
    limited_by: list[str]

    @property
    def request_share(self) -> float:
        """Return `request_percentage`, or 0 if the broker does not measure it."""
        return self.request_percentage or 0.0


class _ThrottledPage(_Row):
    items: list[ThrottledChannel]
    total: int


class _QuotaPage(_Row):
    items: list[Quota]


class _ClientPage(_Row):
    items: list[ClientRow]


class Snapshot(_Row):
    """The latest event of each topic; `throttled.total` may exceed the number of its rows."""

    overview: Overview
    throttled: _ThrottledPage
    quotas: _QuotaPage
    usage: _ClientPage

    def rules(self) -> Iterator[LimitRow]:
        """Yield the limits whose usage is known."""
        for quota in self.quotas.items:
            for key, limit in quota.limits.items():
                if limit.used is not None:
                    yield LimitRow(_entity_text(quota.entity), key, limit, limit.used, quota.shadow)


def snapshot_of(topics: Mapping[str, Any]) -> Snapshot:
    """Return the snapshot of the latest events. Raises InvalidSnapshotError."""
    try:
        return msgspec.convert(topics, Snapshot)
    except msgspec.ValidationError as error:
        raise InvalidSnapshotError(str(error)) from error


def _entity_text(entity: Entity) -> str:
    return entity_text({kind: None if name is None else name[:MAX_NAME] for kind, name in entity.items()})
