"""A snapshot of every quota rule, in parts, so that a reader of the topic needs no earlier records.

Used by `quota_changes`. The parts of a snapshot share a random name. Readers must ignore a snapshot with a
missing part, which occurs if the broker is killed or a record is dropped; another one follows.
"""

import secrets
from collections.abc import Iterator
from itertools import chain
from typing import Final

from broker.events.source import encode, entity_of
from broker.metadata.image import Image, QuotaEntry

VERSION: Final = 2
"""The version of quota changes and snapshots. Version 1 has no `event`, no shadow marks and no snapshots, and
calls the field `origin` "door".
"""

PARTS: Final = 1_000
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

    def again(self) -> None:
        """Schedule another snapshot, because records of the topic were lost."""
        self._wait_ms = RETRY_MS

    def take(self, image: Image, time_ms: int, most: int) -> Iterator[bytes]:
        """Yield the next parts, at most `most`; a snapshot that starts here is of `image`."""
        if self._repeat_ms is None:
            return iter(())
        if self._parts is None and self._is_due(time_ms):
            self._started_ms, self._wait_ms = time_ms, self._repeat_ms
            self._parts = _parts(image, time_ms)
        return iter(()) if self._parts is None else self._slice(self._parts, min(most, PARTS))

    def _is_due(self, time_ms: int) -> bool:
        """Return whether a snapshot is due; also if the clock was set back."""
        return self._started_ms is None or not 0 <= time_ms - self._started_ms < self._wait_ms

    def _slice(self, parts: Iterator[bytes], most: int) -> Iterator[bytes]:
        size = 0
        for _ in range(most):
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
            fields["entity"] = entity_of(entry.entity)
            fields["limits"] = {key: limit.value for key, limit in entry.limits.items()}
            fields["shadow"] = entry.shadow
        yield encode(time_ms, fields, VERSION)
