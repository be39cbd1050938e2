"""The group coordinator's arguments and results, in plain values.

The handlers of `api` convert them from and to messages; where protocol versions differ, a field of a request
states the client's capability. A call returns `Effects`: records, and replies by the token of their request.
The replies may be sent once the records are written, in order.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from broker.common.errors import ErrorCode
from broker.coordinator.group.streams.assignor import TaskOffsets, TaskSets
from broker.coordinator.group.streams.configured import EndpointPartitions
from broker.coordinator.group.streams.status import Status
from broker.coordinator.group.streams.topology import TopicInfo, Topology
from broker.protocol.schema import ZERO_UUID

NO_EPOCH = -1


class CommittedOffset(NamedTuple):
    """A committed offset.

    `leader_epoch` is -1 if the client sent none; `expire_ms` is set only by commits with their own retention.
    `topic_id` has 16 bytes, which are 0 if it is not known: records before version 4 do not have it.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int | None = None
    topic_id: bytes = ZERO_UUID

    def may_be_of(self, topic_id: bytes) -> bool:
        """Return whether the offset is one of this topic, and not of a deleted one with the same name."""
        return topic_id == self.topic_id or ZERO_UUID in (topic_id, self.topic_id)

    def is_expired(self, wall_ms: int, retention_ms: int, kept_since_ms: int) -> bool:
        """Return whether the offset has expired.

        Its own expiry applies, or `retention_ms` counted from `kept_since_ms`.
        """
        if self.expire_ms is not None:
            return wall_ms >= self.expire_ms
        return wall_ms - kept_since_ms >= retention_ms


Offsets = dict[str, dict[int, CommittedOffset]]
"""Committed offsets of one group by topic and partition."""


Buffer = bytes | bytearray | memoryview


class Now(NamedTuple):
    """One moment on both clocks: `ms` is monotonic and drives timeouts, `wall_ms` is recorded."""

    ms: int
    wall_ms: int


class JoinRequest(msgspec.Struct, frozen=True):
    """JoinGroup.

    `protocols` are (name, metadata) in the member's order of preference.

    `requires_member_id` (JoinGroup 4 and later, KIP-394): a new dynamic member first receives its id and must
    rejoin with it. `can_skip_assignment` (9 and later, KIP-814): the leader supports keeping the existing
    assignment.
    """

    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Sequence[tuple[str, Buffer]]
    requires_member_id: bool
    can_skip_assignment: bool


class SyncRequest(msgspec.Struct, frozen=True):
    """SyncGroup.

    `assignments` come from the leader, by member id; protocol type and name are None before version 5.
    """

    group_id: str
    generation_id: int
    member_id: str
    instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: Mapping[str, Buffer]


class LeavingMember(msgspec.Struct, frozen=True):
    """One member of a LeaveGroup.

    An operator removes a static member by an `instance_id` and an empty `member_id`.
    """

    member_id: str
    instance_id: str | None = None


class OffsetToCommit(NamedTuple):
    """An offset in an OffsetCommit. `leader_epoch` is -1 if the client does not send it."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str | None = None
    topic_id: bytes = ZERO_UUID


class CommitRequest(msgspec.Struct, frozen=True):
    """OffsetCommit, and TxnOffsetCommit.

    A generation of -1 comes from a client with manual assignment, or from an operator.

    `retention_ms` of -1 selects the broker's retention. `knows_missing_groups` (9 and later, 6 and later
    in a transaction): a generation of a missing group gets GROUP_ID_NOT_FOUND, in earlier versions
    ILLEGAL_GENERATION. `knows_member_epochs` (the same versions): a member of the consumer protocol may
    commit, in a transaction in earlier versions too, where another epoch is an ILLEGAL_GENERATION.
    """

    group_id: str
    generation_id: int
    member_id: str
    instance_id: str | None
    offsets: Sequence[OffsetToCommit]
    retention_ms: int = -1
    knows_missing_groups: bool = True
    knows_member_epochs: bool = True


class ConsumerHeartbeatRequest(msgspec.Struct, frozen=True):
    """ConsumerGroupHeartbeat.

    None means that the member does not state the field, or that it has not changed; a rebalance timeout of -1
    means the same. `owned` are the partitions that the member uses. `requires_member_id` (1 and later): the
    client makes the member id. `resolved` are the topics of the regular expressions that
    `ConsumerCoordinator.outdated_expressions` has asked for.
    """

    group_id: str
    member_id: str
    epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topics: tuple[str, ...] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: Mapping[bytes, frozenset[int]] | None = None
    client_id: str = ""
    client_host: str = ""
    requires_member_id: bool = True
    resolved: Mapping[str, frozenset[str]] = {}


class ShareHeartbeatRequest(msgspec.Struct, frozen=True):
    """ShareGroupHeartbeat. None means that the field has not changed."""

    group_id: str
    member_id: str
    epoch: int
    rack_id: str | None = None
    topics: tuple[str, ...] | None = None
    client_id: str = ""
    client_host: str = ""


class Endpoint(NamedTuple):
    """Where an instance of a Streams application answers queries of its state."""

    host: str
    port: int


class StreamsHeartbeatRequest(msgspec.Struct, frozen=True):
    """StreamsGroupHeartbeat.

    None means that the field has not changed, and so does a rebalance timeout of -1. `owned` are the tasks
    that the member runs. `endpoint_epoch` is that of the endpoints that it knows. `knows_missing_tags` (1 and
    later): the client understands the status MISSING_CLIENT_TAGS.
    """

    group_id: str
    member_id: str
    epoch: int
    endpoint_epoch: int = -1
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topology: Topology | None = None
    owned: TaskSets | None = None
    process_id: str | None = None
    endpoint: Endpoint | None = None
    client_tags: Mapping[str, str] | None = None
    task_offsets: TaskOffsets | None = None
    task_end_offsets: TaskOffsets | None = None
    shuts_down: bool = False
    client_id: str = ""
    client_host: str = ""
    knows_missing_tags: bool = True


Token = Hashable
"""Identifies a request; anything but None. The reply carries the same token."""

Record = tuple[bytes, bytes | None]
"""Key and value of one record of __consumer_offsets; a value of None is a tombstone."""


class JoinedMember(NamedTuple):
    """A member as the leader sees it: `metadata` is its subscription in the selected protocol."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinReply(NamedTuple):
    """`members` is set for the leader only. `skip_assignment`: the leader keeps the existing assignment."""

    error: ErrorCode
    member_id: str
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


class SyncReply(NamedTuple):
    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class LeaveReply(msgspec.Struct, frozen=True):
    """`errors` are in the order of the leaving members; `error` is the top-level error."""

    error: ErrorCode
    errors: tuple[ErrorCode, ...] = ()


class CommitReply(msgspec.Struct, frozen=True):
    """One error per offset, in the order of the request."""

    errors: tuple[ErrorCode, ...]


class OffsetDeleteReply(msgspec.Struct, frozen=True):
    """`errors` are in the order of the requested partitions; empty if the top-level `error` is set."""

    error: ErrorCode
    errors: tuple[ErrorCode, ...] = ()


class DeleteReply(msgspec.Struct, frozen=True):
    """One error per group, in the order of the request."""

    errors: tuple[ErrorCode, ...]


class ModernHeartbeatReply(NamedTuple):
    """To a member of a consumer or share group. `assignment` is None if the member need not be told;
    `message` explains an error.
    """

    error: ErrorCode
    member_id: str | None = None
    epoch: int = 0
    interval_ms: int = 0
    assignment: Mapping[bytes, frozenset[int]] | None = None
    message: str | None = None


def refused_heartbeat(error: ErrorCode, message: str | None) -> ModernHeartbeatReply:
    return ModernHeartbeatReply(error, message=message)


class StreamsHeartbeatReply(NamedTuple):
    """To a member of a streams group. `tasks` and `endpoints` are None if the member need not be told:
    its own tasks, and where those of all members with an endpoint are. `creates` are the internal topics that
    the application lacks; `message` explains an error.
    """

    error: ErrorCode
    message: str | None = None
    member_id: str = ""
    epoch: int = 0
    interval_ms: int = 0
    task_offset_interval_ms: int = 0
    recovery_lag: int = -1
    statuses: tuple[Status, ...] = ()
    tasks: TaskSets | None = None
    endpoint_epoch: int = 0
    endpoints: Sequence[tuple[Endpoint, EndpointPartitions]] | None = None
    creates: Mapping[str, TopicInfo] = {}


class ShareStatesReply(NamedTuple):
    """The reply to a change of the share partitions of a group that have a state.

    `deleting` are the topics whose states the caller deletes now: their names by id.
    """

    error: ErrorCode
    message: str | None = None
    deleting: Mapping[bytes, str] = {}


Reply = (
    ModernHeartbeatReply
    | StreamsHeartbeatReply
    | ShareStatesReply
    | JoinReply
    | SyncReply
    | LeaveReply
    | CommitReply
    | OffsetDeleteReply
    | DeleteReply
)


class Effects(msgspec.Struct, frozen=True):
    """The effects of one call, which may include replies to other members' pending requests.

    `overwritten` holds the previous offsets (group, topic, partition, offset), so that
    `Groups.roll_back` can restore them if the records cannot be written. `replaced` holds the
    groups as they were before the call changed or converted them, None for a new one. `rebalances` are the
    types of the groups for which heartbeats began epochs, or which, if classic, have got their assignments.
    """

    replies: list[tuple[Token, Reply]] = msgspec.field(default_factory=list)
    records: list[Record] = msgspec.field(default_factory=list)
    overwritten: list[tuple[str, str, int, CommittedOffset | None]] = msgspec.field(default_factory=list)
    replaced: list[tuple[str, object]] = msgspec.field(default_factory=list)
    rebalances: list[str] = msgspec.field(default_factory=list)


class DescribedMember(NamedTuple):
    """`metadata` is empty unless the group is stable."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class DescribedGroup(msgspec.Struct, frozen=True):
    """`protocol` is the selected protocol while the group is stable, else empty."""

    error: ErrorCode
    group_id: str
    state: str
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()
    message: str | None = None


CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
SHARE: Final = "share"
STREAMS: Final = "streams"
"""The types of groups."""


class GroupOverview(msgspec.Struct, frozen=True):
    """The row of a group of any type. `clients` are (client id, host) of the members."""

    group_id: str
    group_type: str
    state: str
    is_empty: bool
    clients: tuple[tuple[str, str], ...]


class ListedGroup(msgspec.Struct, frozen=True):
    group_id: str
    protocol_type: str
    state: str
    group_type: str
    members: int
