"""An in-memory metadata log for planners, and the real store behind a lock for `Control`."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Final, TypeVar

import trio

from broker.common.errors import ApiError
from broker.common.slices import Steps, run_through
from broker.config.load import load
from broker.controller.dynamic_config import DynamicConfig
from broker.controller.plan import Plan, Situation
from broker.metadata.actor import Actor, ChangeOrigin, Role
from broker.metadata.changes import AuditFilter, AuditRow, Change
from broker.metadata.image import Image, Stamp, State, project
from broker.metadata.store import MetadataStore

AUTHORIZER: Final = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""The setting with which there are ACLs."""

Result = TypeVar("Result")
Planner = Callable[[Any, Situation], Plan[Result] | Steps[Plan[Result]]]


def actor(role: Role = Role.ADMIN, name: str = "ann", origin: ChangeOrigin = ChangeOrigin.REST) -> Actor:
    return Actor(name, role, "10.0.0.1", origin)


class World:
    """Plans and commits at once. `overrides` are `key=value` of the broker's configuration."""

    def __init__(self, *overrides: str) -> None:
        self.configuration = load(None, overrides, {})
        self.live = DynamicConfig(self.configuration.config)
        self.image = Image()
        self._state: State = {}
        self.origin = ChangeOrigin.REST
        self.wall_ms = 0

    def at(self, role: Role = Role.ADMIN) -> Situation:
        config = self.live.config = self.configuration.with_dynamic(self.image.dynamic_configs(1))
        return Situation(
            self.image,
            self.configuration,
            config,
            actor(role, origin=self.origin),
            self.live.check,
            self.wall_ms,
        )

    def plan(
        self,
        planner: Planner[Result],
        command: object,
        role: Role = Role.ADMIN,
    ) -> Plan[Result]:
        made = planner(command, self.at(role))
        return made if isinstance(made, Plan) else run_through(made)

    def do(
        self,
        planner: Planner[Result],
        command: object,
        role: Role = Role.ADMIN,
    ) -> Result:
        plan = self.plan(planner, command, role)
        self.write(plan.changes)
        return plan.result

    def write(self, changes: Sequence[Change]) -> None:
        version = self.image.version
        for change in changes:
            version += 1
            stamps = self._state.setdefault((change.kind.value, change.entity), {})
            stamps[change.key] = Stamp(change.new, version, 1_000 + version, "ann")
        touched = [(change.kind.value, change.entity) for change in changes]
        self.image = project(self.image, self._state, touched, version)


class StoreCommitter:
    """A `Committer` with the real store, without a thread. The next commits raise `fault`."""

    def __init__(self, store: MetadataStore) -> None:
        self.store = store
        self.fault: ApiError | None = None
        self.commits = 0
        self._lock = trio.Lock()

    def exclusive(self) -> AbstractAsyncContextManager[object]:
        return self._lock

    def exclusive_here(self) -> AbstractAsyncContextManager[object]:
        return self._lock

    async def commit(self, changes: Sequence[Change], actor: Actor) -> Image:
        await trio.lowlevel.checkpoint()
        assert self._lock.locked()
        if self.fault is not None:
            raise self.fault
        self.commits += 1
        return self.store.commit(changes, actor, 1_000 * self.commits)

    async def in_slices(self, steps: Steps[Result], *, to_the_end: bool = False) -> Result:
        await trio.lowlevel.checkpoint_if_cancelled()
        return run_through(steps)

    def to_the_end(self) -> AbstractContextManager[object]:
        return trio.CancelScope(shield=True)

    async def history(self, wanted: AuditFilter) -> list[AuditRow]:
        async with self._lock:
            return self.store.history(wanted)
