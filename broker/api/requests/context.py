"""The request data that handlers receive besides the message.

`network.requests.request_channel` implements it and adds the network layer's own fields.
"""

from typing import Protocol

from broker.purgatory.purgatory import DelayedOperation
from broker.security.sasl import SaslLogin, SaslSession


class Connection(Protocol):
    """A client connection. Only the SASL and ApiVersions handlers write to it."""

    id: str
    address: str
    port: int
    listener: str
    principal: str
    authenticated: bool
    by_token: bool
    """Whether the client has logged in with a delegation token."""
    sasl_mechanism: str | None
    counted_as: str | None
    """The user whose connection count includes this connection, from the login until the close."""
    sasl_login: SaslLogin | None
    """The login in progress, from the handshake to its end; a failed one stays."""
    sends_raw_tokens: bool
    """Whether the next frame is a SASL token without a request around it (SaslHandshake 0)."""
    session: SaslSession | None
    """The session of a login that expires; None if it does not expire."""
    software_name: str
    software_version: str
    prologue: int
    """Position at which the prologue of the last usual request ends; 0 if there was none."""
    waiting: DelayedOperation | None
    """The most recent delayed operation of this connection; it does not outlive the connection."""
    topics_written: frozenset[str | bytes]
    topics_read: frozenset[str | bytes]
    """See `topics_used`."""
    withheld_since_ms: int
    """Time since which the request quota has withheld all fetched records; 0 if it has not."""

    @property
    def closed(self) -> bool: ...


class RequestContext:
    """One request.

    `size` is the frame's bytes without the size prefix. `now_ms` (monotonic) and `wall_ms` (epoch) are the
    time of the drain that handles the request. A Produce that waited for the disk gets the time of its
    response; every other delayed request keeps its arrival time, and its completion reads the clock.

    A handler sets `exempt` if the request quota does not apply: the exempt sensor then records the time.
    (Kafka: RequestHandlerHelper.sendResponseExemptThrottle)
    """

    __slots__ = (
        "api_key",
        "api_version",
        "client_id",
        "connection",
        "correlation_id",
        "exempt",
        "now_ms",
        "size",
        "wall_ms",
    )

    api_key: int
    api_version: int
    client_id: str | None
    connection: Connection
    correlation_id: int
    exempt: bool
    now_ms: int
    size: int
    wall_ms: int

    def count_as(self, name: str) -> None:
        """Count this request under `name` in the metrics instead of under its API."""
