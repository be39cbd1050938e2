"""Flow control of connections, for the Doctor page. See `views` for units."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SelectorRow:
    """A processor: its open connections, and how many of them were idle for a minute."""

    name: str
    connections: int
    idle: int


@dataclass(frozen=True, slots=True)
class Flow:
    """`mutes` and `unmutes` per second, by quotas and watermarks. A request that mutes its own connection
    until its response does not count.

    `in_flight` are requests in progress of all connections, `deepest` those of the connection with the most,
    limited to `deepest_limit`. `available_request_size` is the free part of `request_size_limit` bytes; both
    None without a limit of queued requests. `oversized` counts connections closed since the start for too
    large a request. `callbacks` wait for completion, of `callback_capacity`; `blocked_callbacks` counts those
    that found the queue full since the start.
    """

    mutes: float
    unmutes: float
    in_flight: int
    deepest: int
    deepest_limit: int
    available_request_size: int | None
    request_size_limit: int | None
    oversized: int
    callbacks: int
    callback_capacity: int
    blocked_callbacks: int
    selectors: tuple[SelectorRow, ...]
