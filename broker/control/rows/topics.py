"""Topics and groups, enough to find one's way. See `views` for units."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TopicRow:
    """`size_bytes` and `records` over all partitions, now; `configs` the topic's own settings, not the
    defaults.
    """

    name: str
    topic_id: bytes
    partitions: int
    internal: bool
    size_bytes: int
    records: int
    configs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class TopicSize:
    name: str
    size_bytes: int
    records: int


@dataclass(frozen=True, slots=True)
class GroupRow:
    group_id: str
    state: str
    protocol: str
    members: int
    lag: int | None
