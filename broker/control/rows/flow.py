"""How connections are held up and let go again, for the doctor. See `views` for units."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SelectorRow:
    """One network thread: its open connections, and how many of them did nothing for a minute."""

    name: str
    connections: int
    idle: int


@dataclass(frozen=True, slots=True)
class Flow:
    """`mutes` and `unmutes` are what flow control did to connections in a second: a quota held one or let it
    go, or its requests in hand reached a watermark. A request that mutes its own connection until it is
    answered is not among them.

    `in_flight` are requests in hand of all connections, `deepest` those of the connection that has most,
    which may have `deepest_limit`. `available_request_size` is what is left of `request_size_limit` bytes;
    both None where queued requests have no such limit. `oversized` counts connections that were closed since
    the start because a request was larger than is allowed. `callbacks` wait to be concluded, of
    `callback_capacity`; `blocked_callbacks` counts those that found no place since the start.
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
