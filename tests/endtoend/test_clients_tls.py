"""The real clients, unmodified, behind TLS: alone with a certificate of their own, and with a login.
Megabytes there and back through a consumer group; and what openssl's own client finds when it does as it
should not.
"""

import asyncio
import shutil
import subprocess
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from benchmarks.install import KAFKA_LIBS
from tests.support.broker_process import LOGIN_MODULE, USERS, BrokerProcess, within
from tests.support.certificates import Identity, certificates
from tests.support.quota_interfaces import set_by_rest

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its schemas in a way that is going
    from kafka import KafkaConsumer, KafkaProducer

pytestmark = [
    pytest.mark.endtoend,
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:Exception ignored in. <s:pytest.PytestUnraisableExceptionWarning"),
]

TIMEOUT: Final = 20
MEGABYTE: Final = [bytes([number]) * 1_000_000 for number in range(8)]
SMALL: Final = [b"%d" % number for number in range(1_000)]
ALICE: Final = "CN=alice,OU=ops,O=Weir\\, Inc.,C=DE"
PROTOCOLS: Final = ["SSL", "SASL_SSL"]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Its first address is that of SSL, which demands a certificate, its second that of SASL_SSL."""
    known = certificates()
    users = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
    overrides = [
        "listeners=SSL://127.0.0.1:0,SASL_SSL://127.0.0.1:0",
        f"listener.name.sasl_ssl.plain.sasl.jaas.config={LOGIN_MODULE} {users};",
        f"ssl.keystore.location={known.server.store}",
        f"ssl.truststore.location={known.authority.certificate}",
        "listener.name.ssl.ssl.client.auth=required",
        "group.initial.rebalance.delay.ms=200",
        "message.max.bytes=2000000",
    ]
    with BrokerProcess(tmp_path_factory.mktemp("data"), *overrides) as process:
        yield process


def address(broker: BrokerProcess, protocol: str) -> str:
    return broker.plain if protocol == "SSL" else broker.sasl


# One way to write and to read for each client: (address, protocol, topic, values) -> values read


def librdkafka(broker: BrokerProcess, protocol: str, identity: Identity | None = None) -> dict[str, Any]:
    shown = identity or certificates().alice
    settings = {
        "bootstrap.servers": address(broker, protocol),
        "security.protocol": protocol,
        "ssl.ca.location": str(certificates().authority.certificate),
    }
    if protocol == "SSL":
        settings |= {"ssl.certificate.location": str(shown.certificate), "ssl.key.location": str(shown.key)}
    else:
        settings |= {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": USERS["alice"]}
    return settings


def by_confluent(broker: BrokerProcess, protocol: str, topic: str, values: list[bytes]) -> list[bytes]:
    settings = librdkafka(broker, protocol)
    errors: list[KafkaError] = []
    producer = Producer({**settings, "linger.ms": 5, "message.max.bytes": 1_500_000})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error) if error else None)
    assert producer.flush(TIMEOUT) == 0 and errors == []
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    read: list[bytes] = []
    while len(read) < len(values):
        message = consumer.poll(TIMEOUT)
        assert message is not None and message.error() is None
        read.append(bytes(message.value() or b""))
    consumer.close()
    return read


def python_settings(broker: BrokerProcess, protocol: str) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap_servers": address(broker, protocol),
        "security_protocol": protocol,
        "ssl_context": certificates().client_context(certificates().alice),
    }
    if protocol == "SASL_SSL":
        settings |= {
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": "alice",
            "sasl_plain_password": USERS["alice"],
        }
    return settings


def by_kafka_python(broker: BrokerProcess, protocol: str, topic: str, values: list[bytes]) -> list[bytes]:
    settings = python_settings(broker, protocol)
    producer = KafkaProducer(**settings, linger_ms=5, max_request_size=1_500_000)
    for each in [producer.send(topic, value) for value in values]:
        each.get(TIMEOUT)
    producer.close()
    consumer = KafkaConsumer(
        topic,
        **settings,
        group_id=topic,
        auto_offset_reset="earliest",
        consumer_timeout_ms=TIMEOUT * 1_000,
    )
    read: list[bytes] = []
    for record in consumer:
        read.append(record.value)
        if len(read) == len(values):
            break
    consumer.close()
    return read


def by_aiokafka(broker: BrokerProcess, protocol: str, topic: str, values: list[bytes]) -> list[bytes]:
    settings = python_settings(broker, protocol)

    async def scenario() -> list[bytes]:
        producer = AIOKafkaProducer(**settings, linger_ms=5, max_request_size=1_500_000)
        await producer.start()
        await asyncio.gather(*[await producer.send(topic, value) for value in values])
        await producer.stop()
        consumer = AIOKafkaConsumer(topic, **settings, group_id=topic, auto_offset_reset="earliest")
        await consumer.start()
        read = [(await consumer.getone()).value for _ in values]
        await consumer.stop()
        return read

    return asyncio.run(asyncio.wait_for(scenario(), 3 * TIMEOUT))


CLIENTS: Final = [by_confluent, by_kafka_python, by_aiokafka]
Client = Callable[[BrokerProcess, str, str, list[bytes]], list[bytes]]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("values", [SMALL, MEGABYTE], ids=["small", "megabytes"])
def test_produced_records_come_back(
    broker: BrokerProcess, client: Client, protocol: str, values: list[bytes]
) -> None:
    assert client(broker, protocol, f"{client.__name__}-{protocol}-{len(values)}", values) == values


def test_a_certificate_names_the_user_that_a_quota_holds(broker: BrokerProcess) -> None:
    set_by_rest(broker, {"user": ALICE}, 200_000)
    try:
        producer = Producer({**librdkafka(broker, "SSL"), "client.id": "certified", "linger.ms": 5})
        for _ in range(3_000):
            producer.produce("of-alice", bytes(1_000))
        row = within(5, lambda: producer.poll(0.05) and broker.throttled("certified"), "it is throttled")
        assert row["entity"] == {"user": ALICE}
    finally:
        set_by_rest(broker, {"user": ALICE}, None)


@pytest.mark.parametrize("identity", [None, "stranger"])
def test_a_client_without_a_certificate_that_is_known_is_refused(
    broker: BrokerProcess, identity: str | None
) -> None:
    settings = librdkafka(broker, "SSL", certificates().stranger)
    if identity is None:
        del settings["ssl.certificate.location"], settings["ssl.key.location"]
    errors: list[KafkaError] = []
    admin = AdminClient({**settings, "error_cb": errors.append})
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=2)
    admin.poll(0.1)
    assert errors
    admin.poll(0)
    assert any(word in str(errors) for word in ("unknown ca", "certificate required"))


# openssl's client, doing what it should not


def s_client(broker: BrokerProcess, *arguments: str, sent: str = "") -> str:
    command = ["openssl", "s_client", "-connect", broker.sasl, *arguments]
    done = subprocess.run(command, input=sent, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    return done.stdout + done.stderr


@pytest.mark.parametrize("version", ["-tls1", "-tls1_1"])
def test_old_versions_are_refused(broker: BrokerProcess, version: str) -> None:
    """F17."""
    found = s_client(broker, version, "-cipher", "ALL:@SECLEVEL=0")
    assert "alert protocol version" in found
    assert "Cipher is (NONE)" in found


def test_a_renegotiation_is_refused(broker: BrokerProcess) -> None:
    """F17: a line of a single R asks for one."""
    found = s_client(broker, "-tls1_2", sent="R\n")
    assert "RENEGOTIATING" in found
    assert "no renegotiation" in found


@pytest.mark.parametrize("cipher", ["NULL-SHA256", "ADH-AES128-SHA256", "AES128-SHA"])
def test_weak_ciphers_are_refused(broker: BrokerProcess, cipher: str) -> None:
    assert "Cipher is (NONE)" in s_client(broker, "-tls1_2", "-cipher", f"{cipher}:@SECLEVEL=0")


def test_the_chain_is_shown_and_holds_for_the_name(broker: BrokerProcess) -> None:
    trust = ("-CAfile", str(certificates().authority.certificate), "-verify_hostname", "localhost")
    assert "Verify return code: 0 (ok)" in s_client(broker, *trust)


# Kafka's own client


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("java") is None or not KAFKA_LIBS.exists(),
    reason="needs Java and `python -m benchmarks.install kafka`",
)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_java_client_produces_and_consumes(
    broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory, protocol: str
) -> None:
    known, topic = certificates(), f"java-{protocol}"
    settings = {
        "bootstrap.servers": address(broker, protocol),
        "security.protocol": protocol,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(known.authority.certificate),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(known.alice.store),
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{LOGIN_MODULE} username="alice" password="{USERS["alice"]}";',
    }
    file = tmp_path_factory.mktemp("java") / "client.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))

    def tool(name: str, *arguments: str) -> str:
        command = ["java", "-Xmx256m", "-cp", f"{KAFKA_LIBS}/*", name, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    produced = tool(
        *("org.apache.kafka.tools.ProducerPerformance", "--topic", topic, "--num-records", "2000"),
        *("--record-size", "10000", "--throughput", "-1", "--producer.config", str(file)),
    )
    assert "2000 records sent" in produced
    consumed = tool(
        *("org.apache.kafka.tools.consumer.ConsoleConsumer", "--topic", topic, "--from-beginning"),
        *("--bootstrap-server", address(broker, protocol), "--command-config", str(file)),
        *("--max-messages", "2000", "--timeout-ms", "20000"),
    )
    assert len(consumed.splitlines()) == 2_000
