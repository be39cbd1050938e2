"""Topics, groups and transactions. See `views` for units."""

from collections.abc import Mapping
from typing import Annotated, NamedTuple

import msgspec

from broker.controller.rows.fields import HIDDEN, LEFT_OUT, Configs, Hex, Moment, Node
from broker.controller.rows.streams_groups import StreamsGroupRow, StreamsMemberRow

Limit = Annotated[int, msgspec.Meta(ge=-1, le=2**63 - 1)]
"""A setting of which -1 is none."""


class TopicCounts(NamedTuple):
    """What the partitions of a topic have taken and given: since some time that stays the same, so that a
    difference is that of the time in between. None: not known.
    """

    records_in: int
    bytes_in: int | None = None
    bytes_out: int | None = None


class TopicRow(msgspec.Struct, frozen=True):
    """`size_bytes` and `records` are totals of all partitions, None if unknown; `configs` the topic's own
    settings, not the defaults. `version` is the ETag, as a quota's.

    `cleanup` is cleanup.policy in force, `retention_ms` and `retention_bytes` the limits of each partition,
    -1: none. `last_write_at` is None if nothing was written since the start. All of these are None if
    unknown. Rates are those of the last seconds, and `groups` the number of groups that have read the topic,
    None until they are known: webui.live.topic_rates fills them in.
    """

    name: str
    topic_id: Hex
    partitions: int
    internal: bool
    size_bytes: int | None
    records: int | None
    configs: Configs
    version: int = 0
    cleanup: str | None = None
    retention_ms: Limit | None = None
    retention_bytes: Limit | None = None
    last_write_ms: Moment | None = msgspec.field(name="last_write_at", default=None)
    records_in_per_s: float | None = None
    bytes_in_per_s: float | None = None
    bytes_out_per_s: float | None = None
    groups: int | None = None
    counts: Annotated[TopicCounts | None, HIDDEN] = None


class GroupRow(msgspec.Struct, frozen=True):
    """`protocol` is the type of the members' protocol, `group_type` is "classic", "consumer"
    (KIP-848), "share" (KIP-932) or "streams" (KIP-1071). `lag` is None where no offset is committed. Without
    `lag_is_known`, the lag of some partitions could not be read, and `lag` is that of the others. `lost`
    records of the lag were deleted before the group read them, None if unknown. `lag_per_s` is how fast the
    lag has grown in the last `lag_trend_s` seconds, negative while the group catches up; both are None until
    it is known: webui.live.lag_history fills them in. `by_topic` is the lag by topic, None where the views do
    not keep it.
    """

    group_id: str
    state: str
    protocol: str
    members: int
    lag: int | None
    group_type: str = "classic"
    lag_is_known: bool = True
    lost: int | None = None
    lag_per_s: float | None = None
    lag_trend_s: int | None = None
    by_topic: Annotated[Mapping[str, int | None] | None, HIDDEN] = None


class CompactionRow(msgspec.Struct, frozen=True):
    """The log cleaner's work on a partition of a compacted topic.

    `dirty_bytes` of closed segments were written since offset `cleaned_to`; `dirty_percent` is their share
    of the closed segments. The other numbers are those of the last pass since the start, None without one:
    when it ended, by the wall clock in ms, and the bytes that it read and kept. `failure` says why the
    partition cannot be compacted until the next start; empty if it can.
    """

    dirty_bytes: int
    dirty_percent: int
    cleaned_to: int
    bytes_before: Annotated[int | None, LEFT_OUT] = None
    bytes_after: Annotated[int | None, LEFT_OUT] = None
    failure: str = ""
    last_run_ms: Annotated[Moment | None, LEFT_OUT] = msgspec.field(name="last_run_at", default=None)


class PartitionRow(msgspec.Struct, frozen=True):
    """`start` is the first available offset, `end` the offset after the last one that consumers can read;
    `size_bytes` and `segments` 0: never written. `offline` says why it is unusable until the next start;
    empty if it is usable. `missing`: offsets whose records are lost. `compaction`: None
    for a topic that is not compacted.

    `leader`, `replicas` and `isr` are node ids, of an upstream cluster only; there, `size_bytes` is that of
    the leader's replica, None if unknown, and `segments` is 0.
    """

    index: int
    start: int
    end: int
    size_bytes: int | None
    segments: int
    offline: str = ""
    missing: int = 0
    compaction: Annotated[CompactionRow | None, LEFT_OUT, msgspec.Meta(title="Compaction")] = None
    leader: Annotated[Node | None, LEFT_OUT] = None
    replicas: Annotated[tuple[int, ...] | None, LEFT_OUT] = None
    isr: Annotated[tuple[int, ...] | None, LEFT_OUT] = None


class MemberRow(msgspec.Struct, frozen=True):
    """One member of a group. `assigned` are the (topic, partition) pairs of its assignment, if the group is
    one of consumers, or those that the active tasks of a member of a streams group read. `streams`: None for
    other groups.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    address: str
    assigned: Annotated[
        tuple[tuple[str, int], ...],
        msgspec.Meta(max_length=1_000_000, extra={"pairs": ("topic", "partition")}),
    ]
    streams: Annotated[StreamsMemberRow | None, LEFT_OUT, msgspec.Meta(title="StreamsMember")] = None


class CommittedRow(msgspec.Struct, frozen=True):
    """A group's position in one partition: the committed offset, or the start offset of a share group.

    `end` and `lag` None: the partition does not exist, or the disk cannot be read. `lost` records of the lag
    were deleted before the group read them; None if the first offset is unknown.
    """

    topic: str
    partition: int
    committed: int
    end: int | None
    lag: int | None
    lost: int | None = None


class TopicGroupRow(msgspec.Struct, frozen=True):
    """A group that has read a topic. `lag` is that of the topic's partitions, None if unknown."""

    group_id: str
    state: str
    group_type: str
    members: int
    lag: int | None


class TopicClientRow(msgspec.Struct, frozen=True):
    """Connected clients of one principal, client id and software that use a topic: of their `connections`,
    `writing` have written to it and `reading` have read from it since they were opened.
    """

    client_id: str
    principal: str
    software_name: str
    software_version: str
    connections: int
    writing: int
    reading: int


class DeadLettersRow(msgspec.Struct, frozen=True):
    """What a share group has written to its dead letter queue since the start. `topic` is empty if it has no
    queue any more.
    """

    topic: str
    records: int


class GroupDetail(msgspec.Struct, frozen=True):
    """`streams`: None for groups of other types. `dead_letters`: None for a group without a dead letter
    queue, now and since the start.
    """

    group: GroupRow
    assignor: str
    members: tuple[MemberRow, ...]
    offsets: tuple[CommittedRow, ...]
    streams: StreamsGroupRow | None = None
    dead_letters: DeadLettersRow | None = None


class TransactionRow(msgspec.Struct, frozen=True):
    """A transactional id with its last transaction. Times are wall-clock; `open_since_ms` is None unless a
    transaction is open, or its markers are being written.

    `partitions` is the number of its partitions, `holding_back` of those whose last stable offset it holds
    back. Principal, client id and address are those of the last InitProducerId since the start; "" if there
    was none. An upstream cluster tells neither these nor `updated_ms` (None).
    """

    transactional_id: str
    state: str
    producer_id: Annotated[int, msgspec.Meta(le=2**63 - 1)]
    producer_epoch: Annotated[int, msgspec.Meta(ge=-1, le=32_767)]
    timeout_ms: int
    partitions: int
    holding_back: int
    principal: str
    client_id: str
    address: str
    open_since_ms: Moment | None
    updated_ms: Moment | None = msgspec.field(name="updated_at")


class TransactionPartition(msgspec.Struct, frozen=True):
    """`first_offset` is that of the transaction's first record, None without one. `holds_back`: readers of
    committed records stop at it.
    """

    topic: str
    partition: int
    first_offset: int | None
    last_stable_offset: int
    end: int
    holds_back: bool


class TransactionDetail(msgspec.Struct, frozen=True):
    """`partitions` are in order of topic and partition."""

    transaction: TransactionRow
    partitions: tuple[TransactionPartition, ...]
