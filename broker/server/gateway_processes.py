"""The parent of several gateway processes: starts them on the same ports, and starts one that dies again.

Called by `weir gateway` with gateway.processes above 1. The parent holds no connection and reads no topic.
Each process is a whole gateway with a folder of its own, so that one that dies takes nothing of the others
with it; what they share goes through the upstream cluster.
"""

import ctypes
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import trio

from broker import start
from broker.common.errors import ConfigError
from broker.config.load import Configuration
from broker.config.table import BrokerConfig

logger = logging.getLogger(__name__)

FIRST_PAUSE_S: Final = 0.5
MAX_PAUSE_S: Final = 30.0
LIVED_S: Final = 60.0
"""A process that ran this long begins with the first pause again."""

DRAINED_BY: Final = signal.SIGUSR1
"""Drains all processes without stopping them. The process that serves the console sends it to its parent."""

PARENT: Final = "WEIR_GATEWAY_PARENT"
"""The variable of the processes' environment with the id of their parent."""

PR_SET_PDEATHSIG: Final = 1
"""prctl(2)"""

STOPPED_BY: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def check(config: BrokerConfig) -> None:
    """Check that the processes can share their ports, and log what they do not share. Raises ConfigError."""
    for endpoint in config.network.resolved_listeners():
        if endpoint.port == 0:
            raise ConfigError(
                "listeners",
                f"{endpoint.name}://{endpoint.host}:0",
                "a fixed port with gateway.processes above 1: the processes listen on the same one",
            )
    if config.quotas.scope != "cluster":
        logger.warning(
            "each gateway process has rules and limits of its own, and the console shows those of the first",
            extra={"setting": "quota.scope=cluster"},
        )


def overrides_of(index: int, config: BrokerConfig) -> list[str]:
    """Return the settings that process `index` has of its own."""
    own = [
        "gateway.processes=1",
        "socket.listen.reuse.port=true",
        f"node.id={config.broker.node_id + index}",
        f"log.dirs={Path(config.log.dirs[0]) / f'process-{index}'}",
    ]
    return own if index == 0 else [*own, "console.listener="]


class Processes:
    """The processes of `configuration`, whose file and overrides are in `arguments`. `running` has those that
    run, by their numbers.
    """

    def __init__(self, configuration: Configuration, arguments: Sequence[str]) -> None:
        self._config = configuration.config
        self._arguments = arguments
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        self._stopping = trio.Event()
        self._drains = False

    async def run(self) -> int:
        """Run until a signal, and until all processes have drained. Returns the worst of their statuses."""
        statuses: dict[int, int] = {}
        async with trio.open_nursery() as nursery:
            await nursery.start(self._forward_signals)
            async with trio.open_nursery() as processes:
                for index in range(self._config.gateway.processes):
                    processes.start_soon(self._keep, index, statuses)
            nursery.cancel_scope.cancel()
        return max(statuses.values(), default=0)

    async def _keep(self, index: int, statuses: dict[int, int]) -> None:
        """Run one process, again and again until the parent stops, or until a drain: a new process would know
        nothing of it, and accept clients.
        """
        pause_s = FIRST_PAUSE_S
        while not self._stopping.is_set():
            began = trio.current_time()
            status = await self._run_once(index)
            if self._stopping.is_set():
                statuses[index] = max(status, 0)
                return
            if trio.current_time() - began >= LIVED_S:
                pause_s = FIRST_PAUSE_S
            again = "stays away, as the gateway drains" if self._drains else "starts again"
            logger.error(
                f"a gateway process has ended and {again}",
                extra={"number": index, "status": status, "pause_s": pause_s},
            )
            with trio.move_on_after(pause_s):
                await self._stopping.wait()
            if self._drains:
                await self._stopping.wait()
            pause_s = min(pause_s * 2, MAX_PAUSE_S)

    async def _run_once(self, index: int) -> int:
        """Run a process to its end. Returns its status, negative for a signal. If cancelled, kills it."""
        command = [sys.executable, "-P", "-m", start.__name__, "gateway", *self._arguments]
        for setting in overrides_of(index, self._config):
            command += ["--override", setting]
        # Not through Trio, which forks in a thread: the system stops the process when that thread ends.
        process = subprocess.Popen(  # noqa: ASYNC220, S603 - it takes milliseconds; the program is our own
            command,
            stdin=subprocess.DEVNULL,
            preexec_fn=_die_with_parent,
            env=os.environ | {PARENT: str(os.getpid())},
        )
        self.running[index] = process
        try:
            descriptor = os.pidfd_open(process.pid)
            try:
                await trio.lowlevel.wait_readable(descriptor)
            finally:
                os.close(descriptor)
            return process.wait()
        finally:
            del self.running[index]
            process.kill()

    async def _forward_signals(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Pass every signal that stops the parent, or drains, on to all processes."""
        with trio.open_signal_receiver(*STOPPED_BY, DRAINED_BY) as signals:
            task_status.started()
            async for number in signals:
                if number == DRAINED_BY:
                    self._drains = True
                else:
                    self._stopping.set()
                for process in list(self.running.values()):
                    process.send_signal(number)


def drain_siblings() -> None:
    """Let the other processes drain, too, if this is one of several."""
    if os.environ.get(PARENT) == str(os.getppid()):
        os.kill(os.getppid(), DRAINED_BY)


async def drain_on_signal(begin: Callable[[], None]) -> None:
    """Call `begin` when the parent passes DRAINED_BY on. Returns at once if there is no such parent."""
    if os.environ.get(PARENT) != str(os.getppid()):
        return
    with trio.open_signal_receiver(DRAINED_BY) as signals:
        async for _ in signals:
            begin()


def _die_with_parent() -> None:
    """Let the system stop this process when its parent is gone, however it went. Runs in the new process."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def run(configuration: Configuration, arguments: Sequence[str]) -> int:
    """Run the processes of `weir gateway` with these arguments, and return the exit status. Raises
    ConfigError.
    """
    check(configuration.config)
    return trio.run(Processes(configuration, arguments).run)
