"""Quotas as a file: what is there, what a file would have, and what lies between. (weir quotas export,
plan, apply)

Used by webui.rest.quota_files. A file lists entities with all of their limits, so a limit that it leaves
out of an entity is to go; entities that it leaves out are left alone unless it is to be the whole truth.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from broker.control.commands import EntityPairs, QuotaAlteration, QuotaOp
from broker.control.views import QuotaRow
from webui.quotas.entities import json_of, order_of, pairs_of


@dataclass(frozen=True, slots=True)
class Difference:
    """One limit that is to change; `old` None: there is none, `new` None: it goes."""

    entity: EntityPairs
    key: str
    old: float | None
    new: float | None


def document(rows: Iterable[QuotaRow]) -> dict[str, Any]:
    """The whole of it, in an order that stays."""
    return {
        "quotas": [
            {"entity": json_of(row.entity), "limits": {each.key: _plain(each.value) for each in row.limits}}
            for row in sorted(rows, key=lambda row: order_of(row.entity))
        ]
    }


def wanted_by(listed: Sequence[Mapping[str, Any]]) -> dict[EntityPairs, Mapping[str, float]]:
    """Limits by entity. Raises ValueError naming the entity that is listed twice."""
    wanted: dict[EntityPairs, Mapping[str, float]] = {}
    for entry in listed:
        entity = pairs_of(entry["entity"])
        if entity in wanted:
            raise ValueError(f"{json_of(entity)} is listed twice")
        wanted[entity] = entry["limits"]
    return wanted


def differences(
    wanted: Mapping[EntityPairs, Mapping[str, float]], rows: Sequence[QuotaRow], *, prune: bool
) -> list[Difference]:
    """What has to change, by entity in the order of `document`. `prune`: what is not wanted goes."""
    there = {row.entity: {each.key: each.value for each in row.limits} for row in rows}
    entities = {*wanted, *there} if prune else set(wanted)
    found = []
    for entity in sorted(entities, key=order_of):
        old, new = there.get(entity, {}), wanted.get(entity, {})
        found += [
            Difference(entity, key, old.get(key), new.get(key))
            for key in sorted({*old, *new})
            if old.get(key) != new.get(key)
        ]
    return found


def alterations(changes: Sequence[Difference], rows: Sequence[QuotaRow]) -> list[QuotaAlteration]:
    """One for each entity, about the version that was looked at: what somebody else has changed since is not
    overwritten.
    """
    versions = {row.entity: row.version for row in rows}
    ops: dict[EntityPairs, list[QuotaOp]] = {}
    for change in changes:
        ops.setdefault(change.entity, []).append(QuotaOp(change.key, change.new))
    return [QuotaAlteration(entity, tuple(each), versions.get(entity, 0)) for entity, each in ops.items()]


def _plain(value: float) -> float:
    """Whole numbers as people write them."""
    return int(value) if value.is_integer() else value
