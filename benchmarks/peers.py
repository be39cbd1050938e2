"""The peers and their start: alone, in one process, with writes left to the page cache.

Used by benchmarks.run and benchmarks.process. Has commands and configuration files; independent of the
loads.
"""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.install import KAFKA_LIBS, KFAKE_PROGRAM, tansu_program


@dataclass(frozen=True, slots=True)
class Peer:
    """A broker to compare. The time of `prepare` does not count; start-up is timed from `command`.

    `rehearsal` names loads that run once, uncounted, before the first counted one.
    """

    name: str
    title: str
    storage: str
    command: Callable[[Path, int], list[str]]
    prepare: Callable[[Path, int], None] = lambda directory, port: None
    warm_up_s: float = 1.5
    rehearsal: tuple[str, ...] = ()


def _weir_command(directory: Path, port: int) -> list[str]:
    return [
        str(Path(sys.executable).with_name("weir")),
        "serve",
        f"--override=listeners=PLAINTEXT://127.0.0.1:{port}",
        f"--override=log.dirs={directory / 'data'}",
        f"--override=console.listener=127.0.0.1:{port + 1}",
    ]


KAFKA_PROPERTIES: Final = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={data}
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
auto.create.topics.enable=false
log.segment.delete.delay.ms=1000
"""

# bin/kafka-run-class.sh has the same performance options.
KAFKA_JVM: Final = (
    "-Xmx1g",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)


def _java(*arguments: str) -> list[str]:
    return ["java", *KAFKA_JVM, "-cp", f"{KAFKA_LIBS}/*", *arguments]


def _prepare_kafka(directory: Path, port: int) -> None:
    properties = directory / "server.properties"
    properties.write_text(
        KAFKA_PROPERTIES.format(port=port, controller_port=port + 1, data=directory / "data"),
        encoding="utf-8",
    )
    formatting = _java(
        "kafka.tools.StorageTool", "format", "-t", "4L6g3nShT-eMCtK--X86sw", "-c", str(properties)
    )
    subprocess.run(formatting, check=True, capture_output=True)


def _kafka_command(directory: Path, port: int) -> list[str]:
    return _java("kafka.Kafka", str(directory / "server.properties"))


def _kfake_command(directory: Path, port: int) -> list[str]:
    return [str(KFAKE_PROGRAM), f"-port={port}", f"-data-dir={directory / 'data'}"]


def _tansu_command(directory: Path, port: int) -> list[str]:
    url = f"tcp://127.0.0.1:{port}"
    return [
        str(tansu_program()),
        "broker",
        f"--listener-url={url}",
        f"--advertised-listener-url={url}",
        "--silent",
    ]


PEERS: Final = {
    peer.name: peer
    for peer in (
        Peer("weir", "Weir", "files, page cache", _weir_command),
        # A JVM compiles the common path of all requests for some 20 s, a load's own path for some seconds.
        Peer(
            "kafka",
            "Kafka 4.1.1",
            "files, page cache",
            _kafka_command,
            _prepare_kafka,
            warm_up_s=4,
            rehearsal=("metadata", "produce_100b"),
        ),
        Peer("kfake", "kfake", "files, page cache", _kfake_command),
        # The published binary has only the object-store engine, on memory or on S3: memory is the fastest.
        Peer("tansu", "tansu 0.6.0", "memory only, nothing on disk", _tansu_command),
    )
}
