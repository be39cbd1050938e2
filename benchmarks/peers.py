"""The peers and their start: alone, in one process, with writes left to the page cache.

Used by benchmarks.run and benchmarks.process. Has commands and configuration files; independent of the
loads.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from benchmarks.install import KAFKA_LIBS, KFAKE_PROGRAM, tansu_program
from broker.common.version import KAFKA_VERSION


@dataclass(frozen=True, slots=True)
class Peer:
    """A broker to compare. The time of `prepare` does not count; start-up is timed from `command`.

    `rehearsal` names loads that run once, uncounted, before the first counted one. `tls`: its one listener
    for clients speaks TLS, and so do the loads.
    """

    name: str
    title: str
    storage: str
    command: Callable[[Path, int], list[str]]
    prepare: Callable[[Path, int], None] = lambda directory, port: None
    warm_up_s: float = 1.5
    rehearsal: tuple[str, ...] = ()
    tls: bool = False


def weir_program() -> str:
    """Return the `weir` to measure: WEIR_PROGRAM, or that of this environment."""
    return os.environ.get("WEIR_PROGRAM", str(Path(sys.executable).with_name("weir")))


def _weir_command(directory: Path, port: int) -> list[str]:
    return [
        weir_program(),
        "serve",
        f"--override=listeners=PLAINTEXT://127.0.0.1:{port}",
        f"--override=log.dirs={directory / 'data'}",
        f"--override=console.listener=127.0.0.1:{port + 1}",
    ]


def prepare_certificate(directory: Path, _port: int) -> None:
    """Write a new key and its self-signed certificate: key.pem, certificate.pem, both in store.pem."""
    key, certificate = directory / "key.pem", directory / "certificate.pem"
    files = ("-keyout", str(key), "-out", str(certificate))
    subject = ("-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1")
    command = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *files, *subject)
    subprocess.run(command, check=True, capture_output=True)
    (directory / "store.pem").write_text(key.read_text() + certificate.read_text(), encoding="ascii")


def _weir_tls_command(directory: Path, port: int) -> list[str]:
    return [
        *(each.replace("PLAINTEXT://", "SSL://") for each in _weir_command(directory, port)),
        "--override=wire.role=admin",
        "--override=ssl.keystore.type=PEM",
        f"--override=ssl.keystore.location={directory / 'store.pem'}",
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
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
auto.create.topics.enable=false
log.segment.delete.delay.ms=1000
"""
KAFKA_TLS_PROPERTIES: Final = """\
listeners=SSL://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=SSL://127.0.0.1:{port}
listener.security.protocol.map=SSL:SSL,CONTROLLER:PLAINTEXT
inter.broker.listener.name=SSL
ssl.keystore.type=PEM
ssl.keystore.location={store}
ssl.truststore.type=PEM
ssl.truststore.location={certificate}
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


def _prepare_kafka_tls(directory: Path, port: int) -> None:
    prepare_certificate(directory, port)
    _prepare_kafka(directory, port)
    more = KAFKA_TLS_PROPERTIES.format(
        port=port,
        controller_port=port + 1,
        store=directory / "store.pem",
        certificate=directory / "certificate.pem",
    )
    with (directory / "server.properties").open("a", encoding="utf-8") as properties:
        properties.write(more)  # of a key that is there twice, the last counts


def _kafka_command(directory: Path, port: int) -> list[str]:
    return _java("kafka.Kafka", str(directory / "server.properties"))


def _kfake_command(directory: Path, port: int) -> list[str]:
    return [str(KFAKE_PROGRAM), f"-port={port}", f"-data-dir={directory / 'data'}"]


def _kfake_tls_command(directory: Path, port: int) -> list[str]:
    files = (f"-certificate={directory / 'certificate.pem'}", f"-key={directory / 'key.pem'}")
    return [*_kfake_command(directory, port), *files]


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
            f"Kafka {KAFKA_VERSION}",
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
# The published tansu has no TLS.
TLS_PEERS: Final = {
    name: replace(PEERS[name], command=command, prepare=prepare, tls=True)
    for name, command, prepare in (
        ("weir", _weir_tls_command, prepare_certificate),
        ("kafka", _kafka_command, _prepare_kafka_tls),
        ("kfake", _kfake_tls_command, prepare_certificate),
    )
}
