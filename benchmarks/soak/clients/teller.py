"""What a client process tells the soak: one JSON array a line, each written by one call, in order.

| line | meaning |
| --- | --- |
| `["sending", topic, number]` | records below this number may be sent from now on |
| `["acknowledged", topic, partition, offset, number]` | the broker has it; offset -1: somewhere |
| `["begin", topic, numbers]` | a transaction with these records begins |
| `["commit", topic, [[partition, offset, number], ...]]` | its commit was acknowledged |
| `["abort", topic]` | its abort was acknowledged |
| `["delivered", group, topic, partition, [[first, after], ...]]` | a member was given these runs of offsets |
| `["committed", group, [[topic, partition, offset], ...]]` | the broker has acknowledged these offsets |
| `["error", seconds of the monotonic clock, source, text]` | the client failed or complained |
| `["closing"]` | the client is told to close now, and nothing else follows |

A line is written before what depends on it: "delivered" before a commit of these offsets, "begin" before the
first record. So a process that is killed at any moment has told the soak enough.
"""

import json
import os
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any


class Teller:
    """Writes to a descriptor. Its methods may be called from any thread."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def sending(self, topic: str, number: int) -> None:
        self._tell("sending", topic, number)

    def acknowledged(self, topic: str, partition: int, offset: int | None, number: int) -> None:
        self._tell("acknowledged", topic, partition, -1 if offset is None else offset, number)

    def begin(self, topic: str, numbers: list[int]) -> None:
        self._tell("begin", topic, numbers)

    def commit(self, topic: str, acknowledged: list[tuple[int, int, int]]) -> None:
        """Tell the end of a transaction; `acknowledged` has partition, offset and number of each record."""
        self._tell("commit", topic, acknowledged)

    def abort(self, topic: str) -> None:
        self._tell("abort", topic)

    def delivered(self, group: str, offsets: Mapping[tuple[str, int], list[int]]) -> None:
        """Tell the offsets that a member was given, by topic and partition, each in ascending order."""
        for (topic, partition), several in offsets.items():
            self._tell("delivered", group, topic, partition, runs(several))

    def committed(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        self._tell("committed", group, [[*place, offset] for place, offset in offsets.items()])

    def error(self, source: str, error: object) -> None:
        text = str(error) or repr(error)
        self._tell("error", time.monotonic(), source, text.splitlines()[0])

    def closing(self) -> None:
        self._tell("closing")

    def _tell(self, *line: Any) -> None:
        rest = memoryview(json.dumps(line, separators=(",", ":")).encode() + b"\n")
        with self._lock:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]


def runs(offsets: Iterable[int]) -> list[tuple[int, int]]:
    """Return the first offset of each run without a gap, and the offset after its last one."""
    found: list[tuple[int, int]] = []
    for offset in offsets:
        if found and found[-1][1] == offset:
            found[-1] = found[-1][0], offset + 1
        else:
            found.append((offset, offset + 1))
    return found
