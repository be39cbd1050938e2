"""Runs the tools of Apache Kafka against a broker process, each in a Java machine of its own.

Used by tests/endtoend. The jars are there where `python -m benchmarks.install kafka` has brought them;
`pytestmark` leaves a module's tests out elsewhere.
"""

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_NB, flock
from typing import Final

import pytest

from benchmarks.install import KAFKA_LIBS
from tests.support.broker_process import BrokerProcess


def are_there() -> bool:
    return shutil.which("java") is not None and KAFKA_LIBS.exists()


pytestmark = [
    pytest.mark.endtoend,
    pytest.mark.slow,
    pytest.mark.skipif(
        not are_there(),
        reason="needs Java and `python -m benchmarks.install kafka`",
    ),
]

TOPICS: Final = "org.apache.kafka.tools.TopicCommand"
GROUPS: Final = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONFIGS: Final = "org.apache.kafka.tools.ConfigCommand"
CLIENT_METRICS: Final = "org.apache.kafka.tools.ClientMetricsCommand"
CONSUMER: Final = "org.apache.kafka.tools.consumer.ConsoleConsumer"
PRODUCER: Final = "org.apache.kafka.tools.ProducerPerformance"
DUMP: Final = "org.apache.kafka.tools.DumpLogSegments"
OFFSETS: Final = "org.apache.kafka.tools.GetOffsetShell"
DELETE_RECORDS: Final = "org.apache.kafka.tools.DeleteRecordsCommand"
LOG_DIRS: Final = "org.apache.kafka.tools.LogDirsCommand"
VERSIONS: Final = "org.apache.kafka.tools.BrokerApiVersionsCommand"

# Half the start of the default machine: the tools end before better code would pay.
JAVA: Final = ("java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
TIMEOUT_S: Final = 120

ARCHIVE: Final = KAFKA_LIBS.parent / "tools.jsa"
"""The classes of the tools as Java keeps them in memory, of the first tool that ran here: with it a tool
takes 0.5 s of processor time, without it 0.85. Java ignores one of other jars, and of another Java.
"""


def call(tool: str, *arguments: str, given: str | None = None) -> tuple[int, str, str]:
    """Status, output and errors of the tool. A tool that hangs fails the test."""
    with _archive() as options:
        done = subprocess.run(
            [*JAVA, *options, "-cp", f"{KAFKA_LIBS}/*", tool, *arguments],
            input=given,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    return done.returncode, done.stdout, done.stderr


@contextmanager
def _archive() -> Iterator[list[str]]:
    """The options of a tool with the archive. One tool at a time makes it where there is none."""
    silent = "-Xlog:disable"  # Java says on the standard output what it cannot archive.
    if ARCHIVE.exists():
        yield [silent, f"-XX:SharedArchiveFile={ARCHIVE}"]
        return
    with ARCHIVE.with_suffix(".lock").open("w") as lock:
        try:
            flock(lock, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            yield []
            return
        making = ARCHIVE.with_suffix(".making")
        making.unlink(missing_ok=True)
        yield [silent, f"-XX:ArchiveClassesAtExit={making}"]
        if making.exists():
            making.replace(ARCHIVE)


def run(tool: str, *arguments: str, given: str | None = None) -> str:
    """What the tool prints; a failure of the tool is one of the test."""
    status, output, complained = call(tool, *arguments, given=given)
    assert status == 0, output + complained
    return output


def refusal(tool: str, *arguments: str) -> str:
    """What the tool says when it is refused."""
    status, output, complained = call(tool, *arguments)
    assert status != 0, output
    return output + complained


def ask(broker: BrokerProcess, tool: str, *arguments: str, given: str | None = None) -> str:
    return run(tool, "--bootstrap-server", broker.plain, *arguments, given=given)


def refused(broker: BrokerProcess, tool: str, *arguments: str) -> str:
    return refusal(tool, "--bootstrap-server", broker.plain, *arguments)


def produce(broker: BrokerProcess, topic: str, records: int, *settings: str, metrics: bool = False) -> str:
    """Records of 100 bytes; what the tool says of them, with the client's own metrics if asked for."""
    return run(
        *(PRODUCER, "--topic", topic, "--num-records", str(records), "--record-size", "100"),
        *("--throughput", "-1", "--bootstrap-server", broker.plain),
        *(("--command-property", *settings) if settings else ()),  # Of two such options it heeds the last.
        *(("--print-metrics",) if metrics else ()),
    )


def rows(table: str) -> list[list[str]]:
    return [line.split() for line in table.splitlines() if line.strip()]


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
