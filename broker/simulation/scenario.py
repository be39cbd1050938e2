"""The input of a simulation: groups of identical clients, their demand, and the broker's settings.

Made by `scenario_file`, run by `engine`. Times are microseconds from the start of the
simulation, which is midnight; sizes are bytes.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping
from math import cos, pi
from typing import Final

import msgspec

from broker.config.sections import QuotaConfig
from broker.quotas.entity import Entity
from broker.quotas.kinds import QuotaKind

SECOND_US: Final = 1_000_000
DAY_US: Final = 86_400 * SECOND_US
STEP_US: Final = 900 * SECOND_US
"""A day's curve has steps of 15 minutes, each with the curve's value in its middle."""

BATCH_BYTES: Final = 1_048_576
"""The most that clients put into one request: max.request.size, and max.partition.fetch.bytes."""

NUMBER: Final = "{n}"
"""Placeholder in a group's user or client-id: the number of the client, from 1."""

VERSIONS: Final = (1, 2, 3)
"""The versions of the records in a recorded load. They differ in what does not count: the name of a source,
and the histograms.
"""

CLIENT: Final = "client"
"""The source of the records that count."""

APIS: Final = {"Produce": (QuotaKind.PRODUCE, "bytes_in"), "FetchConsumer": (QuotaKind.FETCH, "bytes_out")}
"""The APIs that count, and the field with their bytes."""


class Piece(msgspec.Struct, frozen=True):
    """From `start_us` to before `end_us` a client wants `factor` of its rate; `factor` is more than 0."""

    start_us: int
    end_us: int
    factor: float


class Constant(msgspec.Struct, frozen=True):
    def pieces(self, end_us: int) -> Iterator[Piece]:
        yield Piece(0, end_us, 1.0)


class Diurnal(msgspec.Struct, frozen=True):
    """A cosine between `low` of the rate, twelve hours from `peak_us`, and all of it."""

    low: float
    peak_us: int

    def pieces(self, end_us: int) -> Iterator[Piece]:
        for start in range(0, end_us, STEP_US):
            angle = 2 * pi * (start + STEP_US / 2 - self.peak_us) / DAY_US
            factor = self.low + (1 - self.low) * (1 + cos(angle)) / 2
            if factor > 0:
                yield Piece(start, min(start + STEP_US, end_us), factor)


class Bursts(msgspec.Struct, frozen=True):
    """The full rate for `length_us` at the start of every `every_us`, `low` of it in between."""

    every_us: int
    length_us: int
    low: float

    def pieces(self, end_us: int) -> Iterator[Piece]:
        for start in range(0, end_us, self.every_us):
            yield Piece(start, min(start + self.length_us, end_us), 1.0)
            if self.low > 0 and start + self.length_us < end_us:
                yield Piece(start + self.length_us, min(start + self.every_us, end_us), self.low)


Schedule = Constant | Diurnal | Bursts


def between(pieces: Iterable[Piece], start_us: int, stop_us: int) -> tuple[Piece, ...]:
    """Return the parts of the pieces from `start_us` to `stop_us`."""
    cut = (Piece(max(p.start_us, start_us), min(p.end_us, stop_us), p.factor) for p in pieces)
    return tuple(piece for piece in cut if piece.start_us < piece.end_us)


class ClientGroup(msgspec.Struct, frozen=True):
    """`count` identical clients, each with `connections` connections that have one request in flight.

    `request_bytes` is the size of a Produce request or a Fetch response. `rate` is bytes/s of each client,
    None for a client that sends whenever it can. A client that does not obey throttle_time_ms has its next
    request at the broker when the throttle ends; one that obeys begins to send then. Delayed requests are
    sent together, up to `batch_bytes`; a request that is delayed by `patience_us` expires. `handling_ns` is
    the handler's time for a request, for request_percentage.
    """

    name: str
    kind: QuotaKind
    count: int
    user: str
    client_id: str
    request_bytes: int
    rate: float | None
    pieces: tuple[Piece, ...]
    connections: int = 1
    obeys: bool = True
    batch_bytes: int = BATCH_BYTES
    patience_us: int | None = None
    handling_ns: int = 0

    def names(self, number: int) -> tuple[str, str]:
        """Return user and client-id of a client, numbered from 1."""
        return self.user.replace(NUMBER, str(number)), self.client_id.replace(NUMBER, str(number))

    @property
    def present_us(self) -> int:
        """The time from the first demand to the last, pauses included."""
        return self.pieces[-1].end_us - self.pieces[0].start_us if self.pieces else 0


class ClientLoad(msgspec.Struct, frozen=True):
    """One client of a recorded load: per second, the number of requests and their total bytes."""

    user: str
    client_id: str
    kind: QuotaKind
    seconds: "array[int]" = msgspec.field(default_factory=lambda: array("L"))
    requests: "array[int]" = msgspec.field(default_factory=lambda: array("L"))
    nbytes: "array[int]" = msgspec.field(default_factory=lambda: array("Q"))


class Limit(msgspec.Struct, frozen=True):
    """One entity's entry of a quota file. A shadow limit does not throttle."""

    entity: Entity
    values: Mapping[str, float]
    is_shadow: bool = False


class Scenario(msgspec.Struct, frozen=True):
    """A complete scenario.

    `settings` are the broker's quota.* keys; `latency_us` is the time from a request to its response.
    """

    duration_us: int
    limits: tuple[Limit, ...]
    settings: QuotaConfig
    groups: tuple[ClientGroup, ...] = ()
    records: tuple[ClientLoad, ...] = ()
    latency_us: int = 2_000
    seed: int = 1
