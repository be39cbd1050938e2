"""Changes of quota limits and of shadow mode, with their origin, and occasional snapshots of all rules.

Reported after each commit of the metadata; these events are never aggregated.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import chain

from broker.events.quota_snapshot import VERSION, QuotaSnapshots
from broker.events.source import encode, entity_of, topic_of
from broker.metadata.actor import Actor
from broker.metadata.changes import EntityPairs
from broker.metadata.image import Image
from broker.metadata.publisher import Delta


class QuotaChangeEvents:
    """A `Source` with at most `most` rows a second. Collects nothing before `begin`.

    `image` returns the current metadata image.
    """

    def __init__(self, most: int, image: Callable[[], Image]) -> None:
        self.topic = topic_of("quota_changes")
        self.left_out = 0
        self._most = most
        self._image = image
        self._rows: list[dict[str, object]] = []
        self._snapshots = QuotaSnapshots()
        self._is_on = False

    def begin(self, retention_ms: int) -> None:
        """Start collecting changes, and write all rules; `retention_ms` is the topic's retention."""
        if not self._is_on:
            self._is_on = True
            self._snapshots.begin(retention_ms)

    def end(self) -> None:
        """Stop collecting. Collected changes remain to be taken; a snapshot is not continued."""
        self._is_on = False
        self._snapshots.end()

    def lost(self) -> None:
        """Write all rules again, because records of the topic were lost."""
        self._snapshots.again()

    def follow(self, old: Image, new: Image, delta: Delta) -> Iterator[None]:
        """Collect the quota changes of a commit. A subscriber of control; yields after each quota."""
        if not self._is_on:
            return
        for change in delta.quotas:
            fields = {
                "entity": entity_of(change.entity),
                "key": change.key,
                "old": _value(old, change.entity, change.key),
                "new": change.value,
            }
            self._add("limit", fields, delta.actor, new.version)
            yield
        for mark in delta.shadows:
            marked = {"entity": entity_of(mark.entity), "shadow": mark.is_shadow}
            self._add("shadow", marked, delta.actor, new.version)
            yield
        if self.topic in delta.topics and self.topic not in new.topics:
            self.lost()

    def take(self, time_ms: int) -> Iterator[bytes]:
        """Return the records; changes and snapshot reflect the same image."""
        rows, self._rows = self._rows, []
        parts = self._snapshots.take(self._image(), time_ms, self._most - len(rows))
        return chain((encode(time_ms, row, VERSION) for row in rows), parts)

    def _add(self, event: str, fields: Mapping[str, object], actor: Actor, version: int) -> None:
        if len(self._rows) >= self._most:
            self.left_out += 1
            return
        by = {"actor": actor.name, "role": actor.role.name.lower(), "address": actor.address}
        self._rows.append({"event": event, **fields, **by, "origin": actor.origin, "version": version})


def _value(image: Image, entity: EntityPairs, key: str) -> float | None:
    entry = image.quotas.get(entity)
    limit = None if entry is None else entry.limits.get(key)
    return None if limit is None else limit.value
