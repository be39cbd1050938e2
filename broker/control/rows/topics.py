"""Topics and groups. See `views` for units."""

import msgspec


class TopicRow(msgspec.Struct, frozen=True):
    """`size_bytes` and `records` are totals of all partitions; `configs` the topic's own settings, not the
    defaults. `version` is the ETag, as a quota's.
    """

    name: str
    topic_id: bytes
    partitions: int
    internal: bool
    size_bytes: int
    records: int
    configs: tuple[tuple[str, str], ...]
    version: int = 0


class TopicSize(msgspec.Struct, frozen=True):
    name: str
    size_bytes: int
    records: int


class GroupRow(msgspec.Struct, frozen=True):
    """`protocol` is the type of the members' protocol, `group_type` is "classic" or "consumer" (KIP-848)."""

    group_id: str
    state: str
    protocol: str
    members: int
    lag: int | None
    group_type: str = "classic"


class PartitionRow(msgspec.Struct, frozen=True):
    """`start` is the first available offset, `end` the offset after the last one that consumers can read;
    `size_bytes` and `segments` 0: never written. `offline` says why it is unusable until the next start;
    empty if it is usable. `missing`: offsets whose records are lost.
    """

    index: int
    start: int
    end: int
    size_bytes: int
    segments: int
    offline: str = ""
    missing: int = 0


class MemberRow(msgspec.Struct, frozen=True):
    """One member of a group. `assigned` are the (topic, partition) pairs of its assignment, if the group is
    one of consumers.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    address: str
    assigned: tuple[tuple[str, int], ...]


class CommittedRow(msgspec.Struct, frozen=True):
    """A group's position in one partition; `end` and `lag` None: the partition does not exist, or the disk
    cannot be read.
    """

    topic: str
    partition: int
    committed: int
    end: int | None
    lag: int | None


class GroupDetail(msgspec.Struct, frozen=True):
    group: GroupRow
    assignor: str
    members: tuple[MemberRow, ...]
    offsets: tuple[CommittedRow, ...]
