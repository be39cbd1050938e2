"""One way to write and to read for each Python client, so that a scenario can be told once and run with each.

Used by tests/endtoend/gateway. The clients are unmodified; what is not set here has their own default.
"""

import asyncio
import json
import time
import warnings
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import aiokafka
import confluent_kafka
from aiokafka.abc import AbstractTokenProvider as AIOKafkaTokenProvider
from aiokafka.helpers import create_ssl_context
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.broker_process import USERS
from tests.support.certificates import certificates

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its schemas in a way that is going
    import kafka
    from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaPythonTokenProvider

TIMEOUT_S: Final = 30
OAUTHBEARER: Final = "OAUTHBEARER"
MAX_BYTES: Final = 11_000_000
"""Of a request and of a fetched batch: more than any client's default."""


@dataclass(frozen=True)
class Target:
    """Where a client connects, and as whom. `mechanism` is that of SASL; with OAUTHBEARER the token has no
    signature, names the user, and is good for `token_life_s`. `authority` is the file of the certificates
    that it trusts, those of the tests unless set.
    """

    bootstrap: str
    protocol: str = "PLAINTEXT"
    mechanism: str = ""
    user: str = "alice"
    password: str = USERS["alice"]
    token_life_s: int = 600
    authority: str = ""

    @property
    def trusted(self) -> str:
        return self.authority or str(certificates().authority.certificate)


class Client(Protocol):
    """Each method connects anew and ends its connections. Errors are the client's own, raised in time."""

    name: str

    def produce(
        self,
        target: Target,
        topic: str,
        values: Sequence[bytes],
        *,
        acks: str = "all",
        codec: str = "none",
        idempotent: bool = False,
        partition: int | None = 0,
    ) -> list[int]:
        """The offsets that were acknowledged, sorted; with acks=0 some offsets or none."""

    def read(
        self, target: Target, topic: str, count: int, *, partitions: int = 1, committed: bool = False
    ) -> list[bytes]:
        """Values from the beginning, in the order of each partition; less than `count` after some time.
        With `committed`, those of committed transactions only.
        """

    def transact(self, target: Target, topic: str, values: Sequence[bytes], *, commit: bool) -> None:
        """One transaction, committed or aborted after all values were sent."""

    def login(self, target: Target) -> None:
        """Raises the client's error within seconds if it is refused."""


def create(target: Target, topic: str, partitions: int = 1, replicas: int = 3) -> None:
    admin = AdminClient(librdkafka(target))
    admin.create_topics([NewTopic(topic, partitions, replicas)])[topic].result(TIMEOUT_S)
    # Kafka confirms a topic before every broker has it.
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        found = admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions.values()
        if len(found) == partitions and all(each.leader >= 0 for each in found):
            return
        assert time.monotonic() < deadline, f"{topic} has no leaders"
        time.sleep(0.05)


def librdkafka(target: Target, **settings: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"bootstrap.servers": target.bootstrap, "security.protocol": target.protocol}
    if target.mechanism == OAUTHBEARER:
        life = f"lifeSeconds={target.token_life_s}"
        found |= {
            "sasl.mechanism": target.mechanism,
            "enable.sasl.oauthbearer.unsecure.jwt": True,
            "sasl.oauthbearer.config": f"principal={target.user} {life}",
        }
    elif target.mechanism:
        found |= {
            "sasl.mechanism": target.mechanism,
            "sasl.username": target.user,
            "sasl.password": target.password,
        }
    if target.protocol == "SSL":
        found["ssl.ca.location"] = target.trusted
    return found | settings


def unsigned_token(target: Target) -> str:
    """A JSON Web Token without a signature, which a Kafka broker accepts by default. (RFC 7519, section 6)"""
    now = int(time.time())
    claims = {"sub": target.user, "iat": now - 1_000, "exp": now + target.token_life_s}
    parts = (json.dumps(part).encode() for part in ({"alg": "none"}, claims))
    return ".".join(urlsafe_b64encode(part).decode().rstrip("=") for part in parts) + "."


class KafkaPythonTokens(KafkaPythonTokenProvider):
    """The tokens of kafka-python."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def token(self) -> str:
        return unsigned_token(self._target)


class AIOKafkaTokens(AIOKafkaTokenProvider):
    """The tokens of aiokafka."""

    def __init__(self, target: Target) -> None:
        self._target = target

    async def token(self) -> str:
        return unsigned_token(self._target)


def python(target: Target, tokens: type[KafkaPythonTokens | AIOKafkaTokens]) -> dict[str, Any]:
    """kafka-python and aiokafka have the same names."""
    found: dict[str, Any] = {
        "bootstrap_servers": target.bootstrap.split(","),
        "security_protocol": target.protocol,
    }
    if target.mechanism == OAUTHBEARER:
        found |= {"sasl_mechanism": target.mechanism, "sasl_oauth_token_provider": tokens(target)}
    elif target.mechanism:
        found |= {
            "sasl_mechanism": target.mechanism,
            "sasl_plain_username": target.user,
            "sasl_plain_password": target.password,
        }
    if target.protocol == "SSL":
        found["ssl_context"] = create_ssl_context(cafile=target.trusted)
    return found


class Confluent:
    """confluent-kafka, which is librdkafka."""

    name = "confluent"

    def produce(
        self,
        target: Target,
        topic: str,
        values: Sequence[bytes],
        *,
        acks: str = "all",
        codec: str = "none",
        idempotent: bool = False,
        partition: int | None = 0,
    ) -> list[int]:
        settings = {
            "acks": acks,
            "compression.type": codec,
            "enable.idempotence": idempotent,
            "message.max.bytes": MAX_BYTES,
            "linger.ms": 5,
            "log_level": 0,
            "message.timeout.ms": TIMEOUT_S * 1_000,
        }
        producer = confluent_kafka.Producer(librdkafka(target, **settings))
        offsets = self._send(producer, topic, values, partition)
        if acks == "0":
            time.sleep(0.5)  # a producer that ends closes its connections with what they had not sent yet
        return sorted(offsets)

    def _send(
        self, producer: confluent_kafka.Producer, topic: str, values: Sequence[bytes], partition: int | None
    ) -> list[int]:
        offsets: list[int] = []
        errors: list[confluent_kafka.KafkaError] = []

        def delivered(error: confluent_kafka.KafkaError | None, message: Any) -> None:
            if error is not None:
                errors.append(error)
            elif (offset := message.offset()) is not None:
                offsets.append(offset)

        where = {} if partition is None else {"partition": partition}
        for value in values:
            producer.produce(topic, value, on_delivery=delivered, **where)
            producer.poll(0)
        left = producer.flush(TIMEOUT_S)
        if errors or left:
            raise confluent_kafka.KafkaException(*errors[:1])
        return offsets

    def read(
        self, target: Target, topic: str, count: int, *, partitions: int = 1, committed: bool = False
    ) -> list[bytes]:
        settings = {
            "group.id": topic,
            "enable.auto.commit": False,
            "log_level": 0,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
        }
        consumer = confluent_kafka.Consumer(librdkafka(target, **settings))
        consumer.assign([confluent_kafka.TopicPartition(topic, each, 0) for each in range(partitions)])
        values: list[bytes] = []
        deadline = time.monotonic() + TIMEOUT_S
        while len(values) < count and time.monotonic() < deadline:
            for message in consumer.consume(count - len(values), timeout=0.2):
                if error := message.error():
                    raise confluent_kafka.KafkaException(error)
                values.append(message.value() or b"")
        consumer.close()
        return values

    def transact(self, target: Target, topic: str, values: Sequence[bytes], *, commit: bool) -> None:
        settings = {"transactional.id": f"of-{topic}", "log_level": 0}
        producer = confluent_kafka.Producer(librdkafka(target, **settings))
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        self._send(producer, topic, values, 0)
        if commit:
            producer.commit_transaction(TIMEOUT_S)
        else:
            producer.abort_transaction(TIMEOUT_S)

    def login(self, target: Target) -> None:
        errors: list[confluent_kafka.KafkaError] = []
        admin = AdminClient(librdkafka(target, log_level=0, error_cb=errors.append))
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            try:
                admin.list_topics(timeout=1)
                return
            except confluent_kafka.KafkaException:
                admin.poll(0.1)
                refused = [
                    each for each in errors if each.code() == confluent_kafka.KafkaError._AUTHENTICATION
                ]
                if refused or time.monotonic() > deadline:
                    raise


class KafkaPython:
    """kafka-python."""

    name = "kafka-python"

    def produce(
        self,
        target: Target,
        topic: str,
        values: Sequence[bytes],
        *,
        acks: str = "all",
        codec: str = "none",
        idempotent: bool = False,
        partition: int | None = 0,
    ) -> list[int]:
        producer = kafka.KafkaProducer(
            **python(target, KafkaPythonTokens),
            acks="all" if acks == "all" else int(acks),
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
            max_request_size=MAX_BYTES,
            max_block_ms=TIMEOUT_S * 1_000,
            linger_ms=5,
        )
        try:
            sent = [producer.send(topic, value, partition=partition) for value in values]
            producer.flush(TIMEOUT_S)
            return sorted(each.get(TIMEOUT_S).offset for each in sent)
        finally:
            producer.close()

    def read(
        self, target: Target, topic: str, count: int, *, partitions: int = 1, committed: bool = False
    ) -> list[bytes]:
        consumer = kafka.KafkaConsumer(
            **python(target, KafkaPythonTokens),
            group_id=None,
            max_partition_fetch_bytes=MAX_BYTES,
            isolation_level="read_committed" if committed else "read_uncommitted",
        )
        try:
            places = [kafka.TopicPartition(topic, each) for each in range(partitions)]
            consumer.assign(places)
            consumer.seek_to_beginning(*places)
            values: list[bytes] = []
            deadline = time.monotonic() + TIMEOUT_S
            while len(values) < count and time.monotonic() < deadline:
                for records in consumer.poll(200, max_records=count - len(values)).values():
                    values += [record.value for record in records]
            return values
        finally:
            consumer.close()

    def transact(self, target: Target, topic: str, values: Sequence[bytes], *, commit: bool) -> None:
        producer = kafka.KafkaProducer(**python(target, KafkaPythonTokens), transactional_id=f"of-{topic}")
        try:
            producer.init_transactions()
            producer.begin_transaction()
            for each in [producer.send(topic, value, partition=0) for value in values]:
                each.get(TIMEOUT_S)
            if commit:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
        finally:
            producer.close()

    def login(self, target: Target) -> None:
        kafka.KafkaAdminClient(**python(target, KafkaPythonTokens), bootstrap_timeout_ms=3_000).close()


class AIOKafka:
    """aiokafka, in an asyncio loop of its own for each call."""

    name = "aiokafka"

    def produce(
        self,
        target: Target,
        topic: str,
        values: Sequence[bytes],
        *,
        acks: str = "all",
        codec: str = "none",
        idempotent: bool = False,
        partition: int | None = 0,
    ) -> list[int]:
        async def scenario() -> list[int]:
            async with aiokafka.AIOKafkaProducer(
                **python(target, AIOKafkaTokens),
                acks="all" if acks == "all" else int(acks),
                compression_type=None if codec == "none" else codec,
                enable_idempotence=idempotent,
                max_request_size=MAX_BYTES,
                linger_ms=5,
            ) as producer:
                sent = [await producer.send(topic, value, partition=partition) for value in values]
                acknowledged = await asyncio.gather(*sent)
            return sorted(each.offset for each in acknowledged if each is not None)

        return _in_time(scenario())

    def read(
        self, target: Target, topic: str, count: int, *, partitions: int = 1, committed: bool = False
    ) -> list[bytes]:
        async def scenario() -> list[bytes]:
            async with aiokafka.AIOKafkaConsumer(
                **python(target, AIOKafkaTokens),
                group_id=None,
                max_partition_fetch_bytes=MAX_BYTES,
                isolation_level="read_committed" if committed else "read_uncommitted",
            ) as consumer:
                places = [aiokafka.TopicPartition(topic, each) for each in range(partitions)]
                consumer.assign(places)
                await consumer.seek_to_beginning(*places)
                values: list[bytes] = []
                deadline = time.monotonic() + TIMEOUT_S
                while len(values) < count and time.monotonic() < deadline:
                    found = await consumer.getmany(timeout_ms=200, max_records=count - len(values))
                    values += [record.value for records in found.values() for record in records]
                return values

        return _in_time(scenario())

    def transact(self, target: Target, topic: str, values: Sequence[bytes], *, commit: bool) -> None:
        async def scenario() -> None:
            async with aiokafka.AIOKafkaProducer(
                **python(target, AIOKafkaTokens), transactional_id=f"of-{topic}"
            ) as producer:
                await producer.begin_transaction()
                for each in [await producer.send(topic, value, partition=0) for value in values]:
                    await each
                await (producer.commit_transaction() if commit else producer.abort_transaction())

        _in_time(scenario())

    def login(self, target: Target) -> None:
        async def scenario() -> None:
            async with aiokafka.AIOKafkaProducer(**python(target, AIOKafkaTokens)):
                pass

        _in_time(scenario())


def _in_time(scenario: Any) -> Any:
    return asyncio.run(asyncio.wait_for(scenario, 2 * TIMEOUT_S))


CLIENTS: Final[tuple[Client, ...]] = (Confluent(), KafkaPython(), AIOKafka())
