"""A broker without a network: real services over a temporary directory, called message by message.

Requests and responses pass through the codec, so a response that its version cannot encode fails the test.
The harness does what the handler pool does around a handler (commit, finish, take callbacks) in the same
order.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from broker.api import registry
from broker.api.registry import Api
from broker.api.requests.callbacks import Callbacks
from broker.api.requests.change_limits import ControllerMutations
from broker.api.requests.context import RequestContext
from broker.api.requests.delayed_operations import AT_ONCE, AppendLinger, DelayedFetches
from broker.api.requests.fast_path import FastPath
from broker.api.requests.group_replies import expire_groups, forget_states, forget_topics
from broker.api.requests.outcome import AfterCommit, Delayed, EncodedResponse, Outcome, Response, Sliced
from broker.api.requests.services import (
    AdvertisedListener,
    GroupServices,
    control_services,
    log_services,
)
from broker.api.requests.streams_topics import StreamsTopics
from broker.api.security.client_security import ClientSecurity
from broker.common.slices import Slices, advance, run_through
from broker.config.load import load
from broker.config.sections.groups import group_times
from broker.config.sections.share_groups import share_group_times
from broker.config.sections.streams_groups import streams_group_settings
from broker.controller.control import Control
from broker.coordinator.group.consumer.assignment import ClusterTopics
from broker.coordinator.group.messages import Now
from broker.coordinator.group_service import GroupService
from broker.coordinator.transaction_service import TransactionService
from broker.log.slice import FileSlice
from broker.log.store import LogStore
from broker.metadata.changes import Delta
from broker.metadata.image import Image
from broker.metadata.store import MetadataStore
from broker.metrics.rate import Window
from broker.partitions.partitions import Partitions
from broker.protocol import codec
from broker.protocol.api_key import ApiKey, response_header_version
from broker.protocol.codec import parse_response_header
from broker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from broker.protocol.schema import Message
from broker.purgatory.purgatory import DelayedOperation
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.replication import ReplicationQuotas
from broker.records.build import NewRecord, build_batch
from broker.security.acl.authorizer import Authorizer
from broker.security.delegation_tokens import DelegationTokens
from broker.security.sasl import SaslLogin, SaslSession
from broker.security.unknown_users import UnknownUsers
from broker.server.listeners import acl_listener, delegation_token_listener
from broker.server.parts.share_groups import ShareGroups, ShareGroupStateService
from broker.telemetry.state import Telemetry
from tests.controller.world import StoreCommitter
from tests.coordinator.group.share.states import FakeShareStates, run_pending
from tests.support.clock import ManualClock
from tests.support.headers import parse_request_header

Reply = TypeVar("Reply", bound=Message)

WALL_MS = 1_700_000_000_000

NAMED = {ApiKey.OFFSET_COMMIT: 9, ApiKey.OFFSET_FETCH: 9, ApiKey.TXN_OFFSET_COMMIT: 5}
"""The last versions in which topics have names, where `Harness.ask` uses these by default."""


def join(parts: Iterable[Any]) -> bytes:
    return b"".join(part.read() if isinstance(part, FileSlice) else part for part in parts)


class Connection:
    """A client's connection, authenticated by default."""

    def __init__(self, listener: str = "PLAINTEXT", *, authenticated: bool = True) -> None:
        self.id = "127.0.0.1:9092-127.0.0.1:50000-0-0"
        self.address = "127.0.0.1"
        self.port = 50_000
        self.listener = listener
        self.principal = "ANONYMOUS"
        self.authenticated = authenticated
        self.by_token = False
        self.sasl_mechanism: str | None = None
        self.sasl_login: SaslLogin | None = None
        self.sends_raw_tokens = False
        self.prologue = 0
        self.session: SaslSession | None = None
        self.software_name = self.software_version = "unknown"
        self.waiting: DelayedOperation | None = None
        self.withheld_since_ms = 0
        self.topics_written: frozenset[str] = frozenset()
        self.topics_read: frozenset[str] = frozenset()
        self.counted_as: str | None = None
        self.closed = False


class UnlimitedLogins:
    """A broker without limits on the connections of a user."""

    def enter(self, connection: Any, user: str, now_ms: int) -> None:
        connection.counted_as = user

    def delay(self, connection: Any, throttle_ms: int, then: Callable[[int], None]) -> None:
        raise AssertionError("no channel is throttled here")

    def refuse(self, connection: Any, user: str, refusal: object) -> None:
        raise AssertionError("no request is refused here")


class Asking:
    """A request with its outcome, which is None while the request waits.

    `pauses` counts the pauses of the work in slices.
    """

    def __init__(self) -> None:
        self.context = RequestContext()
        self.outcome: Outcome | None = None
        self.pauses = 0


def finish(asking: Asking, outcome: Any) -> Any:
    """Run the remaining slices, and those that they return."""
    while isinstance(outcome, Sliced):
        outcome = run_through(_counted(asking, outcome))
    return outcome


def _counted(asking: Asking, sliced: Sliced) -> Slices[Any]:
    step, slices = sliced.step, sliced.slices
    while True:
        asking.pauses += 1
        yield step
        try:
            step = advance(slices)
        except StopIteration as end:
            return end.value


class Harness:
    """A broker with a manual `clock`; `overrides` are `key=value` of its configuration."""

    def __init__(self, directory: Path, *overrides: str) -> None:
        self.clock = ManualClock(wall_ms=WALL_MS)
        at_once = "group.coordinator.append.linger.ms=0"
        configuration = load(None, [f"log.dirs={directory}", at_once, *overrides], {})
        self.metadata = MetadataStore.open(directory / "metadata.sqlite", WALL_MS)
        self.control = Control(
            self.metadata.image, configuration, StoreCommitter(self.metadata), self.clock.wall_ms
        )
        config = self.control.config
        self.log = LogStore(config.log)
        try:
            self.log.open()
        except BaseException:
            self.metadata.close()
            raise
        self.partitions = Partitions(self.log, lambda: self.control.config.topic_settings)
        self.partitions.on_metadata_update(self.control.image, self.control.image.topics)
        self.control.subscribe(self._listen)
        self.quotas = ClientQuotas(
            Window(11, 1_000),
            Window(config.quotas.controller_window_num, config.quotas.controller_window_size_seconds * 1000),
        )
        self.registry = registry.load()
        self.replication = ReplicationQuotas(config.replication, config.broker.node_id)
        self.callbacks = Callbacks(500)
        self.callbacks.serve(self._full, lambda: None)
        self.fetches = DelayedFetches(self.callbacks)
        self.groups = GroupService(
            config.groups,
            config.consumer_groups,
            config.share_groups,
            self.partitions,
            lambda: ClusterTopics(self.control.image.topics, self.control.image.version),
            lambda group_id: group_times(
                self.control.image.group_configs.get(group_id, {}), config.consumer_groups
            ),
            lambda group_id: share_group_times(
                self.control.image.group_configs.get(group_id, {}), config.share_groups
            ),
            lambda group_id: streams_group_settings(
                self.control.image.group_configs.get(group_id, {}), config.streams_groups
            ),
        )
        self.streams_topics = StreamsTopics(self.control, self.clock, partial(self._failed, ""))
        self.linger = AppendLinger(config.groups.append_linger_ms, self.callbacks, self.clock)
        self.states = FakeShareStates()
        self.share_states = ShareGroupStateService(
            self.groups, self.states, lambda: self.control.image.topics_by_id, self.clock, self._failed
        )
        self.transactions = TransactionService(config.transactions, self.partitions, self.groups)
        self.authorizer: Authorizer | None = None
        if config.security.authorizer_class_name:
            self.authorizer = Authorizer(
                self.control.image.acls,
                config.security.super_users,
                is_open=config.security.allow_everyone_if_no_acl_found,
            )
            self.control.subscribe(acl_listener(self.authorizer))
        self.security = ClientSecurity(config.security, self.authorizer)
        endpoints = {
            endpoint.name: AdvertisedListener("broker.example", 9092 + number, self.registry)
            for number, endpoint in enumerate(config.network.listeners)
        }
        mutations = ControllerMutations(self.quotas.mutation, self.clock)
        self.tokens = DelegationTokens(
            config.security.delegation_token_secret_key, self.control.image.delegation_tokens
        )
        self.control.subscribe(delegation_token_listener(self.tokens))
        self.services = {
            **control_services(
                config.broker.node_id,
                endpoints,
                self.control,
                mutations,
                self.security,
                UnknownUsers(self.metadata.scram_secret, self.metadata.image.scram),
                self.tokens,
                UnlimitedLogins(),
                self.callbacks,
                Telemetry(config.telemetry),
            ),
            **log_services(
                self.clock,
                config,
                endpoints,
                self.partitions,
                self.fetches,
                GroupServices(
                    self.control,
                    self.groups,
                    self.callbacks,
                    self.security,
                    self.transactions,
                    self.share_states,
                    self.linger,
                    mutations,
                    self.streams_topics,
                ),
                self.quotas,
                self.replication,
            ),
        }
        self.share = ShareGroups(
            config,
            self.control,
            self.partitions,
            self.fetches,
            self.quotas,
            self.security,
            self.clock,
            self.deliver,
            self._failed,
        )
        self.services |= self.share.services
        self.groups.load(self.now)
        self.transactions.load(self.now)
        self.share.persister.load()
        self.uses_fast_paths = True
        self._fast_paths: dict[tuple[int, int], FastPath] = {}
        self._asked: dict[RequestContext, Asking] = {}

    @property
    def now(self) -> Now:
        return Now(self.clock.ms(), self.clock.wall_ms())

    def close(self) -> None:
        self.log.close()
        self.metadata.close()

    async def ask(
        self,
        message: Message,
        version: int | None = None,
        *,
        connection: Connection | None = None,
        client_id: str | None = "test",
    ) -> Any:
        """Return the response as a client of this version (default: the latest served) reads it; it must not
        wait.
        """
        asking = await self.put(message, version, connection=connection, client_id=client_id)
        return self.answer(asking)

    async def put(
        self,
        message: Message,
        version: int | None = None,
        *,
        connection: Connection | None = None,
        client_id: str | None = "test",
    ) -> Asking:
        """Pass the message to its handler and finish the batch as the handler pool does."""
        asking = await self.stage(message, version, connection=connection, client_id=client_id)
        self.deliver([asking])
        return asking

    async def stage(
        self,
        message: Message,
        version: int | None = None,
        *,
        connection: Connection | None = None,
        client_id: str | None = "test",
    ) -> Asking:
        """Pass the message to its handler without finishing the batch; `deliver` does that."""
        key = message.API_KEY
        assert key is not None
        entry = self.registry.get(key)
        assert entry is not None, f"{type(message).__name__} is not served"
        asking = Asking()
        context = asking.context
        context.api_key = key
        context.api_version = NAMED.get(entry.key, entry.max_version) if version is None else version
        assert entry.min_version <= context.api_version <= entry.max_version
        context.connection = connection or Connection()
        context.client_id = client_id
        context.correlation_id = 7
        context.exempt = False
        context.now_ms, context.wall_ms = self.now
        frame = bytearray(join(codec.encode_request(key, context.api_version)(message, 7, client_id)))[4:]
        return await self.stage_frame(frame, asking)

    async def stage_frame(self, frame: bytearray, asking: Asking) -> Asking:
        """Pass a frame without its size to the API's fast path, then to its handler."""
        context = asking.context
        self._asked[context] = asking
        context.size = len(frame)
        entry = self.registry.get(context.api_key)
        assert entry is not None
        outcome = self._serve_fast(entry, frame, context)
        if outcome is None:
            body = parse_request_header(frame).body_offset
            question = codec.decode_request(context.api_key, context.api_version)(frame, body)
            outcome = entry.handle(question, context, self.services[entry.services])
        outcome = finish(asking, outcome)
        if hasattr(outcome, "__await__"):
            outcome = finish(asking, await outcome)
        asking.outcome = outcome
        return asking

    def _serve_fast(self, entry: Api, frame: bytearray, context: RequestContext) -> Outcome | None:
        if entry.fast_path is None or not self.uses_fast_paths:
            return None
        key = (context.api_key, context.api_version)
        if key not in self._fast_paths:
            self._fast_paths[key] = entry.fast_path(context.api_version, self.services[entry.services])
        return self._fast_paths[key].serve(frame, context)

    def deliver(self, batch: Sequence[Asking] = ()) -> None:
        """Finish a batch of requests as the handler pool does."""
        if any(isinstance(asking.outcome, AfterCommit) for asking in batch):
            self.partitions.commit()
        for asking in batch:
            while isinstance(asking.outcome, AfterCommit):
                asking.outcome = asking.outcome.finish()
                if isinstance(asking.outcome, Sliced):  # the next part of a divided request
                    asking.outcome = finish(asking, asking.outcome)
                    self.partitions.commit()
            if isinstance(asking.outcome, Delayed):
                asking.outcome = None
        callbacks = self.callbacks.queue
        self.callbacks.queue_later(AT_ONCE)
        while callbacks:
            context, outcome_of = callbacks.popleft()
            asking = self._asked[context]
            asking.outcome = finish(asking, outcome_of())
            if not callbacks:
                self.callbacks.queue_later(AT_ONCE)

    def answer(self, asking: Asking) -> Any:
        """Return the response as the client decodes it."""
        key, version = asking.context.api_key, asking.context.api_version
        frame = self.answer_frame(asking)[4:]
        correlation_id, body = parse_response_header(frame, response_header_version(key, version))
        assert correlation_id == 7
        return codec.decode_response(key, version)(frame, body)

    def answer_frame(self, asking: Asking) -> bytes:
        """Return the whole response."""
        outcome = asking.outcome
        if isinstance(outcome, EncodedResponse):
            return outcome.frame if isinstance(outcome.frame, bytes) else join(outcome.frame)
        assert isinstance(outcome, Response), f"not answered: {outcome}"
        context = asking.context
        return join(codec.encode_response(context.api_key, context.api_version)(outcome.reply, 7))

    def advance(self, ms: int) -> None:
        """Advance the clock and run each due operation at its own time."""
        end = self.clock.ms() + ms
        while (deadline := self._next_deadline()) is not None and deadline <= end:
            self.clock.now_ms = max(deadline, self.clock.ms())
            expire_groups(self.services[GroupServices], *self.now)
            self.linger.responses.complete_expired(self.clock.ms())
            self.run_transactions()
            self.fetches.share.complete_expired(self.clock.ms())
            self.share.share.expire(self.clock.ms())
            self.deliver()
        self.clock.now_ms = end

    def run_transactions(self) -> None:
        """Run the transaction timer once, as its reaper does."""
        for log in self.transactions.run(self.now):
            self.fetches.complete(log)
        self.deliver()

    def _next_deadline(self) -> int | None:
        deadlines = (
            self.groups.next_deadline(),
            self.linger.responses.next_deadline(),
            self.transactions.next_deadline(),
            self.fetches.share.next_deadline(),
            self.share.share.next_deadline(),
        )
        return min((each for each in deadlines if each is not None), default=None)

    async def create_topic(self, name: str, partitions: int = 1) -> None:
        topic = CreatableTopic(name, partitions, 1)
        reply = await self.ask(CreateTopicsRequest([topic]))
        assert reply.topics[0].error_code == 0, reply

    def append(self, topic: str, *timestamps: int, partition: int = 0) -> int:
        """Append one batch with a record for each timestamp and return its first offset."""
        log = self.partitions.log(topic, partition)
        assert log is not None
        records = [NewRecord(b"key", b"value", timestamp) for timestamp in timestamps]
        staged = log.stage(build_batch(records), now_wall_ms=WALL_MS)
        self.partitions.commit()
        return staged.base_offset

    async def finish_states(self) -> None:
        """Initialize and delete the states of share groups that are due, as the broker's task does."""
        await run_pending(self.share_states, self.clock.ms())

    def _failed(self, _group_id: str, error: Exception) -> None:
        raise error

    def _full(self, _context: RequestContext, _outcome_of: Callable[[], Outcome]) -> None:
        raise AssertionError("more callbacks than the queue takes")

    def _listen(self, old: Image, new: Image, delta: Delta) -> None:
        for path in self._fast_paths.values():
            path.forget()
        for log in self.partitions.on_metadata_update(new, delta.topics):
            self.fetches.complete(log)
        gone = {name: old.topics[name] for name in delta.topics & (old.topics.keys() - new.topics)}
        now_ms, wall_ms = self.now
        run_through(forget_topics(self.services[GroupServices], gone, lambda: now_ms, lambda: wall_ms))
        ids = {topic.topic_id for topic in gone.values()}
        run_through(forget_states(self.services[GroupServices], ids, lambda: now_ms, lambda: wall_ms))
