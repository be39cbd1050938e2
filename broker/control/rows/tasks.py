"""Rows of running tasks, for the page and the REST API.

Times are wall-clock milliseconds since the epoch, fractions are between 0.0 and 1.0.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Owned:
    """A resource that a task owns: its current amount, its limit and its peak. None: no limit, or not
    recorded.
    """

    name: str
    now: int
    capacity: int | None = None
    peak: int | None = None


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task under the name of Kafka's thread, or a nursery (`kind` "nursery").

    Parents precede children; `depth` is the nesting level, and deeper tasks end earlier. `idle` is the idle
    fraction of the last second, where defined. `count` tasks of the same name are one row.
    """

    name: str
    kind: str
    parent: str | None
    depth: int
    owns: tuple[Owned, ...]
    idle: float | None
    since_at_ms: int
    count: int = 1
