"""Kafka's Java client, its tools and Kafka Streams on Java 25, where a machine has it beside its own Java.

Since Java 24 there is no security manager, through which older clients took the user of a login.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.endtoend.test_clients_streams_brokers import totals_over_a_kill
from tests.support import jvm_clients, kafka_tools
from tests.support.broker_process import LOGIN_MODULE, USERS, BrokerProcess
from tests.support.certificates import certificates
from tests.support.client_programs import MECHANISMS, broker_for_clients, tls_broker_for_clients
from tests.support.jvm_clients import classpath
from tests.support.kafka_tools import CONFIGS, CONSUMER, DUMP, GROUPS, PRODUCER, TOPICS, ask, rows, run
from tests.support.streams import STREAMS_GROUPS, Orders, Words

JAVA_25: Final = sorted(Path("/usr/lib/jvm").glob("*-25-*/bin/javac"))

pytestmark = [
    *jvm_clients.pytestmark,
    *kafka_tools.pytestmark,
    pytest.mark.skipif(not JAVA_25, reason="needs a JDK 25 in /usr/lib/jvm"),
]


@pytest.fixture(scope="module", autouse=True)
def _java_25() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PATH", f"{JAVA_25[0].parent}:{os.environ['PATH']}")
        version = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
        assert ' version "25' in version
        yield


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with broker_for_clients(tmp_path_factory.mktemp("data"), *STREAMS_GROUPS) as process:
        yield process


def produce(address: str, topic: str, *settings: str, login: Path | None = None) -> None:
    done = run(
        *(PRODUCER, "--topic", topic, "--num-records", "1000", "--record-size", "100", "--throughput", "-1"),
        *("--bootstrap-server", address, *with_login(login)),
        *(("--command-property", *settings) if settings else ()),
    )
    assert "1000 records sent" in done


def with_login(file: Path | None) -> tuple[str, ...]:
    return ("--command-config", str(file)) if file else ()


def consume(address: str, topic: str, records: int, *more: str, login: Path | None = None) -> None:
    consumed = run(
        *(CONSUMER, "--bootstrap-server", address, "--topic", topic, "--from-beginning"),
        *("--max-messages", str(records), "--timeout-ms", "30000", *with_login(login), *more),
    )
    assert len(consumed.splitlines()) == records


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_reads_every_compression(broker: BrokerProcess, protocol: str) -> None:
    topic = f"compressed-{protocol}"
    ask(broker, TOPICS, "--create", "--topic", topic, "--partitions", "3")
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        produce(broker.plain, topic, "acks=all", f"compression.type={codec}")
    group = ("--group", topic, "--command-property", f"group.protocol={protocol}")
    consume(broker.plain, topic, 4_000, *group)
    described = rows(ask(broker, GROUPS, "--describe", "--group", topic))
    assert [row[5] for row in described if row[:2] == [topic, topic]] == ["0", "0", "0"]


def test_a_transaction_is_committed(broker: BrokerProcess) -> None:
    produce(broker.plain, "committed", "transactional.id=java-25")
    consume(broker.plain, "committed", 1_000, "--isolation-level", "read_committed")


def test_a_share_group_reads_every_record(broker: BrokerProcess) -> None:
    produce(broker.plain, "shared")
    group = ("--entity-type", "groups", "--entity-name", "sharing")
    ask(broker, CONFIGS, "--alter", *group, "--add-config", "share.auto.offset.reset=earliest")
    consumed = ask(
        *(broker, "org.apache.kafka.tools.consumer.ConsoleShareConsumer", "--topic", "shared"),
        *("--group", "sharing", "--max-messages", "1000", "--timeout-ms", "30000"),
    )
    assert len(consumed.splitlines()) == 1_000


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_each_mechanism_of_sasl(broker: BrokerProcess, tmp_path: Path, mechanism: str) -> None:
    module = LOGIN_MODULE if mechanism == "PLAIN" else LOGIN_MODULE.replace("plain.Plain", "scram.Scram")
    file = tmp_path / "client.properties"
    file.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
        f'sasl.jaas.config={module} username="alice" password="{USERS["alice"]}";\n'
    )
    topic = f"login-{mechanism}"
    produce(broker.sasl, topic, login=file)
    consume(broker.sasl, topic, 1_000, login=file)


def test_tls(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SSL\nssl.truststore.type=PEM\n"
        f"ssl.truststore.location={certificates().authority.certificate}\n"
    )
    with tls_broker_for_clients(tmp_path_factory.mktemp("tls")) as broker:
        produce(broker.plain, "secret", login=file)
        consume(broker.plain, "secret", 1_000, login=file)


def test_a_segment_is_dumped(broker: BrokerProcess) -> None:
    produce(broker.plain, "dumped")
    segment = broker.directory / "dumped-0" / f"{0:020}.log"
    dumped = run(DUMP, "--files", str(segment), "--print-data-log")
    assert dumped.count(" payload: ") == 1_000


@pytest.mark.parametrize("protocol", ["classic", "streams"])
@pytest.mark.parametrize("kind", [Words, Orders])
def test_totals_of_streams_are_exact_when_an_instance_is_killed(
    broker: BrokerProcess,
    kind: type[Words | Orders],
    protocol: str,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = classpath("streams", tmp_path_factory.mktemp("classes"))
    results = kind(broker.plain, f"{kind.program.lower()}-{protocol}")
    totals_over_a_kill(path, results, tmp_path, protocol, 2)
