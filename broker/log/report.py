"""What the start found out about the logs; the composition root writes it into the broker's own log."""

from dataclasses import dataclass, field
from typing import NamedTuple

from broker.log.permissions import Exposure
from broker.log.recovery import DamagedStretch


class CutTail(NamedTuple):
    """A partition whose last bytes were no whole batch; it ends at `end_offset` now."""

    topic: str
    partition: int
    end_offset: int
    bytes_cut: int


class Unreadable(NamedTuple):
    """A partition that is offline until the next start."""

    topic: str
    partition: int
    error: OSError


class Missing(NamedTuple):
    """Records of a partition that were flushed, from `start` to before `end`, and are not there."""

    topic: str
    partition: int
    start: int
    end: int


class Lost(NamedTuple):
    """A log directory that is offline until the next start."""

    directory: str
    error: OSError


class Twice(NamedTuple):
    """A partition that lay in two log directories: a move was cut off. The one in `kept` is used."""

    topic: str
    partition: int
    kept: str
    put_aside: str


@dataclass(slots=True)
class Recovery:
    """`unclean`: log directories that were not closed. `damage`: bytes that stay where they are and are not
    served.
    """

    partitions: int = 0
    scanned_bytes: int = 0
    unclean: list[str] = field(default_factory=list)
    cut: list[CutTail] = field(default_factory=list)
    damage: list[DamagedStretch] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    lost: list[Lost] = field(default_factory=list)
    twice: list[Twice] = field(default_factory=list)
    exposed: list[Exposure] = field(default_factory=list)
