"""Quotas as a file: what is there, what a file would have, and what lies between. (weir quotas export,
plan, apply)

Used by webui.rest.quota_files. A file lists entities with all of their limits, so a limit that it leaves
out of an entity is to go, and so is the mark of shadow mode; entities that it leaves out are left alone
unless it is to be the whole truth.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from broker.control.commands import EntityPairs, QuotaAlteration, QuotaOp
from broker.control.views import QuotaRow
from webui.quotas.entities import in_words, json_of, order_of, pairs_of


@dataclass(frozen=True, slots=True)
class Wanted:
    """All that a file says of one entity."""

    limits: Mapping[str, float] = field(default_factory=dict)
    shadow: bool = False


@dataclass(frozen=True, slots=True)
class Difference:
    """One limit that is to change; `old` None: there is none, `new` None: it goes."""

    entity: EntityPairs
    key: str
    old: float | None
    new: float | None


@dataclass(frozen=True, slots=True)
class Differences:
    """What has to change, by entity in the order of `document`: limits, and whether they are only measured
    from now on. An entity that goes takes its mark along.
    """

    limits: tuple[Difference, ...]
    shadows: Mapping[EntityPairs, bool]

    def __bool__(self) -> bool:
        return bool(self.limits or self.shadows)


def document(rows: Iterable[QuotaRow]) -> Iterator[dict[str, Any]]:
    """The entries of the whole of it, made as they are taken, in the order of `rows`: that of `order_of` is
    one that stays.
    """
    return (
        {"entity": json_of(row.entity), "limits": {each.key: _plain(each.value) for each in row.limits}}
        | ({"shadow": True} if row.shadow else {})
        for row in rows
    )


def wanted_by(listed: Sequence[Mapping[str, Any]]) -> dict[EntityPairs, Wanted]:
    """Raises ValueError naming the entity that is listed twice."""
    wanted: dict[EntityPairs, Wanted] = {}
    for entry in listed:
        entity = pairs_of(entry["entity"])
        if entity in wanted:
            raise ValueError(f"{in_words(entity)} is listed twice")
        wanted[entity] = Wanted(entry["limits"], entry.get("shadow", False))
    return wanted


def differences(
    wanted: Mapping[EntityPairs, Wanted], rows: Sequence[QuotaRow], *, prune: bool
) -> Differences:
    """`prune`: what is not wanted goes."""
    there = {row.entity: Wanted({each.key: each.value for each in row.limits}, row.shadow) for row in rows}
    entities = {*wanted, *there} if prune else set(wanted)
    limits: list[Difference] = []
    shadows: dict[EntityPairs, bool] = {}
    for entity in sorted(entities, key=order_of):
        old, new = there.get(entity, Wanted()), wanted.get(entity, Wanted())
        limits += [
            Difference(entity, key, old.limits.get(key), new.limits.get(key))
            for key in sorted({*old.limits, *new.limits})
            if old.limits.get(key) != new.limits.get(key)
        ]
        if entity in wanted and old.shadow is not new.shadow:
            shadows[entity] = new.shadow
    return Differences(tuple(limits), shadows)


def alterations(changes: Differences, rows: Sequence[QuotaRow]) -> list[QuotaAlteration]:
    """One for each entity, about the version that was looked at: what somebody else has changed since is not
    overwritten.
    """
    versions = {row.entity: row.version for row in rows}
    ops: dict[EntityPairs, list[QuotaOp]] = {entity: [] for entity in changes.shadows}
    for change in changes.limits:
        ops.setdefault(change.entity, []).append(QuotaOp(change.key, change.new))
    return [
        QuotaAlteration(entity, tuple(ops[entity]), versions.get(entity, 0), changes.shadows.get(entity))
        for entity in sorted(ops, key=order_of)
    ]


def _plain(value: float) -> float:
    """Whole numbers as people write them."""
    return int(value) if value.is_integer() else value
