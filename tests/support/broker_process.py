"""`weir serve` as a process of its own, for tests that kill it and those with real clients and browsers.

Used by tests/endtoend. Ports are the system's choice at the first start, and kept over a restart, as clients
that were connected come back to them.
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from broker.security.console_links import link_with, make_code, read_console_link
from tests.support.machine_speed import WITHIN_S

WEIR: Final = Path(sys.executable).with_name("weir")
TOKEN: Final = "a-token-for-the-tests-of-the-whole-broker"
USERS: Final = {"alice": "alice-secret", "bob": "bob-secret"}
SASL: Final = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
LOGIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"
STARTED_WITHIN_S: Final = 60.0
ENDED_WITHIN_S: Final = 60.0


class BrokerProcess:
    """A broker with a PLAINTEXT and a SASL_PLAINTEXT listener and its console. Left with SIGTERM."""

    def __init__(
        self, directory: Path, *overrides: str, options: Sequence[str] = (), prefix: Sequence[str] = ()
    ) -> None:
        """`options` are of the command line, beside the settings that are overridden; `prefix` is a command
        that starts the broker in its place.
        """
        self.prefix = prefix
        self.directory = directory
        self.options = options
        self.overrides = overrides
        self.plain = self.sasl = "127.0.0.1:0"
        self.console = "127.0.0.1:0"
        self.log_lines: list[str] = []
        self._process: subprocess.Popen[str] | None = None
        self._reader = threading.Thread()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.stop()

    @property
    def running(self) -> subprocess.Popen[str]:
        assert self._process is not None, "the broker is not running"
        return self._process

    def start(self) -> None:
        """Returns when the broker has said that it serves."""
        users = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
        settings = [
            f"listeners=PLAINTEXT://{self.plain},SASL_PLAINTEXT://{self.sasl}",
            f"{SASL}={LOGIN_MODULE} {users};",
            "wire.role=admin",
            f"log.dirs={self.directory}",
            f"console.listener={self.console}",
            *self.overrides,
        ]
        process = self._process = subprocess.Popen(
            [*self.prefix, WEIR, "serve", *self.options, *(f"--override={setting}" for setting in settings)],
            env=os.environ | {"WEIR_ADMIN_TOKEN": TOKEN},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None and process.stderr is not None
        self._reader = threading.Thread(target=self._read_log, args=(process.stderr,), daemon=True)
        self._reader.start()
        late = threading.Timer(STARTED_WITHIN_S, process.kill)
        late.start()
        greeting = ""
        while "REST:" not in greeting:
            line = process.stdout.readline()
            if not line:
                late.cancel()
                self._end(signal.SIGKILL)
                raise AssertionError("the broker ended before it served:\n" + "".join(self.log_lines))
            greeting += line
        late.cancel()
        self.plain, self.sasl = re.findall(r"[\d.]+:\d+", greeting.splitlines()[0])
        self.console = greeting.partition("REST:    http://")[2].partition("/")[0]

    @property
    def link(self) -> str:
        """Signs one browser in, as the administrator."""
        url, key = read_console_link(str(self.directory))
        return link_with(url, make_code(key, time.monotonic_ns() // 1_000_000))

    def kill(self) -> None:
        """kill -9, as a crash would."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM, and its exit status after the drain."""
        return self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> int:
        process = self.running
        process.send_signal(how)
        status = process.wait(ENDED_WITHIN_S)
        assert process.stdout is not None
        process.stdout.close()
        self._reader.join()
        self._process = None
        return status

    def _read_log(self, stderr: IO[str]) -> None:
        with stderr:
            self.log_lines.extend(stderr)

    def lines_with(self, words: str, count: int = 1) -> list[str]:
        """The lines of the log that have these words, once there are so many: the broker's answer to a client
        may come before its line.
        """
        deadline = time.monotonic() + WITHIN_S
        while len(found := [line for line in self.log_lines if words in line]) < count:
            assert time.monotonic() < deadline, "".join(self.log_lines)
            time.sleep(0.01)
        return found

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON answer of the REST API to the administrator. Raises HTTPError where it refuses."""
        return ask_console(self.console, method, path, body)

    def throttled(self, client_id: str) -> Mapping[str, Any] | None:
        """The row of a client that is throttled at this moment."""
        rows: Sequence[Mapping[str, Any]] = self.ask("GET", "/api/v1/throttled-channels")["items"]
        return next((row for row in rows if row["client_id"] == client_id), None)


def ask_console(console: str, method: str, path: str, body: Any = None) -> Any:
    """The JSON answer of the console at this address to the administrator. Raises HTTPError."""
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://{console}{path}", data, headers, method=method)
    with urllib.request.urlopen(request, timeout=10) as answer:
        text = answer.read()
    return json.loads(text) if answer.headers.get_content_type() == "application/json" else text.decode()


PATIENCE: Final = 3.0
"""A second is a second on a machine of one's own; where others share the cores it may be three."""


def within(seconds: float, look: Callable[[], Any], what: str, every: float = 0.02) -> Any:
    """The first true answer of `look`; fails with `what` when there was none in time."""
    seconds *= PATIENCE
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(every)
