"""Connections as the console and the REST API show them, and those that are held. See `views` for units."""

from dataclasses import dataclass

from broker.control.commands import EntityPairs
from broker.quotas.kinds import QuotaKind


@dataclass(frozen=True, slots=True)
class ThrottledRow:
    """One connection that is muted at this moment, and why.

    `entity` is the rule that matched; where a quota callback decides it is empty, and `tags` are what it
    answered. `remaining_ms` counts down from `throttle_ms`; `since_ms` is how long it has been muted. `times`
    counts this connection's throttles so far. `obeys`: whether it waits as throttle_time_ms tells it to
    (None: not known yet); see `quotas.throttle_compliance`.
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
    tags: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ConnectionRow:
    """One open connection. `mute_state` is Kafka's ChannelMuteState in lower case, `not_muted` while it is
    read, and `muted_for_memory` while it stands in line for queued.max.request.bytes. `tls` is the version
    and the cipher suite, "" without TLS. `obeys` is None for a connection of a client that was never held.
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
    obeys: bool | None = None


@dataclass(frozen=True, slots=True)
class AddressUse:
    """What one address does now. `rate` is of accepted connections; `accepted`, `held` (for their address's
    rate) and `refused` are totals since it was first seen; `max_connections` None: as many as it likes.
    """

    address: str
    rate: float
    connections: int
    max_connections: int | None
    accepted: int
    held: int
    refused: int


@dataclass(frozen=True, slots=True)
class AddressRow:
    """One address that has a rule or was seen in the last hour. `address` None is the rule for all others.

    `limit` is its own `connection_creation_rate`, `bound` the one that holds, which may be the default's;
    `version` 0, and nobody who changed it: it has none of its own. `use` is what it does on the broker's
    listeners, `controller_use` what it does on the controller's: limits hold for either by itself. None: not
    seen there.
    """

    address: str | None
    limit: float | None
    bound: float | None
    version: int
    changed_at_ms: int
    changed_by: str
    use: AddressUse | None
    controller_use: AddressUse | None = None

    @property
    def uses(self) -> tuple[AddressUse, ...]:
        """On each socket server where it was seen."""
        return tuple(use for use in (self.use, self.controller_use) if use is not None)


@dataclass(frozen=True, slots=True)
class ConnectionLimitRow:
    """The connections of one listener of a socket server, or of all of them together (`listener` empty): how
    many, how fast, and the most that there may be of either, None without a limit. `rejected` counts by the
    key of the rule. `server` is `broker` or `controller`, each of which has counts of its own.
    """

    listener: str
    connections: int
    max_connections: int | None
    rate: float
    max_rate: int | None
    rejected: tuple[tuple[str, int], ...]
    server: str = "broker"
