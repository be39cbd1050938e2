"""SCRAM with the three Python clients: made by an administrator's, used by all, gone when removed."""

import asyncio
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import aiokafka
import confluent_kafka
import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from tests.support.broker_process import BrokerProcess

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its schemas in a way that is going
    import kafka

pytestmark = pytest.mark.endtoend

MECHANISMS: Final = {
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
}
TOPIC: Final = "orders"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with with_users(tmp_path_factory.mktemp("data")) as process:
        yield process


@contextmanager
def with_users(directory: Path) -> Iterator[BrokerProcess]:
    """A broker with a user for each mechanism."""
    with BrokerProcess(directory, "sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512") as process:
        admin = AdminClient({"bootstrap.servers": process.plain})
        for number, (name, mechanism) in enumerate(MECHANISMS.items()):
            info = ScramCredentialInfo(mechanism, 4_096 + number)
            alter(admin, UserScramCredentialUpsertion(f"user-of-{name}", info, b"secret"))
        yield process


def alter(admin: AdminClient, alteration: Any) -> None:
    for future in admin.alter_user_scram_credentials([alteration]).values():
        future.result(10)


def by_confluent(address: str, mechanism: str, user: str, password: str) -> None:
    settings = {
        "bootstrap.servers": address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
        "message.timeout.ms": 5_000,
        "log_level": 0,
    }
    failures: list[object] = []
    producer = confluent_kafka.Producer(settings)
    producer.produce(TOPIC, b"value", on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(10) == 0
    # Comparing a KafkaError with None leaves a TypeError behind, which a later call may raise.
    assert len(failures) == 1 and failures[0] is None, failures


def by_kafka_python(address: str, mechanism: str, user: str, password: str) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=address,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_plain_username=user,
        sasl_plain_password=password,
    )
    try:
        producer.send(TOPIC, b"value").get(10)
    finally:
        producer.close(5)


def by_aiokafka(address: str, mechanism: str, user: str, password: str) -> None:
    async def send() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=address,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username=user,
            sasl_plain_password=password,
        )
        try:
            await producer.start()
            await producer.send_and_wait(TOPIC, b"value")
        finally:
            await producer.stop()

    asyncio.run(send())


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("send", [by_confluent, by_kafka_python, by_aiokafka])
def test_a_client_logs_in_and_produces(
    broker: BrokerProcess, send: Callable[[str, str, str, str], None], mechanism: str
) -> None:
    send(broker.sasl, mechanism, f"user-of-{mechanism}", "secret")


def test_a_wrong_password_is_refused(broker: BrokerProcess) -> None:
    with pytest.raises(AssertionError, match=r"_MSG_TIMED_OUT|_AUTHENTICATION"):
        by_confluent(broker.sasl, "SCRAM-SHA-256", "user-of-SCRAM-SHA-256", "wrong")


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with with_users(tmp_path) as process:
        yield process


def test_users_are_described_kept_over_a_restart_and_removed(own_broker: BrokerProcess) -> None:
    broker = own_broker

    def described() -> dict[str, list[tuple[Any, int]]]:
        admin = AdminClient({"bootstrap.servers": broker.plain})
        found = admin.describe_user_scram_credentials().result(10)
        return {
            name: [(info.mechanism, info.iterations) for info in each.scram_credential_infos]
            for name, each in found.items()
        }

    before = described()
    assert before == {
        "user-of-SCRAM-SHA-256": [(ScramMechanism.SCRAM_SHA_256, 4_096)],
        "user-of-SCRAM-SHA-512": [(ScramMechanism.SCRAM_SHA_512, 4_097)],
    }
    broker.kill()
    broker.start()
    assert described() == before
    name = "user-of-SCRAM-SHA-512"
    by_confluent(broker.sasl, "SCRAM-SHA-512", name, "secret")
    admin = AdminClient({"bootstrap.servers": broker.plain})
    alter(admin, UserScramCredentialDeletion(name, ScramMechanism.SCRAM_SHA_512))
    assert list(described()) == ["user-of-SCRAM-SHA-256"]
    with pytest.raises(AssertionError):
        by_confluent(broker.sasl, "SCRAM-SHA-512", name, "secret")
