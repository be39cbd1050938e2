"""Share groups of one broker: their records in flight, their sessions, the state topic, and the states of
their partitions.

`ShareGroupStateService` initializes and deletes the states. It is called by the handlers of share groups, and
by `server` for what heartbeats and deletions leave to do. What is begun is recorded first and what is
completed afterwards, so that the rest is done at the next start if the broker is killed in between. (Kafka:
persisterInitialize, deleteShareGroupOffsetsState)
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Final
from weakref import WeakValueDictionary

import trio

from broker.api.requests.automatic_topics import automatic_topic
from broker.api.requests.delayed_operations import DelayedFetches
from broker.api.requests.services import HandlerServices, ShareServices, ShareStateServices
from broker.api.security.client_security import ClientSecurity
from broker.common.clock import Clock
from broker.common.errors import ApiError, ErrorCode
from broker.common.slice_runner import run_slices
from broker.common.slices import Steps
from broker.config.table import BrokerConfig
from broker.controller.commands import BROKER_ITSELF, CreateTopics
from broker.controller.control import Control
from broker.coordinator.group.consumer.assignment import TopicFacts, by_topic
from broker.coordinator.group.messages import Effects, Now, ShareStatesReply, Token
from broker.coordinator.group.share.state_partitions import NamedPartitions, StatePartitions
from broker.coordinator.group_service import GroupService
from broker.coordinator.share.persister import SHARE_STATE_TOPIC, ShareStatePersister
from broker.coordinator.share.sessions import ShareSessions
from broker.coordinator.share.share_partitions import SharePartitions, ShareSettings, share_settings
from broker.coordinator.share.states import SharePartition, ShareStateResult, ShareStates, ShareStateSummary
from broker.network.failures import FailedStep, Failures
from broker.network.reaper import Reaper
from broker.partitions.partitions import Partitions
from broker.quotas.client_quotas import ClientQuotas
from broker.server.parts.dead_letters import DeadLetterQueues

SHARE_GROUP_STATES: Final = "share-group-states"
"""The name of the task."""

OF_GROUP: Final = f"{SHARE_GROUP_STATES}-of-group"
"""The name of the task of one group, which ends with its work."""

STATES_AT_ONCE: Final = 8
"""States of a group that are initialized or deleted at the same time; ours. Each writes a record."""

GROUPS_AT_ONCE: Final = 16
"""Groups whose states are initialized or deleted at the same time; ours."""

LEADER_CHOOSES: Final = -1
"""The start offset that the partition's leader replaces by its own choice."""

OnFailure = Callable[[str, Exception], None]
"""Receives the group id and an unexpected exception."""


class ShareGroups:
    """The parts, and the services of the handlers. `config` is the configuration at the start; `deliver`
    makes the handlers take completed requests, `on_failure` reports a failed task.
    """

    def __init__(
        self,
        config: BrokerConfig,
        control: Control,
        partitions: Partitions,
        fetches: DelayedFetches,
        quotas: ClientQuotas,
        security: ClientSecurity,
        clock: Clock,
        deliver: Callable[[], None],
        on_failure: OnFailure,
    ) -> None:
        self._control = control
        self._settings: dict[str, ShareSettings] = {}
        self._settings_from: tuple[object, object] = None, None
        self.persister = ShareStatePersister(config.share_coordinator, partitions, clock, self._create_topic)
        self.sessions = ShareSessions(config.share_partitions.max_sessions)
        self.share = SharePartitions(
            partitions,
            self.persister,
            self._settings_of,
            clock,
            fetches.share.complete,
        )
        self.dead_letters = DeadLetterQueues(
            control, partitions, self.share, clock, fetches.complete, deliver, on_failure
        )
        self.services: HandlerServices = {
            ShareServices: ShareServices(
                clock,
                config.fetch.max_bytes,
                partitions,
                fetches.share,
                self.sessions,
                self.share,
                quotas,
                security,
            ),
            ShareStateServices: ShareStateServices(partitions, self.persister, security),
        }

    def disconnected(self, connection_id: str) -> None:
        """End the sessions of a closed connection; the lock timer releases what their members hold."""
        for session in self.sessions.disconnected(connection_id):
            self.share.release_soon(session.key.member_id, session.partitions)

    async def _create_topic(self) -> None:
        topic = automatic_topic(SHARE_STATE_TOPIC, self._control.config)
        await self._control.apply(CreateTopics((topic,)), BROKER_ITSELF)

    def _settings_of(self, group_id: str) -> ShareSettings:
        """Return the settings of a group, which are computed once after a change of any. Asked for with each
        share partition of a request.
        """
        configs, config = self._control.image.group_configs, self._control.config.share_partitions
        if self._settings_from[0] is not configs or self._settings_from[1] is not config:
            self._settings, self._settings_from = {}, (configs, config)
        own = configs.get(group_id) or {}
        name = group_id if own else ""  # a group without settings of its own has those of the broker
        found = self._settings.get(name)
        if found is None:
            found = self._settings[name] = share_settings(own, config)
        return found


def share_reapers(
    groups: ShareGroups,
    fetches: DelayedFetches,
    node_id: int,
    failures: Failures,
    clock: Clock,
    deliver: Callable[[], None],
) -> tuple[Reaper, ...]:
    """Return the timers of the waiting fetches, of the locks and of the state topic."""

    def expire_fetches(now_ms: int) -> None:
        fetches.share.complete_expired(now_ms)
        deliver()

    def expire_locks(now_ms: int) -> None:
        try:
            groups.share.expire(now_ms)
        except Exception as error:  # noqa: BLE001 - reported; other requests go on
            failures.report(FailedStep.SHARE_TIMER, error)
        deliver()

    def prune(now_ms: int) -> None:
        try:
            groups.persister.prune(now_ms)
        except Exception as error:  # noqa: BLE001 - reported; other requests go on
            failures.report(FailedStep.SHARE_TIMER, error)
        deliver()

    name = f"ExpirationReaper-{node_id}-ShareFetch"
    locks = Reaper("share-lock-timer", groups.share.next_deadline, expire_locks, clock)
    groups.share.on_deadline = locks.wake_by
    waiting = Reaper(name, fetches.share.next_deadline, expire_fetches, clock)
    fetches.share.on_deadline = waiting.wake_by
    states = Reaper("share-state-timer", groups.persister.next_deadline, prune, clock)
    groups.persister.on_deadline = states.wake_by
    return waiting, locks, states


class ShareGroupStateService:
    """The implementation of `coordinator.share.states.ShareGroupStates`, one per broker.

    `topics` returns the topics of the cluster by id.
    """

    def __init__(
        self,
        groups: GroupService,
        states: ShareStates,
        topics: Callable[[], Mapping[bytes, TopicFacts]],
        clock: Clock,
        on_failure: OnFailure,
    ) -> None:
        self._groups = groups
        self._states = states
        self._topics = topics
        self._clock = clock
        self._on_failure = on_failure
        self._locks: WeakValueDictionary[str, trio.Lock] = WeakValueDictionary()
        self._limiter = trio.CapacityLimiter(GROUPS_AT_ONCE)
        self._left: list[str] = []
        self._wake = trio.Event()

    def summary(self, group_id: str, topic_id: bytes, partition: int) -> ShareStateSummary | None:
        """Return what is known of a state; None if it is not initialized."""
        return self._states.summary(group_id, topic_id, partition)

    # What heartbeats leave to do

    def next_deadline(self) -> int | None:
        """Return 0 if a group has states to initialize or to delete, else None."""
        return 0 if self._groups.coordinator.share.has_pending_states else None

    def begin(self, _now_ms: int) -> None:
        """Begin with the groups that have states to initialize or to delete. `run` goes on."""
        self._left += self._groups.coordinator.share.take_pending_states()
        if self._left:
            self._wake.set()

    async def run(self) -> None:
        """Initialize and delete states until cancelled. A cancellation leaves the rest to the next start."""
        async with trio.open_nursery() as nursery:
            while True:
                await self._wake.wait()
                self._wake = trio.Event()
                left, self._left = self._left, []
                for group_id in left:
                    nursery.start_soon(self._finish, group_id, name=OF_GROUP)

    async def _finish(self, group_id: str) -> None:
        try:
            async with self._limiter, self._lock(group_id):
                await self._finish_deletions(group_id)
                await self._finish_initializations(group_id)
        except Exception as error:  # noqa: BLE001 - reported; other groups go on
            self._on_failure(group_id, error)

    async def _finish_deletions(self, group_id: str) -> None:
        topics = self._topics()
        deleting = self._groups.coordinator.share.states(group_id).deleting
        counts = {topic_id: topics[topic_id].partitions if topic_id in topics else 0 for topic_id in deleting}
        await self._delete(group_id, {each: range(count) for each, count in counts.items()})

    async def _finish_initializations(self, group_id: str) -> None:
        """Initialize what has no state yet: the state of an interrupted request may be there already."""
        wanted, missing = await run_slices(self._initializing(group_id))
        if wanted:
            await self._initialize(group_id, wanted, dict.fromkeys(missing, LEADER_CHOOSES))

    def _initializing(self, group_id: str) -> Steps[tuple[list[SharePartition], list[SharePartition]]]:
        """Return what is to be initialized, and what of it has no state."""
        wanted: list[SharePartition] = []
        missing: list[SharePartition] = []
        for topic_id, named in self._groups.coordinator.share.states(group_id).initializing.items():
            for index in named.partitions:
                wanted.append((topic_id, index))
                if self._states.summary(group_id, topic_id, index) is None:
                    missing.append((topic_id, index))
                yield
        return wanted, missing

    # Requests

    async def alter(
        self, group_id: str, offsets: Mapping[bytes, tuple[str, Mapping[int, int]]]
    ) -> ShareStateResult:
        """Begin states anew at start offsets, by topic id: the topic's name, and offsets by partition."""
        named = {
            topic_id: NamedPartitions(name, frozenset(starts)) for topic_id, (name, starts) in offsets.items()
        }
        starts = {
            (topic_id, partition): start
            for topic_id, (_, of_topic) in offsets.items()
            for partition, start in of_topic.items()
        }
        coordinator = self._groups.coordinator
        async with self._lock(group_id):
            reply = await self._write(
                lambda token, now: coordinator.share.begin_states(group_id, named, token, now)
            )
            if reply.error:
                return ShareStateResult(reply.error, reply.message)
            return await self._initialize(group_id, list(starts), starts)

    async def delete(self, group_id: str, topic_ids: Collection[bytes]) -> ShareStateResult:
        """Delete the states of topics. One without a state is UNKNOWN_TOPIC_OR_PARTITION."""
        async with self._lock(group_id):
            known = self._groups.coordinator.share.states(group_id)
            wanted = [each for each in topic_ids if each in known.initialized or each in known.deleting]
            outcome = await self._begin_deletion(group_id, wanted, known)
            unknown = ApiError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no offset information to delete."
            )
            missing = {each: unknown for each in topic_ids if each not in wanted}
            return outcome._replace(topics={**outcome.topics, **missing})

    async def delete_all(self, group_id: str) -> ShareStateResult:
        """Delete all states of a group, which is deleted next."""
        async with self._lock(group_id):
            known = self._groups.coordinator.share.states(group_id)
            wanted = dict.fromkeys((*known.initialized, *known.initializing, *known.deleting))
            return await self._begin_deletion(group_id, list(wanted), known)

    async def _begin_deletion(
        self, group_id: str, topic_ids: Sequence[bytes], known: StatePartitions
    ) -> ShareStateResult:
        coordinator = self._groups.coordinator
        reply = await self._write(
            lambda token, now: coordinator.share.begin_deletion(group_id, topic_ids, token, now)
        )
        if reply.error:
            return ShareStateResult(reply.error, reply.message)
        topics = self._topics()
        partitions: dict[bytes, Iterable[int]] = {}
        for topic_id in topic_ids:
            of_topic = set(range(topics[topic_id].partitions)) if topic_id in topics else set()
            for named in (known.initialized, known.initializing):
                of_topic |= named[topic_id].partitions if topic_id in named else frozenset()
            partitions[topic_id] = of_topic
        return await self._delete(group_id, partitions)

    # The states

    async def _initialize(
        self, group_id: str, wanted: Collection[SharePartition], starts: Mapping[SharePartition, int]
    ) -> ShareStateResult:
        """Initialize the states of `starts`, and record which of the `wanted` states are there."""

        async def initialize(partition: SharePartition) -> None:
            await self._states.initialize(group_id, *partition, starts[partition])

        failed = await _each(starts, initialize)
        done = await run_slices(by_topic(each for each in wanted if each not in failed))
        left = await run_slices(by_topic(failed))
        coordinator = self._groups.coordinator
        reply = await self._write(
            lambda token, now: coordinator.share.complete_states(group_id, done, left, token, now)
        )
        return ShareStateResult(reply.error, reply.message, failed)

    async def _delete(self, group_id: str, partitions: Mapping[bytes, Iterable[int]]) -> ShareStateResult:
        """Delete states, and record the topics of which all states are deleted."""
        if not partitions:
            return ShareStateResult(ErrorCode.NONE)

        async def delete(partition: SharePartition) -> None:
            await self._states.delete(group_id, *partition)

        wanted = [(topic_id, each) for topic_id, some in partitions.items() for each in some]
        failed = {topic_id: error for (topic_id, _), error in (await _each(wanted, delete)).items()}
        gone = [each for each in partitions if each not in failed]
        coordinator = self._groups.coordinator
        reply = await self._write(
            lambda token, now: coordinator.share.complete_deletion(group_id, gone, token, now)
        )
        return ShareStateResult(reply.error, reply.message, topics=failed)

    async def _write(self, call: Callable[[Token, Now], Steps[Effects]]) -> ShareStatesReply:
        """Make a call to the coordinator, and return the reply after its records are written. Other tasks run
        in between if the group is large.
        """
        now = Now(self._clock.ms(), self._clock.wall_ms())
        token = object()
        for found, reply in (await run_slices(self._written(call(token, now), now))).replies:
            if found is token and isinstance(reply, ShareStatesReply):
                return reply
        return ShareStatesReply(ErrorCode.UNKNOWN_SERVER_ERROR)

    def _written(self, call: Steps[Effects], now: Now) -> Steps[Effects]:
        """Make the call, and write its records without a pause in between."""
        return self._groups.write_now((yield from call), now)

    def _lock(self, group_id: str) -> trio.Lock:
        """Return the lock of a group: its states are changed by one call at a time."""
        return self._locks.setdefault(group_id, trio.Lock())


async def _each(
    items: Iterable[SharePartition], operation: Callable[[SharePartition], Awaitable[None]]
) -> dict[SharePartition, ApiError]:
    """Apply the operation to each item, a few at a time, and return the errors."""
    failed: dict[SharePartition, ApiError] = {}

    async def attempt(item: SharePartition) -> None:
        try:
            await operation(item)
        except ApiError as error:
            failed[item] = error

    left = list(items)
    for at in range(0, len(left), STATES_AT_ONCE):
        async with trio.open_nursery() as nursery:
            for item in left[at : at + STATES_AT_ONCE]:
                nursery.start_soon(attempt, item)
    return failed
