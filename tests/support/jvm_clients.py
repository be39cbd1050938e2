"""Programs on Java machines that stay up while a test works with them: those of tests/endtoend/jvm_clients.

Used by tests/endtoend. `classpath` fetches the jars with Maven, once, and compiles the sources beside the
pom.xml; `pytestmark` leaves a module's tests out where that is not possible.
"""

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self, TypeVar

import pytest

from broker.common.version import KAFKA_VERSION
from tests.support.machine_speed import WITHIN_S

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = ROOT / "tests" / "endtoend" / "jvm_clients"
JARS: Final = ROOT / ".cache" / "jvm_clients"
BUILT_WITHIN_S: Final = 900
ENDED_WITHIN_S: Final = 120.0
SLOW_S: Final = 10 * WITHIN_S
"""For the start of a Java machine, a rebalance or a failover beside other work."""

Found = TypeVar("Found")

pytestmark = [
    pytest.mark.endtoend,
    pytest.mark.slow,
    pytest.mark.skipif(
        any(shutil.which(program) is None for program in ("javac", "mvn")), reason="needs a JDK and Maven"
    ),
]


def classpath(kind: str, built: Path) -> str:
    """The jars of this pom.xml, and its sources compiled into `built`."""
    recipe, jars = SOURCES / kind / "pom.xml", JARS / kind
    stamp = jars / "installed"
    if (
        not stamp.exists()
        or stamp.stat().st_mtime < recipe.stat().st_mtime
        or stamp.read_text() != KAFKA_VERSION
    ):
        shutil.rmtree(jars, ignore_errors=True)
        copy = (
            "dependency:copy-dependencies",
            f"-DoutputDirectory={jars}",
            f"-Dkafka.version={KAFKA_VERSION}",
        )
        subprocess.run(
            ["mvn", "-B", "-q", "-Dstyle.color=never", "-f", recipe, *copy],
            check=True,
            timeout=BUILT_WITHIN_S,
        )
        stamp.write_text(KAFKA_VERSION)
    sources = sorted((SOURCES / kind).glob("*.java"))
    command = ["javac", "-Xlint:all,-processing", "-Werror", "-cp", f"{jars}/*", "-d", built, *sources]
    subprocess.run(command, check=True, timeout=BUILT_WITHIN_S)
    return f"{built}:{jars}/*"


class JavaProcess:
    """A Java machine with a small heap. Its input is closed at the end, which ends the program."""

    def __init__(self, path: str, main: str, *arguments: str, options: tuple[str, ...] = ()) -> None:
        self.lines: list[str] = []
        self.complaints: list[str] = []
        self._process = subprocess.Popen(
            [
                *("java", "-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
                *("-Dlog4j2.level=INFO", *options, "-cp", path, main, *arguments),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"LC_ALL": "C.UTF-8"},
        )
        assert self._process.stdout is not None and self._process.stderr is not None
        self._readers = [
            threading.Thread(target=_read, args=each, daemon=True)
            for each in ((self._process.stdout, self.lines), (self._process.stderr, self.complaints))
        ]
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._joined()

    def said(self, words: str, count: int = 1, seconds: float = SLOW_S) -> list[str]:
        """What follows these words in the lines that begin with them, once there are so many."""

        def found() -> list[str]:
            lines = [line for line in self.lines if line.startswith(words)]
            return [line.removeprefix(words).strip() for line in lines] if len(lines) >= count else []

        return self.until(found, f"{count} lines {words!r}", seconds)

    def answer(self, question: str) -> str:
        """The answer to one line of input."""
        before = sum(line.startswith(question) for line in self.lines)
        assert self._process.stdin is not None
        self._process.stdin.write(f"{question}\n")
        self._process.stdin.flush()
        return self.said(question, before + 1)[-1]

    def until(self, look: Callable[[], Found], what: str, seconds: float = SLOW_S) -> Found:
        """The first true result of `look` while the program runs."""
        deadline = time.monotonic() + seconds
        while not (found := look()):
            ended = self._process.poll() is not None
            if (ended and not look()) or time.monotonic() > deadline:
                raise AssertionError(f"{what}: {'ended' if ended else 'not in time'}\n{self.tail()}")
            time.sleep(0.5)
        return found

    def tail(self) -> str:
        return "".join([*self.lines[-60:], *self.complaints[-20:]])

    def kill(self) -> None:
        """kill -9, as a crash would."""
        self._process.kill()
        self._joined()

    def stop(self) -> None:
        """SIGTERM, after which a Java machine runs its hooks."""
        self._process.send_signal(signal.SIGTERM)
        status = self._process.wait(ENDED_WITHIN_S)
        self._joined()
        assert status == 128 + signal.SIGTERM, self.tail()

    def close(self) -> int:
        """Ends the input, and returns the exit status."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        status = self._process.wait(ENDED_WITHIN_S)
        self._joined()
        return status

    def _joined(self) -> None:
        self._process.wait(ENDED_WITHIN_S)
        for reader in self._readers:
            reader.join()
        for each in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert each is not None
            with suppress(BrokenPipeError):
                each.close()


def _read(stream: IO[str], into: list[str]) -> None:
    into.extend(stream)
