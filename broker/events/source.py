"""Definitions that all kinds of event share. For the modules beside it and the writer."""

import json
from collections.abc import Iterator
from typing import Final, Protocol

VERSION: Final = 1
"""The version of most formats, `v` in every record. New fields do not change the version."""


class Source(Protocol):
    """Collects events of one kind. `left_out` counts the events that exceeded the maximum number of rows."""

    topic: str
    left_out: int

    def take(self, time_ms: int) -> Iterator[bytes]:
        """Return the values of the records for the time since the last call, which ends at `time_ms`."""


def encode(time_ms: int, fields: dict[str, object], version: int = VERSION) -> bytes:
    """Return a record's value: JSON with the end of its interval."""
    return json.dumps(
        {"v": version, "time_ms": time_ms, **fields}, separators=(",", ":"), ensure_ascii=False
    ).encode("utf-8", "replace")
