"""ACLs with Python clients that log in: created, described and deleted, and what they deny."""

import warnings
from collections.abc import Iterator
from typing import Any, Final

import confluent_kafka
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.controller.world import AUTHORIZER
from tests.support.broker_process import USERS, BrokerProcess

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its schemas in a way that is going
    import kafka
    from kafka import errors

pytestmark = pytest.mark.endtoend

ADMINISTRATOR: Final = "bob"
CLIENT: Final = "alice"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(
        tmp_path_factory.mktemp("data"), AUTHORIZER, f"super.users=User:{ADMINISTRATOR}"
    ) as process:
        yield process


def login(broker: BrokerProcess, user: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.sasl,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": USERS[user],
        "log_level": 0,
    }


def kafka_python(broker: BrokerProcess, user: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": broker.sasl,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": user,
        "sasl_plain_password": USERS[user],
    }


def binding(
    operation: AclOperation,
    name: str,
    kind: ResourceType = ResourceType.TOPIC,
    permission: AclPermissionType = AclPermissionType.ALLOW,
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
) -> AclBinding:
    return AclBinding(kind, name, pattern, f"User:{CLIENT}", "*", operation, permission)


def done(futures: dict[Any, Any]) -> list[Any]:
    return [future.result(20) for future in futures.values()]


def outcome(producer: confluent_kafka.Producer, topic: str) -> str | None:
    """Produce one record and return the name of the error, or None."""
    seen: list[confluent_kafka.KafkaError | None] = []
    producer.produce(topic, b"value", on_delivery=lambda error, _: seen.append(error))
    assert producer.flush(20) == 0
    (error,) = seen
    return None if error is None else error.name()


def test_confluent_produces_while_an_acl_allows_it(broker: BrokerProcess) -> None:
    admin = AdminClient(login(broker, ADMINISTRATOR))
    done(admin.create_topics([NewTopic("payments", 1, 1)]))
    producer = confluent_kafka.Producer({**login(broker, CLIENT), "message.timeout.ms": 20_000})
    assert outcome(producer, "payments") == "TOPIC_AUTHORIZATION_FAILED"
    write = binding(AclOperation.WRITE, "pay", pattern=ResourcePatternType.PREFIXED)
    assert done(admin.create_acls([write])) == [None]
    fresh = confluent_kafka.Producer({**login(broker, CLIENT), "message.timeout.ms": 20_000})
    assert outcome(fresh, "payments") is None
    matching = AclBindingFilter(
        ResourceType.TOPIC,
        "payments",
        ResourcePatternType.MATCH,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    assert admin.describe_acls(matching).result(20) == [write]
    of_prefix = AclBindingFilter(
        ResourceType.ANY,
        "pay",
        ResourcePatternType.ANY,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    assert done(admin.delete_acls([of_prefix])) == [[write]]
    assert outcome(fresh, "payments") == "TOPIC_AUTHORIZATION_FAILED"


def test_confluent_consumes_while_acls_allow_the_group_and_the_topic(broker: BrokerProcess) -> None:
    admin = AdminClient(login(broker, ADMINISTRATOR))
    done(admin.create_topics([NewTopic("orders", 1, 1)]))
    assert outcome(confluent_kafka.Producer(login(broker, ADMINISTRATOR)), "orders") is None
    settings = {
        **login(broker, CLIENT),
        "group.id": "readers",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }

    def first() -> str | bytes:
        """Return the name of the first error, or the first value."""
        consumer = confluent_kafka.Consumer(settings)
        consumer.subscribe(["orders"])
        try:
            for _ in range(60):
                message = consumer.poll(1)
                if message is not None:
                    error = message.error()
                    return message.value() if error is None else str(error.name())
            raise AssertionError("nothing consumed")
        finally:
            consumer.close()

    read_topic = binding(AclOperation.READ, "orders")
    read_group = binding(AclOperation.READ, "readers", ResourceType.GROUP)
    assert first() in ("GROUP_AUTHORIZATION_FAILED", "TOPIC_AUTHORIZATION_FAILED")
    done(admin.create_acls([read_topic]))
    assert first() == "GROUP_AUTHORIZATION_FAILED"
    done(admin.create_acls([read_group]))
    assert first() == b"value"
    done(admin.create_acls([binding(AclOperation.READ, "orders", permission=AclPermissionType.DENY)]))
    assert first() == "TOPIC_AUTHORIZATION_FAILED"


def test_kafka_python_creates_describes_and_deletes_acls(broker: BrokerProcess) -> None:
    from kafka.admin import ACL, ACLFilter, ACLOperation, ACLPermissionType, ResourcePattern
    from kafka.admin import ResourceType as Type

    admin = kafka.KafkaAdminClient(**kafka_python(broker, ADMINISTRATOR))
    try:
        acl = ACL(
            f"User:{CLIENT}",
            "*",
            ACLOperation.WRITE,
            ACLPermissionType.ALLOW,
            ResourcePattern(Type.TOPIC, "invoices"),
        )
        created = admin.create_acls([acl])
        assert (created["succeeded"], created["failed"]) == ([acl], [])
        wanted = ACLFilter(
            f"User:{CLIENT}",
            None,
            ACLOperation.ANY,
            ACLPermissionType.ANY,
            ResourcePattern(Type.TOPIC, "invoices"),
        )
        described = admin.describe_acls(wanted)
        assert acl in (described[0] if isinstance(described, tuple) else described)
        admin.create_topics([kafka.admin.NewTopic("invoices", 1, 1)])
        producer = kafka.KafkaProducer(**kafka_python(broker, CLIENT))
        try:
            producer.send("invoices", b"value").get(20)
            admin.delete_acls([wanted])
            with pytest.raises(errors.TopicAuthorizationFailedError):
                producer.send("invoices", b"value").get(20)
        finally:
            producer.close(5)
    finally:
        admin.close()


def test_kafka_python_is_refused_what_no_acl_allows(broker: BrokerProcess) -> None:
    admin = kafka.KafkaAdminClient(**kafka_python(broker, CLIENT))
    try:
        with pytest.raises(errors.TopicAuthorizationFailedError):
            admin.create_topics([kafka.admin.NewTopic("mine", 1, 1)])
    finally:
        admin.close()


def test_a_denied_request_leaves_a_line(broker: BrokerProcess) -> None:
    producer = confluent_kafka.Producer({**login(broker, CLIENT), "message.timeout.ms": 20_000})
    assert outcome(producer, "secret") == "TOPIC_AUTHORIZATION_FAILED"
    line = broker.lines_with("resource=secret")[0]
    for word in (
        "INFO denied",
        "principal=User:alice",
        "operation=DESCRIBE",
        "host=127.0.0.1",
        "request=Metadata",
    ):
        assert word in line
