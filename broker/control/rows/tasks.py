"""The running tasks as rows: what a census finds, for the page and the REST API. Knows no tasks.

Times are wall-clock milliseconds since the epoch, shares run from 0.0 to 1.0.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Owned:
    """Something that a task answers for: how much of it there is now, at most, and the most there ever was.
    None: without a limit, or not kept.
    """

    name: str
    now: int
    capacity: int | None = None
    peak: int | None = None


@dataclass(frozen=True, slots=True)
class TaskRow:
    """One task under its name in Kafka's thread census, or one nursery of them (`kind` "nursery").

    Rows come parents first; `depth` is how far in one stands, and what stands further in ends earlier.
    `idle` is the share of the last second in which it had nothing to do, where that is defined.
    `count` tasks of one name are one row.
    """

    name: str
    kind: str
    parent: str | None
    depth: int
    owns: tuple[Owned, ...]
    idle: float | None
    since_at_ms: int
    count: int = 1
