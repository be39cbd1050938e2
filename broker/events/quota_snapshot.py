"""Every quota rule at one moment, in parts, so that a reader of the topic needs nothing from before it.

Used by `quota_changes`. Parts of one snapshot share a random name; a snapshot of which a part is missing, for
the broker was killed or a record was dropped, is to be ignored, and another one follows.
"""

import secrets
from collections.abc import Iterator
from itertools import chain
from typing import Final

from broker.events.source import encode, entity_of
from broker.metadata.image import Image, QuotaEntry

VERSION: Final = 2
"""Of these records: a reader that knows version 1 only must not take a part for a change."""

PARTS: Final = 1_000
"""In one second, at most."""

SLICE_BYTES: Final = 256 * 1024
"""Of the parts of one second; the part that exceeds it is the last. The event log writes as much at once."""

DAY_MS: Final = 86_400_000
RETRY_MS: Final = 60_000
"""From the start of a snapshot that may be incomplete in the topic to the next one, at least."""


class QuotaSnapshots:
    """Off until `begin`. Times are wall-clock, in milliseconds."""

    def __init__(self) -> None:
        self._repeat_ms: int | None = None
        self._wait_ms = 0
        self._started_ms: int | None = None
        self._parts: Iterator[bytes] | None = None

    def begin(self, retention_ms: int) -> None:
        """A snapshot is due now, and again before the topic drops it; -1: it drops nothing."""
        half = max(retention_ms // 2, RETRY_MS)
        self._repeat_ms = DAY_MS if retention_ms < 0 else min(DAY_MS, half)
        self._started_ms = self._parts = None

    def end(self) -> None:
        self._repeat_ms = self._started_ms = self._parts = None

    def again(self) -> None:
        """Records of the topic were lost: another snapshot follows."""
        self._wait_ms = RETRY_MS

    def take(self, image: Image, time_ms: int, most: int) -> Iterator[bytes]:
        """The next parts, at most `most`, encoded as they are asked for; a snapshot that begins here is of
        `image`.
        """
        if self._repeat_ms is None:
            return iter(())
        if self._parts is None and self._is_due(time_ms):
            self._started_ms, self._wait_ms = time_ms, self._repeat_ms
            self._parts = _parts(image, time_ms)
        return iter(()) if self._parts is None else self._slice(self._parts, min(most, PARTS))

    def _is_due(self, time_ms: int) -> bool:
        """A clock that was set back makes it due, too."""
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
    """The maps of an image are never edited, so this may go on for many seconds."""
    common = {
        "event": "snapshot",
        "snapshot": secrets.token_hex(8),
        "parts": 1 + len(image.quotas),
        "version": image.version,
    }
    rules: Iterator[QuotaEntry | None] = chain((None,), image.quotas.values())
    for part, entry in enumerate(rules):
        told: dict[str, object] = {**common, "part": part}
        if entry is not None:
            told["entity"] = entity_of(entry.entity)
            told["limits"] = {key: limit.value for key, limit in entry.limits.items()}
            told["shadow"] = entry.shadow
        yield encode(time_ms, told, VERSION)
