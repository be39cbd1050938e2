"""Changes of quota limits and of shadow mode, with their origin, and snapshots of all rules.

`Control` reports changes after each commit of the metadata; these events are never aggregated. A snapshot of
every quota rule, in parts, lets a reader of the topic do without earlier records. The parts of a snapshot
share a random name. Readers must ignore a snapshot with a missing part, which occurs if the broker is killed
or a record is dropped; another one follows.
"""

import secrets
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Final

from broker.metadata.actor import Actor
from broker.metadata.changes import Delta, EntityPairs
from broker.metadata.image import OUR_TOPICS, Image, QuotaEntry
from broker.monitoring.events.activity import Event, encode

VERSION: Final = 2
"""The version of quota changes and snapshots. Version 1 has no `event`, no shadow marks and no snapshots, and
calls the field `origin` "door".
"""

KEY: Final = b"quotas"
"""One key for all, because a reader needs changes and snapshots in their order."""

MAX_PARTS: Final = 1_000
"""The maximum number of parts in one second."""

SLICE_BYTES: Final = 256 * 1024
"""The size of the parts of one second; the part that exceeds it is the last. Equals the event log's write
size.
"""

DAY_MS: Final = 86_400_000
RETRY_MS: Final = 60_000
"""Minimum interval before the snapshot that follows a possibly incomplete one."""


class QuotaSnapshots:
    """The state of the snapshots. Off until `begin`. Times are wall-clock, in milliseconds."""

    def __init__(self) -> None:
        self._repeat_ms: int | None = None
        self._wait_ms = 0
        self._started_ms: int | None = None
        self._parts: Iterator[bytes] | None = None

    def begin(self, retention_ms: int) -> None:
        """Schedule a snapshot now, and again before retention deletes it; -1 means no deletion."""
        half = max(retention_ms // 2, RETRY_MS)
        self._repeat_ms = DAY_MS if retention_ms < 0 else min(DAY_MS, half)
        self._started_ms = self._parts = None

    def end(self) -> None:
        self._repeat_ms = self._started_ms = self._parts = None

    def repeat_soon(self) -> None:
        """Schedule another snapshot, because records of the topic were lost."""
        self._wait_ms = RETRY_MS

    def drain(self, image: Image, time_ms: int, max_rows: int) -> Iterator[bytes]:
        """Yield the next parts, at most `max_rows`; a snapshot that starts here is of `image`."""
        if self._repeat_ms is None:
            return iter(())
        if self._parts is None and self._is_due(time_ms):
            self._started_ms, self._wait_ms = time_ms, self._repeat_ms
            self._parts = _parts(image, time_ms)
        return iter(()) if self._parts is None else self._slice(self._parts, min(max_rows, MAX_PARTS))

    def _is_due(self, time_ms: int) -> bool:
        """Return whether a snapshot is due; also if the clock was set back."""
        return self._started_ms is None or not 0 <= time_ms - self._started_ms < self._wait_ms

    def _slice(self, parts: Iterator[bytes], max_rows: int) -> Iterator[bytes]:
        size = 0
        for _ in range(max_rows):
            part = next(parts, None)
            if part is None:
                if self._parts is parts:
                    self._parts = None
                return
            yield part
            size += len(part)
            if size >= SLICE_BYTES:
                return


def _parts(image: Image, time_ms: int) -> Iterator[bytes]:
    """Yield the parts. The maps of an image are immutable, so this may take many seconds."""
    common = {
        "event": "snapshot",
        "snapshot": secrets.token_hex(8),
        "parts": 1 + len(image.quotas),
        "version": image.version,
    }
    rules: Iterator[QuotaEntry | None] = chain((None,), image.quotas.values())
    for part, entry in enumerate(rules):
        fields: dict[str, object] = {**common, "part": part}
        if entry is not None:
            fields["entity"] = dict(entry.entity)
            fields["limits"] = {key: limit.value for key, limit in entry.limits.items()}
            fields["shadow"] = entry.shadow
        yield encode(time_ms, fields, VERSION)


class QuotaChangeEvents:
    """An `EventSource` with at most `max_rows` rows a second. Collects nothing before `begin`.

    `image` returns the current metadata image.
    """

    def __init__(self, max_rows: int, image: Callable[[], Image]) -> None:
        self.topic = OUR_TOPICS + "quota_changes"
        self.left_out = 0
        self._max_rows = max_rows
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
        """Stop collecting. Collected changes can still be drained; a snapshot is not continued."""
        self._is_on = False
        self._snapshots.end()

    def on_loss(self) -> None:
        """Write all rules again, because records of the topic were lost."""
        self._snapshots.repeat_soon()

    def on_metadata_update(self, old: Image, new: Image, delta: Delta) -> Iterator[None]:
        """Collect the quota changes of a commit. A subscriber of control; yields after each quota."""
        if not self._is_on:
            return
        for change in delta.quotas:
            fields = {
                "entity": dict(change.entity),
                "key": change.key,
                "old": _value(old, change.entity, change.key),
                "new": change.value,
            }
            self._add("limit", fields, delta.actor, new.version)
            yield
        for mark in delta.shadows:
            marked = {"entity": dict(mark.entity), "shadow": mark.is_shadow}
            self._add("shadow", marked, delta.actor, new.version)
            yield
        if self.topic in delta.topics and self.topic not in new.topics:
            self.on_loss()

    def drain(self, time_ms: int) -> Iterator[Event]:
        """Return the records; changes and snapshot reflect the same image."""
        rows, self._rows = self._rows, []
        parts = self._snapshots.drain(self._image(), time_ms, self._max_rows - len(rows))
        return (Event(KEY, value) for value in chain((encode(time_ms, row, VERSION) for row in rows), parts))

    def _add(self, event: str, fields: Mapping[str, object], actor: Actor, version: int) -> None:
        if len(self._rows) >= self._max_rows:
            self.left_out += 1
            return
        by = {"actor": actor.name, "role": actor.role.name.lower(), "address": actor.address}
        self._rows.append({"event": event, **fields, **by, "origin": actor.origin, "version": version})


def _value(image: Image, entity: EntityPairs, key: str) -> float | None:
    entry = image.quotas.get(entity)
    limit = None if entry is None else entry.limits.get(key)
    return None if limit is None else limit.value
