"""What every kind of event has in common. For the files beside it and the writer."""

import json
from collections.abc import Iterator
from typing import Final, Protocol

from broker.metadata.changes import EntityPairs
from broker.metadata.image import OUR_TOPICS

VERSION: Final = 1
"""Of most formats, as `v` in every record: a reader need not guess. Fields may be added to a version."""


class Source(Protocol):
    """Collects events of one kind. `left_out` counts those that there was no row for."""

    topic: str
    left_out: int

    def take(self, time_ms: int) -> Iterator[bytes]:
        """The values of the records that cover the time since the last call, which ends now."""


def topic_of(kind: str) -> str:
    """`kind` as in events.topics."""
    return OUR_TOPICS + kind


def encode(time_ms: int, fields: dict[str, object], version: int = VERSION) -> bytes:
    """One record's value: JSON, with the end of the time that it covers."""
    return json.dumps(
        {"v": version, "time_ms": time_ms, **fields}, separators=(",", ":"), ensure_ascii=False
    ).encode("utf-8", "replace")


def entity_of(pairs: EntityPairs) -> dict[str, str | None]:
    """A quota entity as an object; null is the default."""
    return dict(pairs)
