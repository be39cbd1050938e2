"""Starts the process that decodes the keys or values of one request.

Used by webui.rest.records. A process for each request: nothing of one request reaches another, and an item
that makes the process end costs only the items after it.
"""

import base64
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from subprocess import DEVNULL, PIPE
from typing import Any, Final

import msgspec
import trio

from webui.decoding.schema import DataSchema
from webui.insights.reader import environment
from webui.problem import Problem
from webui.tables.json_output import encode

WORKER: Final = (sys.executable, "-P", "-m", f"{__name__.removesuffix('decoder')}worker")

LONGEST_S: Final = 30.0
"""Time of a process: six times the processor time that it allows itself, since it shares a busy machine."""

MAX_BYTES: Final = 8_388_608
"""Bytes that are decoded for one request; later items are not decoded."""

MAX_PROCESSES: Final = 2
"""Processes at the same time; further requests wait."""


class Decoded(msgspec.Struct, frozen=True):
    """The text of an item as indented JSON, or the reason why there is none."""

    text: str | None
    error: str | None


_LEFT_OUT: Final = Decoded(None, f"not decoded: the records of one request have more than {MAX_BYTES} bytes")
_LOST: Final = Decoded(None, "not decoded: decoding it takes too much memory or time")
_AFTER_LOST: Final = Decoded(None, "not decoded: decoding an earlier record took too much memory or time")


class Decoder:
    def __init__(self, command: tuple[str, ...] = WORKER, longest_s: float = LONGEST_S) -> None:
        self._command = command
        self._longest_s = longest_s
        self._turns = trio.Semaphore(MAX_PROCESSES)

    async def decode(
        self, schema: DataSchema, items: Sequence[bytes], longest: int, where: str
    ) -> list[Decoded]:
        """Decode every item to at most `longest` characters. Raises Problem 400 at `where` for an unusable
        schema. Cancellation kills the process.
        """
        decodable, size = 0, 0
        for item in items:
            size += len(item)
            if size > MAX_BYTES:
                break
            decodable += 1
        head = encode(
            {
                "format": schema.format,
                "schema": schema.text,
                "message": schema.message,
                "is_framed": schema.is_framed,
                "longest": longest,
            }
        )
        async with self._turns:
            lines = await self._run(head, items[:decodable])
        if not lines:
            raise Problem(400, "The schema takes too much memory or time.", where=where)
        verdict, *answers = lines
        if verdict["schema"] is not None:
            raise Problem(400, verdict["schema"], where=where)
        found = [Decoded(each.get("text"), each.get("error")) for each in answers]
        if len(found) < decodable:
            found.append(_LOST)
            found += [_AFTER_LOST] * (decodable - len(found))
        return found + [_LEFT_OUT] * (len(items) - len(found))

    async def _run(self, head: bytes, items: Sequence[bytes]) -> list[dict[str, Any]]:
        """Return the lines that the process wrote until it ended. Raises Problem 503 if it does not end."""
        with trio.move_on_after(self._longest_s):
            try:
                process = await trio.lowlevel.open_process(
                    [*self._command], stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=environment("")
                )
            except OSError:
                return []
            assert process.stdin is not None and process.stdout is not None
            lines: list[dict[str, Any]] = []
            try:
                async with process.stdin, process.stdout, trio.open_nursery() as nursery:
                    nursery.start_soon(_ask, process.stdin, head, items)
                    lines += [line async for line in _lines(process.stdout)]
                return lines
            finally:
                process.kill()
                with trio.CancelScope(shield=True):
                    await process.wait()
        raise Problem(503, "Decoding the records took too long.", headers={"Retry-After": "5"})


async def _ask(stdin: trio.abc.SendStream, head: bytes, items: Sequence[bytes]) -> None:
    """Send the question a line at a time; a process that ends early reads no more."""
    with suppress(trio.BrokenResourceError):
        await stdin.send_all(head + b"\n")
        for item in items:
            await stdin.send_all(base64.b64encode(item) + b"\n")
        await stdin.aclose()


async def _lines(stdout: trio.abc.ReceiveStream) -> AsyncIterator[dict[str, Any]]:
    """Yield the whole lines, each in a turn of its own."""
    rest = b""
    async for some in stdout:
        first, *others = bytes(some).split(b"\n")
        rest += first
        for line in others:
            yield json.loads(rest)
            await trio.lowlevel.checkpoint()
            rest = line
