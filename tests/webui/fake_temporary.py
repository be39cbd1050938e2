"""The temporary limits of the fake broker, over the permanent ones in `rows`. Part of tests.webui.fakes."""

from broker.common.errors import ErrorCode
from broker.common.temporary_limits import BadTimes, TemporaryLimit, check_times
from broker.controller.commands import EntityPairs, QuotaAlteration, QuotaOutcome
from broker.controller.rows.quotas import QuotaLimit, QuotaRow, TemporaryQuota


class FakeTemporary:
    rows: dict[EntityPairs, QuotaRow]
    temporaries: dict[EntityPairs, dict[str, tuple[TemporaryLimit, str]]]
    version: int
    now_ms: int

    def _refused_times(self, entry: QuotaAlteration) -> QuotaOutcome | None:
        for op in entry.temporary:
            if op.limit is not None:
                try:
                    check_times(op.limit, self.now_ms)
                except BadTimes as error:
                    message = f"{op.key}: {error}"
                    return QuotaOutcome(ErrorCode.INVALID_REQUEST, message, entry.entity)
        return None

    def _set_temporary(self, entry: QuotaAlteration, by: str) -> None:
        of_entity = self.temporaries.setdefault(entry.entity, {})
        for op in entry.temporary:
            self.version += 1
            if op.limit is None:
                of_entity.pop(op.key, None)
            else:
                of_entity[op.key] = op.limit, by
        if not of_entity:
            del self.temporaries[entry.entity]

    def in_force(self) -> list[QuotaRow]:
        """Return the rows as the broker shows them now."""
        return [self._in_force(entity) for entity in dict.fromkeys([*self.rows, *self.temporaries])]

    def _in_force(self, entity: EntityPairs) -> QuotaRow:
        row = self.rows.get(entity) or QuotaRow(entity, (), self.version, self.now_ms, "root")
        limits, temporary = {limit.key: limit for limit in row.limits}, []
        for key, (limit, by) in self.temporaries.get(entity, {}).items():
            change = limit.next_change(self.now_ms)
            is_active = limit.is_active(self.now_ms)
            left = None if change is None else -((self.now_ms - change) // 1000)
            permanent = row.value(key)
            temporary.append(TemporaryQuota(key, limit, permanent, is_active, change, left, self.now_ms, by))
            if is_active:
                limits[key] = QuotaLimit(key, limit.value, None, 0, self.now_ms, by)
        changed = self.version if temporary else row.version, row.changed_at_ms, row.changed_by
        return QuotaRow(entity, tuple(limits.values()), *changed, row.shadow, tuple(temporary))
