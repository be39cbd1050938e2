"""A topic in memory, and gateways' connections to it that can be slow, fail, or lie about an append."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import trio

from broker.gateway.sharing.topic_log import (
    LogLost,
    LogUnavailable,
    RecordTooLarge,
    TopicLogPage,
    TopicLogRecord,
)

LONGEST_WAIT_S = 5.0


class MemoryTopic:
    """One partition. `compact` keeps the last record of each key, `cut` removes those from an offset on."""

    def __init__(self) -> None:
        self.entries: list[TopicLogRecord] = []
        self.end = 0
        self._grown = trio.Event()

    def append(self, key: bytes, value: bytes | None) -> None:
        self.entries.append(TopicLogRecord(self.end, key, value))
        self.end += 1
        self._grown.set()
        self._grown = trio.Event()

    def cut(self, end: int) -> None:
        self.entries = [entry for entry in self.entries if entry.offset < end]
        self.end = end
        self._grown.set()
        self._grown = trio.Event()

    def compact(self) -> None:
        last = {entry.key: entry for entry in self.entries}
        self.entries = [entry for entry in self.entries if last[entry.key] is entry]

    async def wait_for(self, offset: int) -> None:
        while self.end == offset:
            await self._grown.wait()


@dataclass
class MemoryLog:
    """A `TopicLog`. `append_s` and `read_s` are the times that each takes; the record is in the log after
    half of `append_s`. A call fails after `timeout_s`, half of which a read may wait for a record. While
    `is_away` every call fails, while `is_unreadable` all but appends. The next `lost` appends raise, and so
    do the next `unsure`, whose records are in the log.
    """

    topic: MemoryTopic
    append_s: float = 0.0
    read_s: float = 0.0
    timeout_s: float = math.inf
    is_away: bool = False
    is_unreadable: bool = False
    unsure: int = 0
    lost: int = 0
    max_bytes: int = 1_000_000
    appends: int = 0

    async def append(self, key: bytes, value: bytes | None) -> None:
        with self._limit(self.timeout_s):
            await self._append(key, value)

    async def _append(self, key: bytes, value: bytes | None) -> None:
        await trio.sleep(self.append_s / 2)
        self._check()
        self.appends += 1
        if value is not None and len(value) > self.max_bytes:
            raise RecordTooLarge(f"{len(value)} bytes")
        if self.lost:
            self.lost -= 1
            raise LogUnavailable("lost")
        self.topic.append(key, value)
        if self.unsure:
            self.unsure -= 1
            raise LogUnavailable("no response")
        await trio.sleep(self.append_s / 2)

    async def read(self, offset: int) -> TopicLogPage:
        self._check_readable()
        with self._limit(self.timeout_s):
            with trio.move_on_after(min(LONGEST_WAIT_S, self.timeout_s / 2)):
                await self.topic.wait_for(offset)
            await trio.sleep(self.read_s)
        self._check_readable()
        if offset > self.topic.end:
            raise LogLost("the log ends before the offset")
        found = tuple(entry for entry in self.topic.entries if entry.offset >= offset)
        return TopicLogPage(found, max(self.topic.end, offset))

    async def end(self) -> int:
        await trio.sleep(self.read_s)
        self._check_readable()
        return self.topic.end

    @contextmanager
    def _limit(self, seconds: float) -> Iterator[None]:
        with trio.move_on_after(seconds) as scope:
            yield
        if scope.cancelled_caught:
            raise LogUnavailable(f"no response within {seconds} s")

    def _check_readable(self) -> None:
        self._check()
        if self.is_unreadable:
            raise LogUnavailable("unreadable")

    def _check(self) -> None:
        if self.is_away:
            raise LogUnavailable("away")
