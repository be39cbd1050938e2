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


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """`start` is the first offset that is still there, `end` one past the last that readers may see;
    `size_bytes` and `segments` 0: nothing was ever written. `offline`: why it cannot be used until the next
    start; empty where it can. `missing`: offsets whose records were there and are not.
    """

    index: int
    start: int
    end: int
    size_bytes: int
    segments: int
    offline: str = ""
    missing: int = 0


@dataclass(frozen=True, slots=True)
class MemberRow:
    """One member of a group. `assigned` are (topic, partition) that it reads, as far as it says so in the way
    of consumers.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    address: str
    assigned: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class CommittedRow:
    """How far a group has read one partition; `end` and `lag` None: the partition is gone, or the disk does
    not tell.
    """

    topic: str
    partition: int
    committed: int
    end: int | None
    lag: int | None


@dataclass(frozen=True, slots=True)
class GroupDetail:
    group: GroupRow
    assignor: str
    members: tuple[MemberRow, ...]
    offsets: tuple[CommittedRow, ...]
