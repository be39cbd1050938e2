"""The client of the worker process that reads the warehouse: one question at a time, with a cache.

Used by webui.rest.insights; `run` is a task of webui.serving, which ends the process after a minute without
questions. A cached answer is valid for ten seconds; after that it is read again only if the table has a new
version. Fifty browsers cost one read.
"""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any, Final

import msgspec
import trio

from webui.insights.location import inherited
from webui.problem import Problem

LONGEST_S: Final = 60.0
"""Timeout of an answer, including the wait for earlier questions."""

FRESH_S: Final = 10.0
STATE_FRESH_S: Final = 1.0
"""Short, because users reload after starting the pipeline, and reading only logs is fast."""

IDLE_S: Final = 60.0
MAX_CACHED_BYTES: Final = 16 << 20
MAX_CACHED: Final = 256
LONGEST_LINE: Final = 65_536
LARGEST_BODY: Final = 8 << 20
REAPED_WITHIN_S: Final = 2.0

WORKER: Final = (sys.executable, "-P", "-m", f"{__name__.removesuffix('reader')}worker")
INHERITED_VARIABLES: Final = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TZ")
"""Environment variables passed to the process; the others may contain secrets."""

INSTALL: Final = "pip install '.[insights]'"
"""For a checkout of Weir: no public index has the distribution, and PyPI's `weir` is another project."""


class InsightsUnavailable(Problem):
    """There is no data. `code` is the reason: INSIGHTS_OFF, READER_MISSING or NO_TABLE."""


class WorkerLost(Exception):  # noqa: N818 - describes a process
    """The process ended before its answer was complete."""


class _CachedAnswer(msgspec.Struct):
    body: bytes
    stamp: list[Any] | None
    at: float


class Reader:
    """The worker process and a cache of its answers. `warehouse` is a directory or a URL (`location`), empty
    for none; `command` is run with it as last argument.
    """

    def __init__(
        self, warehouse: str, command: tuple[str, ...] = WORKER, longest_s: float = LONGEST_S
    ) -> None:
        self.warehouse = warehouse
        self._command = command
        self._longest_s = longest_s
        self._turn = trio.Lock()
        self._question_sent = trio.Event()
        self._process: trio.Process | None = None
        self._read = b""
        self._used_at = 0.0
        self._cache: dict[bytes, _CachedAnswer] = {}

    async def rows(self, question: Mapping[str, Any]) -> bytes:
        """Return the body of the answer. Raises InsightsUnavailable, and Problem if a table is unreadable or
        the answer takes too long. On cancellation the process is killed, and the next question starts a new
        one.
        """
        return await self._answer({"ask": "rows", **question})

    async def table_states(self) -> list[dict[str, Any]]:
        """Return all tables with their states; raises like `rows`."""
        states: list[dict[str, Any]] = json.loads(await self._answer({"ask": "look"}))
        return states

    async def run(self) -> None:
        """End the process whenever it is idle. Runs until cancelled; cancellation kills the process."""
        try:
            while True:
                await self._question_sent.wait()
                await trio.sleep_until(self._used_at + IDLE_S)
                async with self._turn:
                    if trio.current_time() >= self._used_at + IDLE_S:
                        self._question_sent = trio.Event()
                        await self.end()
        finally:
            with trio.move_on_after(REAPED_WITHIN_S, shield=True):
                await self.end()

    async def end(self) -> None:
        """Kill the process and wait until it has ended."""
        process, self._process, self._read = self._process, None, b""
        if process is None:
            return
        process.kill()
        with trio.move_on_after(REAPED_WITHIN_S, shield=True):
            assert process.stdin is not None and process.stdout is not None
            await trio.aclose_forcefully(process.stdin)
            await trio.aclose_forcefully(process.stdout)
            await process.wait()

    async def _answer(self, question: Mapping[str, Any]) -> bytes:
        check_warehouse(self.warehouse)
        key = json.dumps(question).encode()
        with trio.move_on_after(self._longest_s):
            async with self._turn:
                return await self._cached_or_asked(key, question)
        raise Problem(
            503,
            "Reading the tables took too long: ask for fewer days, or let `weir pipeline maintain` put their "
            "files together.",
            code="TOO_SLOW",
            headers={"Retry-After": "5"},
        )

    async def _cached_or_asked(self, key: bytes, question: Mapping[str, Any]) -> bytes:
        cached = self._cache.pop(key, None)
        now = trio.current_time()
        fresh_s = STATE_FRESH_S if question["ask"] == "look" else FRESH_S
        if cached is not None and now - cached.at < fresh_s:
            self._cache[key] = cached
            return cached.body
        head, body = await self._exchange(question, None if cached is None else cached.stamp)
        if head["outcome"] == "same" and cached is not None:
            body = cached.body
            head["stamp"] = cached.stamp
        elif head["outcome"] not in ("rows", "tables"):
            raise refusal(head)
        self._cache[key] = _CachedAnswer(body, head.get("stamp"), now)
        self._evict()
        return body

    def _evict(self) -> None:
        """Drop the least recently used answers."""
        size = sum(len(each.body) for each in self._cache.values())
        while size > MAX_CACHED_BYTES or len(self._cache) > MAX_CACHED:
            size -= len(self._cache.pop(next(iter(self._cache))).body)

    async def _exchange(
        self, question: Mapping[str, Any], known: list[Any] | None
    ) -> tuple[dict[str, Any], bytes]:
        line = json.dumps({**question, "known": known}).encode() + b"\n"
        try:
            return await self._once(line)
        except WorkerLost:
            raise Problem(
                502,
                "The process that reads the tables ended before it answered: a damaged file, or more "
                "memory than allowed. Request fewer days.",
                code="READER_LOST",
            ) from None

    async def _once(self, line: bytes) -> tuple[dict[str, Any], bytes]:
        """Ask once. An interruption ends the process, so that the next question does not read a partial
        answer.
        """
        is_whole = False
        try:
            process = self._process or await self._start()
            assert process.stdin is not None
            await process.stdin.send_all(line)
            head: dict[str, Any] = json.loads(await self._take_line())
            body = await self._take(head.get("size", 0))
            is_whole = True
            return head, body
        except (trio.BrokenResourceError, trio.ClosedResourceError, ValueError) as error:
            raise WorkerLost from error
        finally:
            self._used_at = trio.current_time()
            self._question_sent.set()
            if not is_whole:
                with trio.move_on_after(REAPED_WITHIN_S, shield=True):
                    await self.end()

    async def _start(self) -> trio.Process:
        try:
            self._process = await trio.lowlevel.open_process(
                [*self._command, self.warehouse],
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,
                env=environment(self.warehouse),
            )
        except OSError as error:
            raise WorkerLost from error
        return self._process

    async def _take_line(self) -> bytes:
        while b"\n" not in self._read:
            if len(self._read) > LONGEST_LINE:
                raise WorkerLost
            await self._more()
        line, _, self._read = self._read.partition(b"\n")
        return line

    async def _take(self, size: int) -> bytes:
        if size > LARGEST_BODY:
            raise WorkerLost
        parts, left = [self._read[:size]], size - len(self._read)
        self._read = self._read[size:]
        while left > 0:
            await self._more()
            parts.append(self._read[:left])
            left, self._read = left - len(parts[-1]), self._read[left:]
        return b"".join(parts)

    async def _more(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        some = await self._process.stdout.receive_some()
        if not some:
            raise WorkerLost
        self._read += some


def check_warehouse(warehouse: str) -> None:
    """Raises InsightsUnavailable if no warehouse is set."""
    if not warehouse:
        raise InsightsUnavailable(404, "insights.warehouse is not set.", code="INSIGHTS_OFF")


def environment(warehouse: str) -> dict[str, str]:
    """Return the environment of the worker process."""
    ours = str(Path(__file__).parents[__name__.count(".")])
    theirs = os.environ.get("PYTHONPATH")
    return {name: os.environ[name] for name in INHERITED_VARIABLES if name in os.environ} | {
        **inherited(warehouse, os.environ),
        "PYTHONPATH": f"{ours}{os.pathsep}{theirs}" if theirs else ours,
        # One thread suffices for one question at a time and leaves the other cores to the broker.
        "TOKIO_WORKER_THREADS": "1",
        "MALLOC_ARENA_MAX": "2",
    }


def refusal(head: Mapping[str, Any]) -> Problem:
    """Return the error for a worker's answer without rows."""
    match head["outcome"]:
        case "missing":
            return InsightsUnavailable(
                404, f"Reading Delta tables needs, in a checkout of Weir: {INSTALL}", code="READER_MISSING"
            )
        case "none":
            return InsightsUnavailable(404, head["message"], code="NO_TABLE")
        case "gone":
            return Problem(410, f"{head['message']} Start again without a cursor.", code="CURSOR_GONE")
        case "foreign":
            return Problem(502, head["message"], code="TABLE_FOREIGN")
        case _:
            return Problem(502, head["message"], code="TABLE_DAMAGED")
