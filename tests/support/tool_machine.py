"""Runs the tools of Apache Kafka one after the other in one Java machine, whose start takes longer than most.

Used by tests/endtoend, where Tools.java is. Log lines of the tools go nowhere: Kafka's jars bring no logger.
"""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import IO, Final, Self

from benchmarks.install import KAFKA_LIBS
from tests.support.kafka_tools import JAVA, TIMEOUT_S

SOURCE: Final = Path(__file__).parents[1] / "endtoend" / "Tools.java"


@dataclass(frozen=True)
class Printed:
    """What a tool printed, line by line, and its exit status."""

    status: int
    output: tuple[str, ...]
    errors: tuple[str, ...]


class ToolMachine:
    """The program Tools.java. Ends with the block."""

    def __init__(self) -> None:
        (tools,) = KAFKA_LIBS.glob("kafka-tools-[0-9]*.jar")
        others = sorted(str(jar) for jar in KAFKA_LIBS.glob("*.jar") if jar != tools)
        self._process = subprocess.Popen(
            [*JAVA, "-cp", ":".join(others), str(SOURCE), str(tools)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self._process.kill()
        self._process.communicate()

    def run(self, *call: str, given: str = "") -> Printed:
        """Run a class with arguments and a standard input, in which "\\n" and "\\t" stand for these.

        A tool that hangs ends the machine, and the test.
        """
        self._input.write("\t".join((given, *call)) + "\n")
        self._input.flush()
        late = Timer(TIMEOUT_S, self._process.kill)
        late.start()
        printed: dict[str, list[str]] = {"out": [], "err": []}
        while True:
            kind, _, line = self._output.readline().rstrip("\n").partition(" ")
            assert kind, "the tools have ended, or one of them has hung"
            if kind == "status":
                late.cancel()
                return Printed(int(line), tuple(printed["out"]), tuple(printed["err"]))
            printed[kind].append(line)

    @property
    def _input(self) -> IO[str]:
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def _output(self) -> IO[str]:
        assert self._process.stdout is not None
        return self._process.stdout
