"""The trail of the fake broker: what was changed, and what can be put back. Part of tests.webui.fakes."""

import json

from msgspec.structs import replace

from broker.common.errors import ErrorCode
from broker.controller.commands import Actor, EntityPairs, EntryOutcome, Role, Undo
from broker.controller.rows.broker import AuditEntry
from broker.controller.rows.quotas import QuotaRow
from broker.views.metadata import AuditFilter
from tests.webui.rows import change


class FakeTrail:
    """Its rules are in `rows`, what was changed in `trail`, the oldest first."""

    rows: dict[EntityPairs, QuotaRow]
    trail: list[AuditEntry]
    version: int
    now_ms: int

    def set(
        self,
        entity: EntityPairs,
        limits: dict[str, float | None],
        by: str = "root",
        at_ms: int = 0,
        shadow: bool | None = None,
    ) -> None:
        raise NotImplementedError

    async def audit(self, query: AuditFilter) -> list[AuditEntry]:
        found = [
            row
            for row in (self.trail if query.oldest_first else reversed(self.trail))
            if (query.seq is None or row.seq == query.seq)
            and (query.before_seq is None or row.seq < query.before_seq)
            and (query.after_seq is None or row.seq > query.after_seq)
            and query.kind in (None, row.kind)
            and query.origin in (None, row.origin)
            and query.not_origin != row.origin
            and query.actor in (None, row.actor)
            and query.entity in (None, row.entity)
            and query.reads in (None, row.kind == "records" and row.key == "read")
            and (query.search or "").lower() in f"{row.entity} {row.key} {row.actor} {row.address}".lower()
        ]
        return [replace(row, final=self._final(row)) for row in found[: query.limit]]

    def _final(self, row: AuditEntry) -> str | None:
        if row.kind == "acl":
            return None
        if row.kind != "client-quota" or row.key == "shadow":
            return f"A change of kind {row.kind} cannot be undone"
        limits = self.rows.get(tuple((kind, name) for kind, name in json.loads(row.entity)))
        value = None if limits is None else limits.value(row.key)
        is_so = value == (None if row.new is None else float(row.new))
        return None if is_so else "The value has been changed since"

    def _undo(self, command: Undo, actor: Actor) -> EntryOutcome:
        if actor.role < Role.EDITOR:
            return EntryOutcome(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "This needs the role editor.")
        row = next((row for row in self.trail if row.seq == command.seq), None)
        if row is None:
            return EntryOutcome(ErrorCode.RESOURCE_NOT_FOUND, f"There is no change {command.seq}")
        if (final := self._final(row)) is not None:
            known = row.kind == "client-quota"
            error = ErrorCode.INVALID_UPDATE_VERSION if known else ErrorCode.INVALID_REQUEST
            return EntryOutcome(error, final)
        if row.kind == "acl":
            if not command.validate_only:
                self.version += 1
                back = replace(row, seq=len(self.trail) + 1, actor=actor.name, old=row.new, new=row.old)
                self.trail.append(back)
            return EntryOutcome()
        if not command.validate_only:
            entity = tuple((kind, name) for kind, name in json.loads(row.entity))
            self._write(entity, {row.key: None if row.old is None else float(row.old)}, actor)
        return EntryOutcome()

    def _write(
        self,
        entity: EntityPairs,
        limits: dict[str, float | None],
        actor: Actor,
        shadow: bool | None = None,
    ) -> None:
        """Add a change to the trail."""
        before = self.rows.get(entity)
        self.version += 1
        for key, value in limits.items():
            old = None if before is None else before.value(key)
            self.trail.append(
                change(
                    len(self.trail) + 1,
                    actor,
                    entity=json.dumps(entity),
                    key=key,
                    old=None if old is None else f"{old:g}",
                    new=None if value is None else f"{value:g}",
                    time_ms=self.now_ms,
                )
            )
        self.set(entity, limits, by=actor.name, shadow=shadow)
