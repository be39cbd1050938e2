"""The single path for live changes from the Kafka handlers, the REST endpoints, the pages and the command
line.

Built by broker.server.broker. Plans a change against the current image, writes it to the metadata log,
publishes it, and only then returns; changes never interleave. The injected `Committer` provides threads and
locks.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import partial
from typing import Any, Final, Protocol, TypeVar, cast

from msgspec.structs import replace

from broker.common.errors import ApiError, ErrorCode, FatalExitError
from broker.common.slices import Steps, freed, run_through
from broker.config.load import Configuration
from broker.config.table import BrokerConfig
from broker.controller.acls import plan_create_acls, plan_delete_acls
from broker.controller.alerts import (
    RemoveAlertDestination,
    RemoveAlertRule,
    RemoveAlertSilence,
    SetAlertDestination,
    SetAlertRule,
    SetAlertSilence,
    plan_remove_destination,
    plan_remove_rule,
    plan_remove_silence,
    plan_set_destination,
    plan_set_rule,
    plan_set_silence,
)
from broker.controller.client_quotas import plan_client_quotas
from broker.controller.commands import (
    Actor,
    AllocateProducerIds,
    AlterClientQuotas,
    AlterUserScramCredentials,
    CloseConnection,
    Command,
    CreateAcls,
    CreatePartitions,
    CreateTopics,
    DeleteAcls,
    DeleteTopics,
    DrainGateway,
    EntryOutcome,
    IncrementalAlterConfigs,
    IssueAdminToken,
    ProducerIdBlock,
    RevokeAdminToken,
    Undo,
)
from broker.controller.configs import plan_alter_configs
from broker.controller.delegation_tokens import (
    CreateDelegationToken,
    ExpireDelegationToken,
    RemoveExpiredDelegationTokens,
    RenewDelegationToken,
    plan_create_token,
    plan_expire_token,
    plan_remove_expired,
    plan_renew_token,
)
from broker.controller.dynamic_config import DynamicConfig, warn_of_inert_changes
from broker.controller.plan import Operation, Plan, Situation
from broker.controller.quotas_in_force import QuotasInForce
from broker.controller.scram import plan_scram
from broker.controller.tokens import SetPassword, plan_issue_token, plan_revoke_token, plan_set_password
from broker.controller.topics import plan_create_partitions, plan_create_topics, plan_delete_topics
from broker.controller.undo import inverse_of, preceding_rows
from broker.metadata.actor import Role
from broker.metadata.changes import AuditFilter, AuditRow, Change, ChangeKind, Delta
from broker.metadata.image import Image

Result = TypeVar("Result")

Subscriber = Callable[[Image, Image, Delta], Iterator[None] | None]
"""Called as (old, new, changes) on the event loop, in order of subscription; must neither block nor raise.
For long work, it returns an iterator that does it in steps.
"""

_END_OF_PRODUCER_IDS: Final = 2**63


def plan_producer_ids(command: AllocateProducerIds, at: Situation) -> Plan[ProducerIdBlock]:
    """Plan the allocation of a block of producer ids. (Kafka: ProducerIdControlManager)

    Raises ApiError for a missing role, and UNKNOWN_SERVER_ERROR if all 2**63 ids are allocated.
    """
    at.require(Role.ADMIN, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    first, after = at.image.next_producer_id, at.image.next_producer_id + command.count
    if command.count < 1 or after > _END_OF_PRODUCER_IDS:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "All producer ids are allocated")
    return Plan(
        ProducerIdBlock(first, command.count), (Change(ChangeKind.PRODUCER_IDS, "", "next", str(after)),)
    )


PLANNERS: Final[dict[type, Callable[[Any, Situation], Plan[Any] | Steps[Plan[Any]]]]] = {
    AlterClientQuotas: plan_client_quotas,
    CreateTopics: plan_create_topics,
    CreatePartitions: plan_create_partitions,
    DeleteTopics: plan_delete_topics,
    IncrementalAlterConfigs: plan_alter_configs,
    AllocateProducerIds: plan_producer_ids,
    IssueAdminToken: plan_issue_token,
    RevokeAdminToken: plan_revoke_token,
    SetPassword: plan_set_password,
    AlterUserScramCredentials: plan_scram,
    CreateDelegationToken: plan_create_token,
    RenewDelegationToken: plan_renew_token,
    ExpireDelegationToken: plan_expire_token,
    RemoveExpiredDelegationTokens: plan_remove_expired,
    CreateAcls: plan_create_acls,
    DeleteAcls: plan_delete_acls,
    SetAlertRule: plan_set_rule,
    RemoveAlertRule: plan_remove_rule,
    SetAlertDestination: plan_set_destination,
    RemoveAlertDestination: plan_remove_destination,
    SetAlertSilence: plan_set_silence,
    RemoveAlertSilence: plan_remove_silence,
}


class Committer(Protocol):
    """The part of the metadata store that control uses, without threads. Implemented by
    broker.network.metadata_writer.

    `exclusive` covers everything from reading the image to publishing the next, so that changes do not
    interleave.

    Cancelling its task does not abandon a commit that has started: it returns the image or raises ApiError.
    """

    def exclusive(self) -> AbstractAsyncContextManager[object]: ...

    def exclusive_here(self) -> AbstractAsyncContextManager[object]:
        """As `exclusive`, for what is published and not committed: no other server is asked for changes."""

    async def commit(self, changes: Sequence[Change], actor: Actor) -> Image:
        """Run `MetadataStore.commit`, inside `exclusive`. Raises ApiError KAFKA_STORAGE_ERROR."""

    async def in_slices(self, steps: Steps[Result], *, to_the_end: bool = False) -> Result:
        """Return the result of `steps`, and yield to other tasks whenever some of them take long.

        `to_the_end`: finish all steps even if the task is cancelled.
        """

    def to_the_end(self) -> AbstractContextManager[object]:
        """Let the block finish even if the task is cancelled."""

    async def history(self, wanted: AuditFilter) -> list[AuditRow]:
        """Run `MetadataStore.history`, outside `exclusive`, and wait for it."""


class Control:
    """`image` is the current metadata image with the quotas in force now, `config` the configuration with its
    dynamic settings; both are replaced, never modified. `configuration` is that of the start. `live`
    registers listeners for settings.
    """

    def __init__(
        self, image: Image, configuration: Configuration, committer: Committer, wall_ms: Callable[[], int]
    ) -> None:
        """`image` is the store's, `wall_ms` returns the wall clock. Raises ConfigError if the image's dynamic
        settings conflict with the configuration.
        """
        self.on_temporary_limits: Callable[[], None] = lambda: None
        """Called after a change of temporary limits, for the task that calls `switch_limits`."""
        self.wall_ms = wall_ms
        self._in_force = QuotasInForce(image, wall_ms)
        self.image = self._in_force.of(image)
        self._preparing: list[Subscriber] = []
        self._subscribers: list[Subscriber] = [self._listen]
        self.configuration = configuration
        self._committer = committer
        node_id = configuration.config.broker.node_id
        self.live = DynamicConfig(configuration.with_dynamic(image.dynamic_configs(node_id)))
        self._planners = dict(PLANNERS)
        self._operations: dict[type, tuple[Operation, Callable[[Any], bool]]] = {}

    def add_operation(
        self,
        command: type[Command[Result]],
        operation: Operation,
        concerns: Callable[[Any], bool] = lambda _command: True,
    ) -> None:
        """Register the operation that a command runs. Those that it does not concern are planned."""
        self._operations[command] = operation, concerns

    def add_planner(
        self,
        command: type[Command[Result]],
        planner: Callable[[Any, Situation], Plan[Result] | Steps[Plan[Result]]],
    ) -> None:
        """Register a planner of a command about state outside the metadata, such as connections, or in place
        of another one.
        """
        self._planners[command] = planner

    @property
    def config(self) -> BrokerConfig:
        return self.live.config

    def prepare(self, subscriber: Subscriber) -> None:
        """As `subscribe`, but before `image` is replaced: for what must exist before a client can see it."""
        self._preparing.append(subscriber)

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call `subscriber(old, new, delta)` after each commit and before its response. `config` and its
        listeners are up to date by then.
        """
        self._subscribers.append(subscriber)

    async def apply(self, command: Command[Result], actor: Actor) -> Result:
        """Run `command` and return its result.

        Commands with entries report every refusal per entry, including missing roles and a full disk; others
        raise ApiError. If cancelled before the commit, nothing has changed; a started commit is finished and
        published.
        """
        if isinstance(command, Undo):
            return cast(Result, await self._undo(command, actor))
        operation, concerns = self._operations.get(type(command), (None, None))
        if operation is not None and concerns is not None and concerns(command):
            return await self._operate(operation, command, actor)
        async with self._committer.exclusive():
            return await self._carry_out(command, actor)

    async def _operate(self, operation: Operation, command: Command[Result], actor: Actor) -> Result:
        """Run an operation and write its notes. Other changes can happen meanwhile.

        Raises ApiError KAFKA_STORAGE_ERROR if the notes cannot be written; the work is then done.
        """
        done = await operation(command, self._situation(actor))
        if done.notes:
            with self._committer.to_the_end():
                async with self._committer.exclusive():
                    delta = await self._committer.in_slices(Delta.in_steps(done.notes, actor))
                    try:
                        image = await self._committer.commit(done.notes, actor)
                    except ApiError as error:
                        named = ", ".join(f"{note.key} {note.entity}: {note.new}" for note in done.notes)
                        raise ApiError(
                            error.code, f"The audit trail cannot be written ({error.message}), but: {named}"
                        ) from error
                    await self._publish(image, delta)
        result: Result = done.result
        return result

    def _situation(self, actor: Actor) -> Situation:
        return Situation(self.image, self.configuration, self.config, actor, self.live.check, self.wall_ms())

    async def _carry_out(self, command: Command[Result], actor: Actor) -> Result:
        at = self._situation(actor)
        planned: Plan[Result] | Steps[Plan[Result]] = self._planners[type(command)](command, at)
        plan = planned if isinstance(planned, Plan) else await self._committer.in_slices(planned)
        if plan.changes:
            delta = await self._committer.in_slices(Delta.in_steps(plan.changes, actor))
            try:
                image = await self._committer.commit(plan.changes, actor)
            except ApiError as error:
                refused: Result = _with_write_error(plan.result, error)
                return refused
            del at, planned  # they refer to the old image, which is freed in slices
            await self._publish(image, delta)
            if delta.topics or delta.broker_configs:
                await self._committer.in_slices(warn_of_inert_changes(plan.changes), to_the_end=True)
            done: list[Any] = [*plan.changes, *delta.quotas]
            plan = Plan(plan.result, effects=plan.effects)
            del delta
            await self._committer.in_slices(freed(done), to_the_end=True)
        for effect in plan.effects:
            effect()
        return plan.result

    async def _publish(self, image: Image, delta: Delta) -> None:
        """Publish a durable change, even if the caller is cancelled. If a subscriber fails, the process
        exits: otherwise it would serve a state that differs from the metadata.

        `image` is the store's.
        """
        with self._committer.to_the_end():
            found = await self._committer.in_slices(self._in_force.publish(image, delta), to_the_end=True)
            await self._publish_in_force(*found)
        if delta.temporary_quotas:
            self.on_temporary_limits()

    @property
    def has_temporary_limits(self) -> bool:
        """Whether `switch_limits` must be called."""
        return self._in_force.has_temporary

    @property
    def next_switch_ms(self) -> int | None:
        """When a temporary limit begins or ends next, by the wall clock; None: none does."""
        return self._in_force.next_change_ms

    async def switch_limits(self) -> None:
        """Let temporary limits begin and end that do so by now. Call at `next_switch_ms`, and every few
        seconds, in case the wall clock is set.
        """
        if not self._in_force.is_due():
            return
        async with self._committer.exclusive_here():
            with self._committer.to_the_end():
                found = await self._committer.in_slices(self._in_force.switch(self.image), to_the_end=True)
                if found is not None:
                    await self._publish_in_force(*found)

    async def _publish_in_force(self, image: Image, delta: Delta) -> None:
        try:
            await self._committer.in_slices(self._replace(image, delta), to_the_end=True)
        except Exception as error:
            raise FatalExitError(
                f"a committed metadata change could not be applied: {type(error).__name__}: {error}"
            ) from error

    def _replace(self, image: Image, delta: Delta) -> Steps[None]:
        """Replace the current image and call all subscribers with it, in steps: other tasks can see a partial
        result. Each step ends after a change to one entity; the image is replaced within one step. The last
        steps free what only the old image has.
        """
        old = self.image
        for subscriber in self._preparing:
            yield from subscriber(old, image, delta) or ()
        self.image = image
        for subscriber in self._subscribers:
            yield from subscriber(old, image, delta) or ()
        yield
        replaced = _changed_entries(old, delta)
        yield
        del old
        yield from freed(replaced)

    def check_adoptable(self, changes: Sequence[Change]) -> None:
        """Raise ConfigError if `adopt` cannot put these changes into force, as far as they concern the
        configuration of this process.
        """
        configs = {name: dict(found) for name, found in self.image.broker_configs.items()}
        is_concerned = False
        for change in changes:
            if change.kind is ChangeKind.BROKER_CONFIG:
                is_concerned = True
                found = configs.setdefault(change.entity, {})
                if change.new is None:
                    found.pop(change.key, None)
                else:
                    found[change.key] = change.new
        if is_concerned:
            own = configs.get(str(self.configuration.config.broker.node_id), {})
            run_through(self.live.check(self.configuration.with_dynamic({**configs.get("", {}), **own})))

    async def adopt(self, image: Image, changes: Sequence[Change], actor: Actor) -> None:
        """Publish a change that the committer found in the log that it follows, and that it has stored.

        The committer calls this inside `exclusive`, before the next change.
        """
        await self._publish(image, await self._committer.in_slices(Delta.in_steps(changes, actor)))

    async def _undo(self, command: Undo, actor: Actor) -> EntryOutcome:
        rows = await self._committer.history(AuditFilter(seq=command.seq))
        if not rows:
            return EntryOutcome(ErrorCode.RESOURCE_NOT_FOUND, f"There is no change with number {command.seq}")
        before = await self._committer.history(preceding_rows(rows[0]))
        async with self._committer.exclusive():
            try:
                inverse = inverse_of(
                    rows[0], before, self.image, self.wall_ms(), validate_only=command.validate_only
                )
                result = await self._carry_out(inverse, actor)
            except ApiError as error:
                return EntryOutcome(error.code, error.message)
        outcome = result if isinstance(result, EntryOutcome) else result[0]
        return EntryOutcome(outcome.error, outcome.message)

    def _listen(self, _old: Image, new: Image, delta: Delta) -> Steps[None]:
        if delta.broker_configs:
            node_id = self.configuration.config.broker.node_id
            dynamic = new.dynamic_configs(node_id)
            yield from self.live.adopt((yield from self.configuration.with_dynamic_in_steps(dynamic)))


def _changed_entries(image: Image, delta: Delta) -> list[Any]:
    """Return the entries of `image` that a delta names; None in place of new ones."""
    return [
        *map(image.topics.get, delta.topics),
        *map(image.quotas.get, {each.entity for each in delta.quotas}),
        *map(image.client_metrics.get, delta.client_metrics),
        *map(image.scram.get, delta.scram),
        *map(image.delegation_tokens.get, delta.delegation_tokens),
        *(image.acls.get(each.acl) for each in delta.acls),
    ]


def _with_write_error(result: Any, error: ApiError) -> Any:
    """Return the result of a plan that could not be written: every successful entry failed."""
    match result:
        case list():
            return [_refused(each, error) if each.ok else each for each in result]
        case EntryOutcome():
            return _refused(result, error)
    raise error


def _refused(outcome: EntryOutcome, error: ApiError) -> EntryOutcome:
    return replace(outcome, error=error.code, message=error.message)


class Drainable(Protocol):
    """A gateway that can be drained. `gateway` is its id."""

    gateway: str

    @property
    def has_begun(self) -> bool: ...

    def begin(self) -> None:
        """Begin the drain. Does nothing the second time."""


def plan_drain(drained: Drainable, _command: DrainGateway, at: Situation) -> Plan[EntryOutcome]:
    """Drain the gateway, after the audit trail has recorded who began it."""
    refusal = at.refusal(Role.ADMIN, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if refusal is not None or drained.has_begun:
        return Plan(refusal or EntryOutcome())
    note = Change(ChangeKind.GATEWAY, drained.gateway, "drain", "begun")
    return Plan(EntryOutcome(), (note,), (drained.begin,))


class OpenConnections(Protocol):
    def client_of(self, connection_id: str) -> str | None:
        """Return the client id of an open connection; None if there is no such connection."""

    def close_connection(self, connection_id: str) -> None:
        """Close it and discard the responses of its requests in progress. No-op if it is already closed."""


def plan_close(connections: OpenConnections, command: CloseConnection, at: Situation) -> Plan[EntryOutcome]:
    """Close one connection, after the audit trail has recorded who closed it. The client can reconnect at
    once; use quotas to limit it.
    """
    refusal = at.refusal(Role.EDITOR, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if refusal is not None:
        return Plan(refusal)
    connection = command.connection_id
    client = connections.client_of(connection)
    if client is None:
        return Plan(EntryOutcome(ErrorCode.RESOURCE_NOT_FOUND, "There is no such open connection"))
    note = Change(ChangeKind.CONNECTION, connection, "closed", client)
    return Plan(EntryOutcome(), (note,), (partial(connections.close_connection, connection),))
