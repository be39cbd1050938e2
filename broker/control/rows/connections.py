"""Connections as the console and the REST API show them, and those that are held. See `views` for units."""

from dataclasses import dataclass

from broker.control.commands import EntityPairs
from broker.quotas.kinds import QuotaKind


@dataclass(frozen=True, slots=True)
class ThrottledRow:
    """One connection that is muted at this moment, and why.

    `entity` is the rule that matched; where a quota callback decides it is empty, and `tags` are what it
    answered. `remaining_ms` counts down from `throttle_ms`; `since_ms` is how long it has been muted. `times`
    counts this connection's throttles so far. `obeys` says whether the client waited after its last throttle
    (None: not known yet).
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
