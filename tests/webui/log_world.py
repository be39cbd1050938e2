"""Topics, records and groups behind the console of a test: the real control, logs and groups, in a folder of
the test.

Everything else of the broker is `FakeBroker`'s.
"""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from broker.common.errors import ErrorCode
from broker.common.slice_runner import run_slices
from broker.common.slices import Steps, run_through
from broker.config.load import load
from broker.config.sections.streams_groups import streams_group_settings
from broker.controller.commands import (
    Actor,
    Command,
    ConfigResource,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    IncrementalAlterConfigs,
    NewTopic,
    ResourceType,
)
from broker.controller.control import Control
from broker.controller.group_changes import DeleteGroup, DeleteGroupOffsets, GroupChanges, ResetOffsets
from broker.controller.rows.broker import ConfigRow, ServerInfo
from broker.controller.rows.client_endpoint import ClientEndpoint
from broker.controller.topic_records import BrowseRecords, ProduceRecord, TopicRecords
from broker.controller.transaction_changes import AbortTransaction, TransactionChanges
from broker.coordinator.group.consumer.assignment import ClusterTopics
from broker.coordinator.group.messages import (
    CommitRequest,
    ConsumerHeartbeatRequest,
    JoinRequest,
    Now,
    OffsetToCommit,
    ShareHeartbeatRequest,
    StreamsHeartbeatReply,
    StreamsHeartbeatRequest,
)
from broker.coordinator.group.streams.assignor import NOTHING, TaskSets
from broker.coordinator.group.streams.topology import Topology
from broker.coordinator.group_service import OFFSETS_TOPIC, GroupService
from broker.coordinator.share.dead_letters import DeadLetterCounts
from broker.coordinator.transaction.state import TransactionChange, TransactionClient
from broker.coordinator.transaction_service import TRANSACTIONS_TOPIC, TransactionService
from broker.log.cleaner.manager import CleanerManager
from broker.log.partition import PartitionLog
from broker.log.store import LogStore
from broker.metadata.changes import Change, ChangeKind
from broker.metadata.store import MetadataStore
from broker.partitions.partitions import Partitions
from broker.records.build import NewRecord, build_batch
from broker.records.compression import Codec
from broker.security.acl.authorizer import Authorizer
from broker.server.listeners import acl_listener
from broker.server.parts.share_groups import ShareGroupStateService
from broker.views.topics import LogViews
from tests.controller.live import Live, views_of
from tests.controller.world import StoreCommitter, actor
from tests.coordinator.group.share.states import FakeShareStates, run_pending
from tests.support.clock import ManualClock
from tests.webui.fakes import FakeBroker, FakeViews

COMMANDS = (
    *(CreateTopics, CreatePartitions, DeleteTopics, BrowseRecords, ProduceRecord),
    *(ResetOffsets, DeleteGroup, DeleteGroupOffsets),
    AbortTransaction,
)
WALL_MS = 1_700_000_000_000
STREAMS_AT_ONCE = (
    "group.streams.initial.rebalance.delay.ms=0",
    "group.streams.assignment.interval.ms=0",
)
"""Overrides with which the tasks of streams groups are assigned at once."""
TRANSACTIONAL = 0x10
"""The attribute of a batch in a transaction."""


class LogWorld:
    """`overrides` are `key=value` of the broker's configuration."""

    def __init__(self, directory: Path, *overrides: str) -> None:
        self.clock = ManualClock(wall_ms=WALL_MS)
        configuration = load(None, [f"log.dirs={directory}", *overrides], {})
        self.store = MetadataStore.open(directory / "metadata.sqlite", WALL_MS)
        self.committer = StoreCommitter(self.store)
        self.control = Control(self.store.image, configuration, self.committer, self.clock.wall_ms)
        config = self.control.config
        self.log = LogStore(config.log)
        self.log.open()
        self.partitions = Partitions(self.log, lambda: self.control.config.topic_settings)
        self.control.subscribe(self._listen)
        self.groups = GroupService(
            config.groups,
            config.consumer_groups,
            config.share_groups,
            self.partitions,
            lambda: ClusterTopics(self.control.image.topics, self.control.image.version),
            lambda _group_id: config.consumer_groups,
            lambda _group_id: config.share_groups,
            lambda _group_id: streams_group_settings({}, config.streams_groups),
        )
        self.groups.load(self.now())
        self.transactions = TransactionService(config.transactions, self.partitions, self.groups)
        self.transactions.load(self.now())
        self.grown: list[PartitionLog] = []
        TopicRecords(
            self.partitions, run_slices, self.clock.ms, self.clock.wall_ms, self.grown.append
        ).register(self.control)
        self.states = FakeShareStates()
        self.groups.share_summary = self.states.summary
        self.share_states = ShareGroupStateService(
            self.groups, self.states, lambda: self.control.image.topics_by_id, self.clock, self._failed
        )
        GroupChanges(self.groups, self.share_states, self.partitions, run_slices, self.now).register(
            self.control
        )
        self.deadlines: list[int] = []
        self.transactions.on_deadline = self.deadlines.append
        TransactionChanges(self.transactions, self.now).register(self.control)
        info = ServerInfo(1, "0.1.0", (ClientEndpoint("127.0.0.1:9092"),), "http://127.0.0.1:8080/")
        self.cleaner = CleanerManager(self.log)
        self.dead_letters: dict[str, DeadLetterCounts] = {}
        self.logs = LogViews(
            lambda: self.control.image,
            self.partitions,
            self.groups,
            self.cleaner,
            self.transactions,
            self.dead_letters,
        )
        authorizer = None
        if config.security.authorizer_class_name:
            authorizer = Authorizer((), (), is_open=False)
            self.control.subscribe(acl_listener(authorizer))
        self.views = views_of(
            self.control, Live(), self.committer, info, topics=self.logs, authorizer=authorizer
        )

    def _listen(self, _old: Any, new: Any, delta: Any) -> None:
        self.partitions.on_metadata_update(new, delta.topics)

    async def finish_states(self) -> None:
        """Initialize and delete the states of share groups that are due, as the broker's task does."""
        await run_pending(self.share_states, self.clock.ms())

    async def share(self, group: str, topic: str, *starts: int) -> None:
        """Have a share group without members that has read each partition of the topic up to a start."""
        self.beat(group, 0, topic)
        await self.finish_states()
        self.beat(group, 2)
        topic_id = self.control.image.topics[topic].topic_id
        self.states.starts.update({(group, topic_id, index): start for index, start in enumerate(starts)})
        self.beat(group, -1)

    def beat(self, group: str, epoch: int, *topics: str) -> None:
        """Send a heartbeat of the member "m" of a share group."""
        now, token = self.now(), object()
        request = ShareHeartbeatRequest(group, "m", epoch, None, topics or None, "client", "/10.0.0.1")
        effects = run_through(self.groups.coordinator.share.heartbeat(request, token, now))
        effects = self.groups.write_now(effects, now)
        ((_, reply),) = effects.replies
        assert reply.error is ErrorCode.NONE

    def _failed(self, _group_id: str, error: Exception) -> None:
        raise error

    def now(self) -> Now:
        return Now(self.clock.ms(), self.clock.wall_ms())

    def close(self) -> None:
        self.log.close()
        self.store.close()

    def topic(self, name: str, partitions: int = 1, **configs: str) -> None:
        """Create a topic at once."""
        pairs = tuple((key.replace("_", "."), value) for key, value in configs.items())
        changes = self._planned(CreateTopics((NewTopic(name, partitions, 1, pairs),)))
        image = self.store.commit(changes, actor(), WALL_MS)
        self.control.image = image
        self.partitions.on_metadata_update(image, [name])

    def _planned(self, command: CreateTopics) -> Sequence[Any]:
        from broker.controller.topics import plan_create_topics

        plan = run_through(plan_create_topics(command, self.control._situation(actor())))
        assert all(outcome.ok for outcome in plan.result), plan.result
        return plan.changes

    def set(self, topic: str, key: str, value: str) -> None:
        """Another operator sets a setting of a topic."""
        image = self.store.commit([Change(ChangeKind.TOPIC_CONFIG, topic, key, value)], actor(), WALL_MS)
        self.control.image = image

    def append(
        self,
        topic: str,
        *records: tuple[Any, Any],
        partition: int = 0,
        at_ms: int = WALL_MS,
        step_ms: int = 1,
        codec: Codec = Codec.NONE,
        headers: tuple[tuple[str, bytes | None], ...] = (),
        **fields: Any,
    ) -> None:
        """Append one batch of (key, value) records, `step_ms` apart."""
        log = self.partitions.log(topic, partition)
        assert log is not None
        made = [
            NewRecord(_bytes(key), _bytes(value), at_ms + step_ms * number, headers)
            for number, (key, value) in enumerate(records)
        ]
        staged = log.stage(build_batch(made, codec=codec, **fields), now_wall_ms=at_ms, internal=True)
        self.partitions.commit()
        assert staged.error is None

    def commit(self, group: str, topic: str, *offsets: int) -> None:
        """Commit offsets of the first partitions of a topic for a group without members."""
        if OFFSETS_TOPIC not in self.partitions.by_name:
            self.topic(OFFSETS_TOPIC)
        wanted = [OffsetToCommit(topic, index, offset) for index, offset in enumerate(offsets)]
        request = CommitRequest(group, -1, "", None, wanted)
        effects = self.groups.coordinator.offsets.commit(request, object(), self.now())
        self.groups.write_now(effects, self.now())

    def join(self, group: str, client_id: str = "app", host: str = "/10.0.0.7") -> None:
        """Let a member join, whose rebalance is not finished."""
        request = JoinRequest(
            group,
            "",
            None,
            client_id,
            host,
            10_000,
            10_000,
            "consumer",
            [("range", b"\0\0\0\0\0\0\0\0\0\0")],
            False,
            False,
        )
        effects = run_through(self.groups.coordinator.classic.join(request, object(), self.now()))
        self.groups.write_now(effects, self.now())

    def consume(self, group: str, topic: str, client_id: str = "app", host: str = "/10.0.0.7") -> None:
        """Let a member of the consumer protocol join, which receives the free partitions of a topic."""
        request = ConsumerHeartbeatRequest(
            group,
            f"{client_id}-1",
            0,
            rebalance_timeout_ms=10_000,
            topics=(topic,),
            owned={},
            client_id=client_id,
            client_host=host,
        )
        effects = run_through(self.groups.coordinator.consumer.heartbeat(request, object(), self.now()))
        self.groups.write_now(effects, self.now())

    def stream(
        self, group: str, member_id: str, topology: Topology, process_id: str = "", **fields: Any
    ) -> StreamsHeartbeatReply:
        """Let a member of a streams group join, of a process of its own unless stated."""
        joins = {"rebalance_timeout_ms": 60_000, "owned": NOTHING, "topology": topology}
        process_id = process_id or f"process-{member_id}"
        return self.stream_on(group, member_id, 0, process_id=process_id, **(joins | fields))

    def stream_on(
        self, group: str, member_id: str, epoch: int, owned: TaskSets | None = None, **fields: Any
    ) -> StreamsHeartbeatReply:
        """Send a heartbeat of a member of a streams group."""
        if OFFSETS_TOPIC not in self.partitions.by_name:
            self.topic(OFFSETS_TOPIC)
        now, client = self.now(), {"client_id": "app", "client_host": "/10.0.0.7"}
        request = StreamsHeartbeatRequest(group, member_id, epoch, owned=owned, **(client | fields))
        effects = run_through(self.groups.coordinator.streams.heartbeat(request, object(), now))
        ((_, reply),) = self.groups.write_now(effects, now).replies
        assert isinstance(reply, StreamsHeartbeatReply)
        return reply

    def transact(
        self,
        transactional_id: str,
        *partitions: tuple[str, int],
        timeout_ms: int = 60_000,
        client: TransactionClient | None = None,
    ) -> tuple[int, int]:
        """Begin a transaction with a record in each partition; return the producer's id and epoch."""
        if TRANSACTIONS_TOPIC not in self.partitions.by_name:
            self.topic(TRANSACTIONS_TOPIC)
        coordinator, now = self.transactions.coordinator, self.now()
        ids = itertools.count(len(coordinator))
        began = coordinator.initialize(transactional_id, timeout_ms, None, lambda: next(ids), now.wall_ms)
        assert isinstance(began, TransactionChange)
        began.transaction.client = client
        assert self.transactions._write_now([began], now) == [ErrorCode.NONE]
        producer_id, epoch = began.data.producer_id, began.data.producer_epoch
        if partitions:
            added = coordinator.add_partitions(
                transactional_id, producer_id, epoch, partitions, 2, now.wall_ms
            )
            assert isinstance(added, TransactionChange)
            assert self.transactions._write_now([added], now) == [ErrorCode.NONE]
        for topic, partition in partitions:
            self.append(
                *(topic, (None, "in a transaction")),
                partition=partition,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=0,
                attributes=TRANSACTIONAL,
            )
        return producer_id, epoch

    def drop(self, group: str) -> None:
        """Delete a group without members."""
        effects = self.groups.coordinator.delete([group], object(), self.now())
        self.groups.write_now(effects, self.now())

    def committed(self, group: str, topic: str) -> dict[int, int]:
        found = self.groups.coordinator.offsets.committed(group).get(topic, {})
        return {index: offset.offset for index, offset in sorted(found.items())}


def _bytes(text: Any) -> bytes | None:
    return text.encode() if isinstance(text, str) else text


class LoggedBroker(FakeBroker):
    """A `FakeBroker` whose topics, records and groups are those of a `LogWorld`."""

    def __init__(self, world: LogWorld, **rest: Any) -> None:
        super().__init__(**rest)
        self.world = world

    async def apply(self, command: Command[Any], actor: Actor) -> Any:
        if isinstance(command, COMMANDS) or _is_of_topic(command):
            result = await self.world.control.apply(command, actor)
            self.version += 1
            return result
        return await super().apply(command, actor)

    @property
    def views(self) -> FakeViews:
        views = super().views
        views.topics = self.world.logs
        return views

    def describe_configs(self, resource: ConfigResource) -> Steps[list[ConfigRow]]:
        if resource.type == ResourceType.TOPIC:
            return self.world.views.metadata.describe_configs(resource)
        return super().describe_configs(resource)


def _is_of_topic(command: Command[Any]) -> bool:
    return isinstance(command, IncrementalAlterConfigs) and all(
        each.resource.type == ResourceType.TOPIC for each in command.resources
    )
