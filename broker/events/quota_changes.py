"""Which limits were set and removed, from what to what, by whom and through which door. Told after each
commit of the metadata; none of these is ever added up.
"""

from collections.abc import Iterator

from broker.events.source import encode, entity_of, topic_of
from broker.metadata.changes import Delta, EntityPairs
from broker.metadata.image import Image


class QuotaChangeEvents:
    """A `Source`, with room for `most` rows a second."""

    def __init__(self, most: int) -> None:
        self.topic = topic_of("quota_changes")
        self.left_out = 0
        self._most = most
        self._rows: list[dict[str, object]] = []

    def follow(self, old: Image, new: Image, delta: Delta) -> None:
        """A subscriber of control."""
        for change in delta.quotas:
            if len(self._rows) >= self._most:
                self.left_out += 1
                continue
            self._rows.append(
                {
                    "entity": entity_of(change.entity),
                    "key": change.key,
                    "old": _value(old, change.entity, change.key),
                    "new": change.value,
                    "actor": delta.actor.name,
                    "role": delta.actor.role.name.lower(),
                    "address": delta.actor.address,
                    "door": delta.actor.door,
                    "version": new.version,
                }
            )

    def take(self, time_ms: int) -> Iterator[bytes]:
        rows, self._rows = self._rows, []
        for row in rows:
            yield encode(time_ms, row)


def _value(image: Image, entity: EntityPairs, key: str) -> float | None:
    entry = image.quotas.get(entity)
    limit = None if entry is None else entry.limits.get(key)
    return None if limit is None else limit.value
