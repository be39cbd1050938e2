"""Quota files: the current quotas, the desired ones, and the difference (weir quotas export, plan, apply).

Used by webui.rest.quota_files. A file lists entities with all of their limits, so limits and shadow mode
that it omits for a listed entity are removed; entities that it omits stay unchanged unless `prune` is set.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, TypeVar

from broker.control.commands import EntityPairs, QuotaAlteration, QuotaOp
from broker.control.views import QuotaRow
from webui.quotas.entities import in_words, json_of, order_of, pairs_of
from webui.tables.slices import gathered, in_order, outcome, sliced

Result = TypeVar("Result")
Steps = Generator[None, None, Result]
"""A generator for `webui.tables.slices.outcome`."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file's entry for one entity."""

    limits: Mapping[str, float] = field(default_factory=dict)
    shadow: bool = False


NOTHING: Final = Wanted()


@dataclass(frozen=True, slots=True)
class Difference:
    """One changed limit; `old` is None for a new limit, `new` is None for a removed one."""

    entity: EntityPairs
    key: str
    old: float | None
    new: float | None


@dataclass(frozen=True, slots=True)
class Differences:
    """The changes, by entity in the order of `document`: limits and shadow mode. Removing an entity also
    removes its shadow mark.
    """

    limits: list[Difference]
    shadows: Mapping[EntityPairs, bool]

    def __bool__(self) -> bool:
        return bool(self.limits or self.shadows)


def document(rows: Iterable[QuotaRow]) -> Iterator[dict[str, Any]]:
    """Yield a file's entries lazily, in the order of `rows`. Sort `rows` by `order_of` for a stable order."""
    return (
        {"entity": json_of(row.entity), "limits": {each.key: _plain(each.value) for each in row.limits}}
        | ({"shadow": True} if row.shadow else {})
        for row in rows
    )


def wanted_by(listed: Sequence[Mapping[str, Any]]) -> Steps[dict[EntityPairs, Wanted]]:
    """Parse a file's entries by entity. Raises ValueError for an entity that is listed twice."""
    wanted: dict[EntityPairs, Wanted] = {}
    for entry in listed:
        entity = pairs_of(entry["entity"])
        if entity in wanted:
            raise ValueError(f"{in_words(entity)} is listed twice")
        wanted[entity] = Wanted(entry["limits"], entry.get("shadow", False))
        yield
    return wanted


async def differences(
    wanted: Mapping[EntityPairs, Wanted], rows: Mapping[EntityPairs, QuotaRow], *, prune: bool
) -> Differences:
    """Compare current and desired quotas. With `prune`, unlisted entities are removed."""
    missing = (entity for entity in rows if entity not in wanted) if prune else ()
    entities = await in_order(chain(wanted, missing), order_of)
    return await outcome(_differences(entities, wanted, rows))


def _differences(
    entities: Sequence[EntityPairs],
    wanted: Mapping[EntityPairs, Wanted],
    rows: Mapping[EntityPairs, QuotaRow],
) -> Steps[Differences]:
    limits: list[Difference] = []
    shadows: dict[EntityPairs, bool] = {}
    for entity in entities:
        old, new = _there(rows.get(entity)), wanted.get(entity, NOTHING)
        limits += [
            Difference(entity, key, old.limits.get(key), new.limits.get(key))
            for key in sorted({*old.limits, *new.limits})
            if old.limits.get(key) != new.limits.get(key)
        ]
        if entity in wanted and old.shadow is not new.shadow:
            shadows[entity] = new.shadow
        yield
    return Differences(limits, shadows)


def _there(row: QuotaRow | None) -> Wanted:
    return NOTHING if row is None else Wanted({each.key: each.value for each in row.limits}, row.shadow)


async def alterations(
    changes: Differences, rows: Mapping[EntityPairs, QuotaRow]
) -> tuple[QuotaAlteration, ...]:
    """Return one edit for each entity, conditional on the version seen, so that concurrent changes are not
    overwritten.
    """
    ops: dict[EntityPairs, list[QuotaOp]] = {entity: [] for entity in changes.shadows}
    async with aclosing(sliced(changes.limits)) as slices:
        async for some in slices:
            for change in some:
                ops.setdefault(change.entity, []).append(QuotaOp(change.key, change.new))
    return tuple(
        await gathered(
            QuotaAlteration(
                entity, tuple(ops.pop(entity)), _version(rows.get(entity)), changes.shadows.get(entity)
            )
            for entity in await in_order(ops, order_of)
        )
    )


def _version(row: QuotaRow | None) -> int:
    return 0 if row is None else row.version


def _plain(value: float) -> float:
    """Return a whole number as int, so that JSON shows no fraction."""
    return int(value) if value.is_integer() else value
