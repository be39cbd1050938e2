"""The broker's process from a start to a kill: its memory and descriptors, and what it logged.

A life is killed with SIGKILL, and the next one begins on the same data and the same ports.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from benchmarks.process import Broker
from benchmarks.soak.stage import KEPT_BYTES

MB: Final = 1_000_000
QUIET_LEVELS: Final = ("debug", "info")
STOP_LIMIT_S: Final = 60.0

Points = list[tuple[float, float]]
"""(minutes since the start of the life, MB or a number)."""


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the slope by least squares."""
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)


def waited_s(schedstat: str) -> float:
    """Return for how long a thread waited for a processor: the second number, in ns."""
    return int(schedstat.split()[1]) / 1e9


@dataclass(slots=True)
class Life:
    number: int
    broker: Broker
    began: float
    first_answer_s: float
    data: Path
    memory: Points = field(default_factory=list)
    descriptors: Points = field(default_factory=list)
    """Without the files of the data folder: segments are as many as retention leaves."""

    minutes: float = 0.0
    cpu_s: float = 0.0
    waited_s: float = 0.0
    """For a processor, though it had something to do: the main thread, since the start."""

    waiting: float = 0.0
    """That, as a share of the time since the last sample."""

    ended: str = "running"

    def sample(self) -> None:
        """Raises BrokerError if the process has ended by itself."""
        self.broker.check_alive()
        before_min, before_s = self.minutes, self.waited_s
        self.minutes = (time.monotonic() - self.began) / 60
        self.waited_s = waited_s(Path(f"/proc/{self.broker.process.pid}/schedstat").read_text())
        self.waiting = (self.waited_s - before_s) / 60 / (self.minutes - before_min)
        self.memory.append((self.minutes, self.broker.memory().anonymous / MB))
        self.descriptors.append((self.minutes, float(len(list(self._open_elsewhere())))))
        self.cpu_s = self.broker.cpu_s()

    def _open_elsewhere(self) -> Iterator[str]:
        for link in Path(f"/proc/{self.broker.process.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                target = os.readlink(link)
                if not target.startswith(str(self.data)):
                    yield target


class BrokerLives:
    """Starts and ends the broker; `report` receives each line that it logs as a warning or an error."""

    def __init__(
        self,
        data: Path,
        output: Path,
        port: int,
        token: str,
        clock: Path,
        report: Callable[[str, object], None],
    ) -> None:
        self.lives: list[Life] = []
        self.running = False
        self._data = data
        self._output = output
        self._port = port
        self._token = token
        self._clock = clock
        self._report = report
        self._reader = threading.Thread()

    @property
    def now(self) -> Life:
        return self.lives[-1]

    def start(self) -> Life:
        """Return when the broker answers. Raises BrokerError if it ends, or does not answer in a minute."""
        settings = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self._port}",
            "console.listener": f"127.0.0.1:{self._port + 1}",
            "log.dirs": str(self._data),
            "logging.format": "json",
            "log.retention.ms": "-1",
            "log.retention.bytes": str(KEPT_BYTES),
            "log.segment.bytes": str(KEPT_BYTES // 4),
            "log.retention.check.interval.ms": "30000",
        }
        command = [sys.executable, "-m", "benchmarks.soak.wall_clock", str(self._clock), "serve"]
        command += [f"--override={key}={value}" for key, value in settings.items()]
        began = time.monotonic()
        with self._output.open("ab") as sink:
            process = subprocess.Popen(
                command,
                env=os.environ | {"WEIR_ADMIN_TOKEN": self._token},
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.PIPE,
            )
        assert process.stderr is not None
        self._reader = threading.Thread(target=self._read_log, args=(process.stderr,), daemon=True)
        self._reader.start()
        broker = Broker(self._port, process, self._output)
        broker.wait_first_answer(time.perf_counter())
        life = Life(len(self.lives) + 1, broker, began, time.monotonic() - began, self._data)
        self.lives.append(life)
        self.running = True
        return life

    def sample(self) -> None:
        """Raises BrokerError if the broker has ended by itself."""
        if self.running:
            self.now.sample()

    def kill(self) -> None:
        self.now.sample()
        self.running = False
        self.now.broker.process.kill()
        self._await_end("killed")

    def stop(self) -> int:
        """Return the exit status after SIGTERM."""
        self.now.broker.check_alive()
        self.running = False
        self.now.broker.process.terminate()
        return self._await_end("stopped")

    def _await_end(self, how: str) -> int:
        status = self.now.broker.process.wait(STOP_LIMIT_S)
        self._reader.join()
        self.now.ended = how
        return status

    def end(self) -> None:
        """End the process in any case."""
        if self.lives and self.now.broker.process.poll() is None:
            self.now.broker.process.kill()
            self._await_end("killed at the end")

    def _read_log(self, stderr: IO[bytes]) -> None:
        with stderr, self._output.open("ab") as kept:
            for line in stderr:
                kept.write(line)
                kept.flush()
                self._report_line(line.decode(errors="replace").rstrip())

    def _report_line(self, line: str) -> None:
        try:
            entry = json.loads(line)
        except ValueError:
            self._report("broker", line)
            return
        if entry.get("level") not in QUIET_LEVELS:
            facts = {key: entry[key] for key in ("reason", "exception") if key in entry}
            told = "".join(f" {key}={str(value)[-300:]!r}" for key, value in facts.items())
            self._report("broker", f"{entry.get('level')}: {entry.get('event')}{told}")
