"""Starts the process that simulates recorded days with other quotas, one at a time.

Used by webui.rest.insights_what_if. A day of a busy cluster takes minutes of one core, at the lowest
priority; requests during a simulation are rejected with a retry hint.
"""

import json
import sys
from collections.abc import Mapping
from subprocess import DEVNULL
from typing import Any, Final

import trio

from webui.insights.reader import check_warehouse, environment, refusal
from webui.problem import Problem
from webui.tables.json_output import encode_in_slices

LONGEST_S: Final = 300.0
REPLAY: Final = (sys.executable, "-P", "-m", f"{__name__.removesuffix('what_if')}replay")


class WhatIf:
    """The simulation process. `warehouse` is a directory or a URL, empty for none; `command` is run with it
    as last argument.
    """

    def __init__(
        self, warehouse: str, command: tuple[str, ...] = REPLAY, longest_s: float = LONGEST_S
    ) -> None:
        self._warehouse = warehouse
        self._command = command
        self._longest_s = longest_s
        self._is_busy = False

    async def simulate(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer of webui.insights.replay. Raises Problem. Cancellation kills the process."""
        check_warehouse(self._warehouse)
        if self._is_busy:
            raise Problem(503, "Another simulation is running.", code="BUSY", headers={"Retry-After": "10"})
        self._is_busy = True
        try:
            with trio.move_on_after(self._longest_s):
                answer = await self._run(await encode_in_slices(question))
                return _simulation_of(answer, is_file=question.get("lines") is not None)
        finally:
            self._is_busy = False
        raise Problem(
            503,
            "The simulation took too long: request fewer days, or use `weir pipeline what-if`.",
            code="TOO_SLOW",
            headers={"Retry-After": "5"},
        )

    async def _run(self, question: bytes) -> bytes:
        try:
            ended = await trio.run_process(
                [*self._command, self._warehouse],
                stdin=question,
                capture_stdout=True,
                stderr=DEVNULL,
                check=False,
                env=environment(self._warehouse),
            )
        except OSError:
            return b""
        return bytes(ended.stdout)


def _simulation_of(answer: bytes, *, is_file: bool) -> dict[str, Any]:
    """Raises Problem."""
    try:
        found: dict[str, Any] = json.loads(answer)
    except ValueError:
        raise Problem(
            502,
            "The simulation process ended before it answered: a damaged file, or more memory "
            "than allowed. Request fewer days.",
            code="READER_LOST",
        ) from None
    match found.pop("outcome"):
        case "simulated":
            return found
        case "empty":
            raise Problem(404, found["message"], code="NO_REQUESTS")
        case "refused":
            raise Problem(400, found["message"], where="/lines" if is_file else "/quotas")
        case "nodes":
            raise Problem(400, found["message"], where="/node")
        case "clusters":
            raise Problem(400, found["message"], where="/cluster", code="SEVERAL_CLUSTERS")
        case "no disk space":
            raise Problem(503, found["message"], code="NO_DISK_SPACE", headers={"Retry-After": "60"})
        case "too many":
            raise Problem(400, found["message"], code="TOO_MANY")
        case outcome:
            raise refusal(found | {"outcome": outcome})
