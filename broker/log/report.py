"""Findings of log recovery at startup; the composition root logs them."""

from dataclasses import dataclass, field
from typing import NamedTuple

from broker.log.permissions import Exposure
from broker.log.recovery import DamagedStretch


class CutTail(NamedTuple):
    """A partition that lost an incomplete batch at its end; it now ends at `end_offset`."""

    topic: str
    partition: int
    end_offset: int
    bytes_cut: int


class UnreadablePartition(NamedTuple):
    """A partition that stays offline until the next start."""

    topic: str
    partition: int
    error: OSError


class Missing(NamedTuple):
    """Flushed records of a partition that are missing, from `start` to before `end`."""

    topic: str
    partition: int
    start: int
    end: int


class OfflineDirectory(NamedTuple):
    """A log directory that stays offline until the next start."""

    directory: str
    error: OSError


class DuplicatePartition(NamedTuple):
    """A partition found in two log directories after an interrupted move. The copy in `kept` is used."""

    topic: str
    partition: int
    kept: str
    put_aside: str


@dataclass(slots=True)
class Recovery:
    """The result of opening all log directories.

    `unclean` lists log directories without a clean shutdown. `damage` lists byte ranges that stay on disk and
    are not served.
    """

    partitions: int = 0
    scanned_bytes: int = 0
    unclean: list[str] = field(default_factory=list)
    cut: list[CutTail] = field(default_factory=list)
    damage: list[DamagedStretch] = field(default_factory=list)
    unreadable: list[UnreadablePartition] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    lost: list[OfflineDirectory] = field(default_factory=list)
    twice: list[DuplicatePartition] = field(default_factory=list)
    exposed: list[Exposure] = field(default_factory=list)
