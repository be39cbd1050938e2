"""What is simulated: groups of clients alike, what each wants and when, and the broker that they meet.

Made by `reading` and `recorded`, played by `play`. Times are microseconds from the beginning of the
simulation, which is midnight; sizes are bytes.
"""

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from broker.config.sections import QuotaConfig
from broker.quotas.entity import Entity
from broker.quotas.kinds import QuotaKind

SECOND_US: Final = 1_000_000
ANONYMOUS: Final = "ANONYMOUS"
BATCH_BYTES: Final = 1_048_576
"""What clients put into one request at most: max.request.size, and max.partition.fetch.bytes."""

NUMBER: Final = "{n}"
"""In the user or the client-id of a group: the number of the client, from 1 on."""


@dataclass(frozen=True, slots=True)
class Piece:
    """From `start_us` until before `end_us` a client wants `factor` of its rate, which is more than 0."""

    start_us: int
    end_us: int
    factor: float


@dataclass(frozen=True, slots=True)
class Group:
    """`count` clients alike, each with so many `connections` that have one request in flight.

    `request_bytes` are of a Produce request or of a Fetch response. `rate` is bytes/s of each client, None
    for one that sends again as soon as it may. A client that does not obey throttle_time_ms has its next
    request waiting at the broker when its wait is over; one that obeys begins to send then. Requests that had
    to wait go together, up to `batch_bytes`; one that could not be sent for `patience_us` is given up.
    `handling_ns` is what a request takes of the broker's thread, for request_percentage.
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
        """User and client-id of the client of that number."""
        return self.user.replace(NUMBER, str(number)), self.client_id.replace(NUMBER, str(number))

    @property
    def present_us(self) -> int:
        """From when to when there is something of them, rests between included."""
        return self.pieces[-1].end_us - self.pieces[0].start_us if self.pieces else 0


@dataclass(frozen=True, slots=True)
class Record:
    """One client of a recorded load: in each of these seconds so many requests with so many bytes in all."""

    user: str
    client_id: str
    kind: QuotaKind
    seconds: "array[int]" = field(default_factory=lambda: array("L"))
    requests: "array[int]" = field(default_factory=lambda: array("L"))
    nbytes: "array[int]" = field(default_factory=lambda: array("Q"))


@dataclass(frozen=True, slots=True)
class Limit:
    """What a quota file says of one entity. In shadow, nobody is held by it."""

    entity: Entity
    values: Mapping[str, float]
    is_shadow: bool = False


@dataclass(frozen=True, slots=True)
class Scenario:
    """`settings` are the broker's quota.* keys; `latency_us` is the time from a request to its answer."""

    duration_us: int
    limits: tuple[Limit, ...]
    settings: QuotaConfig
    groups: tuple[Group, ...] = ()
    records: tuple[Record, ...] = ()
    latency_us: int = 2_000
    seed: int = 1
