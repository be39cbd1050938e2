"""Runs the sessions of a client library, each in a process of its own, and keeps what they tell.

A process that does not end in time is killed: the soak goes on, its list of errors says so, and what the
process was told by the broker until then is in the ledgers. A process whose soak is gone ends by itself, as
its input ends.
"""

import json
import random
import signal
import subprocess
import sys
from typing import Final

import trio

from benchmarks.soak.relay import Relay
from benchmarks.soak.stage import SESSION_S, Stage
from benchmarks.soak.topics import SOURCE, TRANSACTIONS

CLOSES_WITHIN_S: Final = 60.0
STUCK_S: Final = 660.0
"""After the time that it was given: librdkafka has waited 600 s after a kill, and came back with an error."""

DIES_WITHIN_S: Final = 10.0
"""After SIGABRT, with which it shows where its threads are; SIGKILL follows."""

TOPIC_OF: Final = {
    "librdkafka": SOURCE,
    "kafka-python": "soak-kafka-python",
    "aiokafka": "soak-aiokafka",
    "transactions": TRANSACTIONS,
}
"""What each producer fills alone, so its next session goes on from the numbers of the last one."""


async def run_sessions(stage: Stage, name: str, copy: int, end: trio.Event) -> None:
    """Run one session after the other until `end`. If cancelled, the last one is killed."""
    chance = random.Random(f"{stage.seed} {name} {copy}")
    while not end.is_set():
        seconds = chance.uniform(*SESSION_S)
        number = stage.ledgers[TOPIC_OF[name]].sent if name in TOPIC_OF else 0
        settings = {"bootstrap": stage.bootstrap, "seconds": seconds, "number": number, "seed": stage.seed}
        command = [sys.executable, "-m", "benchmarks.soak.clients", name, json.dumps(settings)]
        await ClientProcess(stage, name).run(command, seconds + STUCK_S, end)
        stage.sessions[name] = stage.sessions.get(name, 0) + 1


class ClientProcess:
    def __init__(self, stage: Stage, name: str) -> None:
        self._stage = stage
        self._name = name
        self._relay = Relay(stage, name)
        self._rest = b""
        self.limit = trio.CancelScope()
        """Of the time until it is killed."""

    async def run(self, command: list[str], limit_s: float, end: trio.Event) -> None:
        """Return when the process has ended; it is asked to at `end`. If cancelled, it is killed."""
        process = await trio.lowlevel.open_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin is not None and process.stdout is not None
        async with process.stdin, process.stdout, trio.open_nursery() as nursery:
            nursery.start_soon(_close_at, end, process.stdin)
            try:
                await self._follow(process, process.stdout, limit_s)
            finally:
                with trio.CancelScope(shield=True):
                    process.kill()
                    await self._hear_all(process.stdout)  # what it had written
                    await process.wait()
                self._relay.end()
            nursery.cancel_scope.cancel()

    async def _follow(self, process: trio.Process, output: trio.abc.ReceiveStream, limit_s: float) -> None:
        """Return when it has ended or has shown where it is stuck."""
        self.limit.deadline = trio.current_time() + limit_s
        with self.limit:
            await self._hear_all(output)
            await process.wait()
        if self.limit.cancelled_caught:
            self._stage.report(self._name, "close did not return" if self._relay.closing else "it is stuck")
            process.send_signal(signal.SIGABRT)
            with trio.move_on_after(DIES_WITHIN_S):
                await process.wait()
        elif process.returncode:
            self._stage.report(self._name, f"exit status {process.returncode}")

    async def _hear_all(self, output: trio.abc.ReceiveStream) -> None:
        """Return at the end of the output. If cancelled, it can go on later."""
        async for some in output:
            *lines, self._rest = (self._rest + some).split(b"\n")
            for line in lines:
                self._relay.hear(line)
            if self._relay.closing:
                self.limit.deadline = min(self.limit.deadline, trio.current_time() + CLOSES_WITHIN_S)


async def _close_at(end: trio.Event, stream: trio.abc.AsyncResource) -> None:
    await end.wait()
    await stream.aclose()
