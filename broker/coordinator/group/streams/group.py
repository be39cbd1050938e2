"""A streams group: its topology, its members, their target and current assignments, and its epochs. (Kafka:
StreamsGroup)

Used by the transitions of this package.
"""

from collections.abc import Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple, Self

from broker.common.errors import ErrorCode
from broker.common.slices import Steps, run_through
from broker.coordinator.group.consumer.assignment import Topics, metadata_hash
from broker.coordinator.group.messages import STREAMS, CommitRequest, Endpoint, Record
from broker.coordinator.group.modern_group import ModernGroup, partition_counts
from broker.coordinator.group.records import GroupKeys, KeyType, ModernKey, encode_key
from broker.coordinator.group.streams import records
from broker.coordinator.group.streams.assignor import NOTHING, TaskSets
from broker.coordinator.group.streams.configured import (
    ConfiguredTopology,
    EndpointPartitions,
    endpoint_partitions,
)
from broker.coordinator.group.streams.member import (
    NOTHING_RESTORED,
    RestoredOffsets,
    StreamsMember,
    StreamsTimers,
)
from broker.coordinator.group.streams.owners import TaskOwners
from broker.coordinator.group.streams.records import NO_TOPOLOGY_EPOCH, StoredEpoch
from broker.coordinator.group.streams.tasks import NO_INDEXES, MemberTasks
from broker.coordinator.group.streams.topology import (
    Topology,
    read_names,
    required_topics,
    source_names,
    weights,
)
from broker.coordinator.group.timers import GroupTimer, TimerKind

STREAMS_PROTOCOL_TYPE: Final = "streams"

NO_MEMBER_OFFSETS: Final[Mapping[str, RestoredOffsets]] = MappingProxyType({})


class StreamsGroupState(Enum):
    """States by the names that StreamsGroupDescribe and ListGroups use. Kafka's Dead is not among them: a
    group that is removed is gone.
    """

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class StatedTopology(NamedTuple):
    """A topology, the names of all topics that it needs, and the id of the subtopology that reads a topic.
    `weight` is the sum of `topology.weights`.
    """

    topology: Topology
    required: frozenset[str]
    readers: Mapping[str, str]
    weight: int

    @property
    def epoch(self) -> int:
        return self.topology.epoch


def stated(topology: Topology) -> Steps[StatedTopology]:
    """Return what a topology states, with pauses."""
    readers: dict[str, str] = {}
    for subtopology in topology.subtopologies:
        for name in source_names(subtopology):
            readers[name] = subtopology.subtopology_id
            yield
        yield
    weight = 0
    for part in weights(topology):
        weight += part
        yield
    return StatedTopology(topology, (yield from required_topics(topology)), readers, weight)


class StreamsGroup(ModernGroup[StreamsMember, StreamsTimers, TaskSets]):
    """A streams group.

    `topology` is that of its first member; `configured` is that topology with the topics in `known_topics`,
    and `validated_epoch` the epoch of the topology if these suited it, so that there are tasks. `configs` are
    the settings that the last epoch began with. `assigned_wall_ms` is the time of the target assignment, 0 if
    it may be computed at once. `owners` has the tasks that are assigned or still to be revoked.
    `described_epoch` and `failed_epoch` are those of the descriptions that Kafka's plugin stores; here they
    are only kept as they are.

    With `is_delayed`, the first assignment waits for `initial_timer`. `task_offsets`, `endpoint_epoch`,
    `endpoints` and `shutdown_member`, the member that asks all others to shut down, are not stored.
    `task_offsets` is replaced and never modified; in a copy, `offsets_before` are those of the group.
    """

    type = STREAMS
    protocol_type = STREAMS_PROTOCOL_TYPE
    keys = GroupKeys(
        KeyType.STREAMS_GROUP,
        KeyType.STREAMS_MEMBER,
        KeyType.STREAMS_TARGET,
        KeyType.STREAMS_TARGET_OF_MEMBER,
        KeyType.STREAMS_CURRENT,
        KeyType.STREAMS_TOPOLOGY,
    )
    no_target = NOTHING

    __slots__ = (
        "assigned_wall_ms",
        "configs",
        "configured",
        "described_epoch",
        "endpoint_epoch",
        "endpoints",
        "failed_epoch",
        "initial_timer",
        "is_delayed",
        "offsets_before",
        "owners",
        "shutdown_member",
        "static_ids",
        "task_offsets",
        "topology",
        "validated_epoch",
    )

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.topology: StatedTopology | None = None
        self.configured: ConfiguredTopology | None = None
        self.validated_epoch = NO_TOPOLOGY_EPOCH
        self.described_epoch = NO_TOPOLOGY_EPOCH
        self.failed_epoch = NO_TOPOLOGY_EPOCH
        self.configs: tuple[tuple[str, str], ...] = ()
        self.assigned_wall_ms = 0
        self.static_ids: dict[str, str] = {}
        self.owners = TaskOwners()
        self.initial_timer = GroupTimer(TimerKind.INITIAL, group_id)
        self.is_delayed = False
        self.task_offsets = NO_MEMBER_OFFSETS
        self.offsets_before = NO_MEMBER_OFFSETS
        self.shutdown_member: str | None = None
        self.endpoint_epoch = 0
        self.endpoints: dict[str, EndpointPartitions] = {}

    def copy(self) -> Self:
        other = super().copy()
        for name in StreamsGroup.__slots__:
            setattr(other, name, getattr(self, name))
        other.static_ids, other.owners = dict(self.static_ids), self.owners.copy()
        other.endpoints = dict(self.endpoints)
        return other

    def isolated(self) -> Self:
        other = super().isolated()
        other.offsets_before = self.task_offsets
        return other

    def adopt(self, other: object) -> None:
        """Take over the state of a copy, and keep what members have told since it was made: their offsets,
        and that all shall shut down.
        """
        assert isinstance(other, StreamsGroup)
        told, shutdown_member = self.task_offsets, self.shutdown_member
        super().adopt(other)
        before, self.offsets_before = other.offsets_before, NO_MEMBER_OFFSETS
        if told is not before:
            newer = {
                member_id: offsets
                for member_id, offsets in told.items()
                if member_id in self.members
                and offsets is not before.get(member_id)
                and self.task_offsets.get(member_id) is before.get(member_id)
            }
            self.task_offsets = {**self.task_offsets, **newer}
        if self.members and self.shutdown_member is None:
            self.shutdown_member = shutdown_member

    @property
    def is_obsolete(self) -> bool:
        """Whether the group can be removed: it has neither members nor offsets."""
        return not (self.members or self.offsets)

    @property
    def subscribed(self) -> Mapping[str, object]:
        """The topics whose partitions the tasks read."""
        return {} if self.topology is None else self.topology.readers

    @property
    def subscriptions(self) -> object:
        return self.topology

    def weights(self, topics: Topics) -> Iterator[int]:
        yield len(self.members)
        if self.topology is not None:
            yield self.topology.weight
        # Members may still have tasks of a topic that is deleted.
        yield max(self.owners.count, 0 if self.configured is None else self.configured.tasks)
        if self.topology is not None:
            # Each subtopology that reads a topic has a task for each of its partitions.
            for subtopology in self.topology.topology.subtopologies:
                yield from partition_counts(read_names(subtopology), topics)

    def current_state(self) -> StreamsGroupState:
        if not self.members:
            return StreamsGroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.validated_epoch:
            return StreamsGroupState.NOT_READY
        if self.epoch > self.target_epoch:
            return StreamsGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.target_epoch) for member in self.members.values()):
            return StreamsGroupState.STABLE
        return StreamsGroupState.RECONCILING

    def new_timers(self, member_id: str) -> StreamsTimers:
        return StreamsTimers(self.group_id, member_id)

    # Members

    def put(self, member: StreamsMember) -> StreamsMember:
        """Add a member, or replace the one of the same id, whose tasks `own` has counted."""
        before = self.members.get(member.member_id)
        if before is not None:
            self._forget_instance(before)
            if before.endpoint != member.endpoint or before.assigned is not member.assigned:
                self.endpoints.pop(member.member_id, None)
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id
        return super().put(member)

    def change(self, member: StreamsMember) -> Steps[StreamsMember]:
        """Add a member with its tasks, or replace the one of the same id."""
        yield from self._own(self.members.get(member.member_id), member)
        return self.put(member)

    def remove(self, member_id: str) -> Steps[None]:
        member = self.members[member_id]
        yield from super().remove(member_id)
        yield from self._own(member, None)
        self._forget_instance(member)
        if member_id in self.task_offsets:
            self.task_offsets = {each: of for each, of in self.task_offsets.items() if each != member_id}
        self.endpoints.pop(member_id, None)
        if not self.members:
            self.shutdown_member = None

    def _forget_instance(self, member: StreamsMember) -> None:
        if member.instance_id is not None and self.static_ids.get(member.instance_id) == member.member_id:
            del self.static_ids[member.instance_id]

    def _own(self, before: StreamsMember | None, after: StreamsMember | None) -> Steps[None]:
        """Replace the tasks of a member. Those that it has now as before are left alone."""
        had, has = _tasks_of(before), _tasks_of(after)
        if had == has:
            return
        for process_id, tasks in had:
            yield from self.owners.remove(process_id, tasks)
        for process_id, tasks in has:
            yield from self.owners.add(process_id, tasks)

    def offsets_of(self, member_id: str) -> RestoredOffsets:
        """Return how far the state of a member's tasks is restored."""
        return self.task_offsets.get(member_id, NOTHING_RESTORED)

    def keep_offsets(self, member_id: str, offsets: RestoredOffsets) -> None:
        """Keep what a member has told."""
        self.task_offsets = {**self.task_offsets, member_id: offsets}

    def endpoint_partitions(self, topics: Topics) -> Steps[list[tuple[Endpoint, EndpointPartitions]]]:
        """Return where the tasks of the members with an endpoint are."""
        found = []
        for member in self.members.values():
            if member.endpoint is None or self.configured is None:
                continue
            known = self.endpoints.get(member.member_id)
            if known is None:
                known = yield from self._endpoint_of(member, self.configured, topics)
                self.endpoints[member.member_id] = known
            found.append((member.endpoint, known))
            yield
        return found

    def _endpoint_of(
        self, member: StreamsMember, configured: ConfiguredTopology, topics: Topics
    ) -> Steps[EndpointPartitions]:
        tasks = yield from member.assigned.sets()
        copies = dict(tasks.standby)
        for subtopology_id, indexes in tasks.warmup.items():
            copies[subtopology_id] = copies.get(subtopology_id, NO_INDEXES) | indexes
            yield
        return (yield from endpoint_partitions(tasks.active, copies, configured, topics))

    # The topology

    def set_topology(self, topology: StatedTopology | None) -> None:
        self.topology = topology
        self._state = None

    def set_configured(self, configured: ConfiguredTopology, topics: Topics) -> None:
        """Set the topology as it is with these topics."""
        self.configured, self.known_topics = configured, topics
        self.endpoints = {}

    def topics_hash(self, topology: StatedTopology, topics: Topics) -> Steps[int]:
        """Return a hash of the topics that the topology needs, and that exist."""
        return metadata_hash(topology.required, topics)

    def drop_configured(self) -> None:
        """Drop what the topology and the topics make again."""
        self.configured = self.known_topics = None
        self.endpoints = {}

    def begin_epoch(
        self, metadata_hash: int, validated_epoch: int, configs: tuple[tuple[str, str], ...]
    ) -> None:
        self.validated_epoch, self.configs = validated_epoch, configs
        self.set_epoch(self.epoch + 1, metadata_hash)

    # Offsets

    def check_commit(self, request: CommitRequest, _topics: Topics) -> ErrorCode:
        """Check an OffsetCommit; only an empty group accepts one from a client that is no member."""
        if request.generation_id < 0 and not self.members:
            return ErrorCode.NONE
        member = self.members.get(request.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not request.knows_member_epochs:
            return ErrorCode.UNSUPPORTED_VERSION
        is_allowed = self._may_commit(member, request)
        return ErrorCode.NONE if is_allowed else ErrorCode.STALE_MEMBER_EPOCH

    def check_transactional_commit(self, request: CommitRequest, _topics: Topics) -> ErrorCode:
        """Check a TxnOffsetCommit."""
        epoch, member_id = request.generation_id, request.member_id
        is_anonymous = epoch == -1 and not member_id and request.instance_id is None
        if is_anonymous or (epoch < 0 and not self.members):
            return ErrorCode.NONE
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if self._may_commit(member, request):
            return ErrorCode.NONE
        knows = request.knows_member_epochs
        return ErrorCode.STALE_MEMBER_EPOCH if knows else ErrorCode.ILLEGAL_GENERATION

    def check_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        """Check an OffsetFetch, which states a member only if it comes from one."""
        if member_id is None and epoch < 0:
            return ErrorCode.NONE
        member = self.members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if epoch == member.epoch else ErrorCode.STALE_MEMBER_EPOCH

    def _may_commit(self, member: StreamsMember, request: CommitRequest) -> bool:
        """Return whether the member has its present epoch, or an earlier one in which it had all of the tasks
        whose offsets it commits.
        """
        epoch = request.generation_id
        if epoch >= member.epoch or self.topology is None:
            return epoch == member.epoch
        for one in request.offsets:
            subtopology_id = self.topology.readers.get(one.topic, "")
            since = member.assigned.active.get(subtopology_id, {}).get(one.partition)
            if since is None:
                since = member.revoking.active.get(subtopology_id, {}).get(one.partition)
            if since is None or epoch < since:
                return False
        return True

    # Records

    def member_record(self, member: StreamsMember) -> Steps[Record]:
        yield from ()
        return records.member_record(self.group_id, member)

    def current_record(self, member: StreamsMember) -> Steps[Record]:
        return records.current_record(self.group_id, member)

    def epoch_record(self) -> Record:
        stored = StoredEpoch(
            self.epoch,
            self.metadata_hash,
            self.validated_epoch,
            self.configs,
            self.described_epoch,
            self.failed_epoch,
        )
        return records.epoch_record(self.group_id, stored)

    def topology_record(self, topology: Topology) -> Steps[Record]:
        return records.topology_record(self.group_id, topology)

    def target_epoch_record(self) -> Record:
        value = records.target_epoch_value(self.target_epoch, self.assigned_wall_ms)
        return encode_key(ModernKey(self.keys.target, self.group_id)), value

    def encoded_target(self, target: TaskSets) -> Steps[bytes]:
        return records.target_value(target)

    def decoded_target(self, value: bytes) -> TaskSets:
        return records.decode_target(value)

    def replay_target_epoch(self, value: bytes | None) -> None:
        super().replay_target_epoch(value)
        self.assigned_wall_ms = 0 if value is None else records.decode_target_epoch(value)[1]

    def replay_own(self, key: ModernKey, value: bytes | None) -> None:
        name = key.name
        known = self.members.get(name, StreamsMember(name))
        match key.type:
            case KeyType.STREAMS_TOPOLOGY:
                topology = None if value is None else records.decode_topology(value)
                self.set_topology(None if topology is None else run_through(stated(topology)))
            case _ if value is None:
                pass
            case KeyType.STREAMS_GROUP:
                stored = records.decode_epoch(value)
                self.configs, self.validated_epoch = stored.configs, stored.validated_topology_epoch
                self.described_epoch = stored.stored_description_epoch
                self.failed_epoch = stored.failed_description_epoch
                self.set_epoch(stored.epoch, stored.metadata_hash)
            case KeyType.STREAMS_MEMBER:
                self.members[name] = records.decode_member(known, value)
            case KeyType.STREAMS_CURRENT:
                self.members[name] = records.decode_current(known, value)
            case _:
                pass

    def finish(self) -> None:
        super().finish()
        for member in self.members.values():
            run_through(self._own(None, member))


def _tasks_of(member: StreamsMember | None) -> tuple[tuple[str, MemberTasks], ...]:
    """Return the tasks that a member has, and those that it still has to give up, with its process."""
    if member is None:
        return ()
    tasks = (member.assigned, member.revoking)
    return tuple((member.process_id, some) for some in tasks if not some.is_empty)
