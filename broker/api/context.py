"""What a handler may know of the request besides its message.

Made by `network.handling.request`, which extends it with what the network layer keeps for itself.
"""

from typing import Protocol

from broker.purgatory.operation import DelayedOperation
from broker.security.scram import ScramLogin
from broker.security.session import Session


class Connection(Protocol):
    """The facts of a client connection. Handlers of SASL and ApiVersions write to it, all others read."""

    id: str
    address: str
    port: int
    listener: str
    principal: str
    authenticated: bool
    sasl_mechanism: str | None
    counted_as: str | None
    """The user among whose connections it is counted, from the login until it is closed."""
    scram: ScramLogin | None
    """The login that is under way, between its two messages."""
    session: Session | None
    """How long its login lasts; None where it does not end."""
    software_name: str
    software_version: str
    shape: int
    """Where the part of a request that is known by heart ends, for requests that repeat themselves; 0 if
    none did.
    """
    waiting: DelayedOperation | None
    """What its request was parked as, the last time that one was; it waits no longer than its connection."""
    withheld_since_ms: int
    """Since when the request quota has held back all records that its fetches found; 0 if it has not."""

    @property
    def closed(self) -> bool: ...


class RequestContext:
    """One request: `size` is the frame's bytes without the size prefix, `now_ms` monotonic and `wall_ms`
    epoch time of the drain that works on it. A Produce that waited for the disk is given the time of its
    answer; every other request that waited keeps the time of its arrival, and its answer asks the clock.

    A handler sets `exempt` where the request quota does not apply: the time is recorded in the exempt sensor.
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
        """The figures are to have this request under `name` and not under its API's."""
