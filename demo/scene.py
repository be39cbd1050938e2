"""What is on stage: the tenants, their topic, what is asked of them, and their limits. All of it goes again.

Used by demo.__main__ and demo.pictures.
"""

import secrets
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import click
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)
from confluent_kafka.cimpl import NewTopic

from demo.place import Place
from demo.tenants import Heeding, Reporting, Storming, Tenant, Wanting

TOPIC: Final = "weir-demo-orders"
TOPIC_SETTINGS: Final = {"retention.bytes": "50000000", "segment.bytes": "10000000"}
GREEDY, PATIENT, POLITE, REPORTS, STORMY = "greedy", "patient", "polite", "reports", "stormy"
BOOKINGS: Final = "bookings"
LIMITS: Final = {GREEDY: 1_000_000, PATIENT: 500_000}
REPORTS_LIMIT: Final = 1_000_000
SHADOWED: Final = 100_000
CONNECTIONS_PER_S: Final = 2
ANSWERED_WITHIN_S: Final = 30
SCRAM: Final = ScramMechanism.SCRAM_SHA_512
USERS: Final = ("billing", "orders-service", "reports")
ACLS: Final = (
    (ResourceType.TOPIC, "orders-", ResourcePatternType.PREFIXED, "orders-service", AclOperation.WRITE, "*"),
    (ResourceType.TOPIC, "orders-", ResourcePatternType.PREFIXED, "reports", AclOperation.READ, "*"),
    (ResourceType.GROUP, "reports", ResourcePatternType.LITERAL, "reports", AclOperation.READ, "*"),
    (ResourceType.TOPIC, "invoices", ResourcePatternType.LITERAL, "billing", AclOperation.ALL, "10.0.0.7"),
    (ResourceType.TOPIC, "invoices", ResourcePatternType.LITERAL, "-reports", AclOperation.READ, "*"),
)


def tenants_for(place: Place) -> list[Tenant]:
    return [
        Wanting(GREEDY, place.bootstrap, TOPIC, 5_000_000),
        Heeding(PATIENT, place.bootstrap, TOPIC, 2_000_000),
        Wanting(POLITE, place.bootstrap, TOPIC, 200_000, reads=True),
        Reporting(REPORTS, place.bootstrap, TOPIC),
        Storming(STORMY, place.bootstrap, TOPIC),
    ]


@contextmanager
def topic(place: Place) -> Iterator[None]:
    admin = AdminClient({"bootstrap.servers": place.bootstrap, "log_level": 2})
    wanted = NewTopic(TOPIC, num_partitions=2, replication_factor=1, config=TOPIC_SETTINGS)
    try:
        admin.create_topics([wanted])[TOPIC].result(ANSWERED_WITHIN_S)
    except KafkaException as error:
        raise click.ClickException(f"the topic {TOPIC} cannot be made: {error}") from error
    try:
        yield
    finally:
        admin.delete_topics([TOPIC])[TOPIC].result(ANSWERED_WITHIN_S)


@contextmanager
def asked_for_metrics(place: Place) -> Iterator[None]:
    """A client asks what it shall tell when it begins, and then every five minutes: before the tenants."""
    place.ask_for_metrics(True)
    try:
        yield
    finally:
        place.ask_for_metrics(False)


@contextmanager
def at_work(tenants: Sequence[Tenant]) -> Iterator[None]:
    threads = [threading.Thread(target=tenant.run, name=tenant.name) for tenant in tenants]
    try:
        for thread in threads:
            thread.start()
        yield
    finally:
        for tenant in tenants:
            tenant.stopped.set()
        for thread in threads:
            if thread.is_alive():  # a signal may come while they are started
                thread.join()


def add_users_and_acls(place: Place) -> None:
    """Add SCRAM users and ACLs as a team of tenants has them. They stay: for a broker of the demo's own."""
    admin = AdminClient({"bootstrap.servers": place.bootstrap, "log_level": 2})
    infos = {name: ScramCredentialInfo(SCRAM, 4_096 + 4_096 * at) for at, name in enumerate(USERS)}
    users: list[UserScramCredentialAlteration] = [
        UserScramCredentialUpsertion(name, info, secrets.token_bytes()) for name, info in infos.items()
    ]
    made = [
        *admin.alter_user_scram_credentials(users).values(),
        *admin.create_acls([_acl(*each) for each in ACLS]).values(),
    ]
    for future in made:
        future.result(ANSWERED_WITHIN_S)


def add_alerts(place: Place) -> None:
    """Add rules of which the tenants break some. They stay: for a broker of the demo's own."""
    place.alert("long-throttles", {"condition": "throttled", "threshold": 100, "for_ms": 0})
    place.alert("ignored-throttles", {"condition": "ignores-throttling", "threshold": 0, "for_ms": 0})


@contextmanager
def in_transaction(place: Place) -> Iterator[None]:
    """A producer has a transaction open, after one that it committed."""
    producer = Producer(
        {
            "bootstrap.servers": place.bootstrap,
            "client.id": BOOKINGS,
            "transactional.id": BOOKINGS,
            "transaction.timeout.ms": 600_000,
            "log_level": 2,
        }
    )
    producer.init_transactions(ANSWERED_WITHIN_S)
    for number in range(2):
        producer.begin_transaction()
        for record in range(100):
            producer.produce(TOPIC, f"booking {number} {record}".encode())
        producer.flush(ANSWERED_WITHIN_S)
        if number == 0:
            producer.commit_transaction(ANSWERED_WITHIN_S)
    try:
        yield
    finally:
        producer.abort_transaction(ANSWERED_WITHIN_S)


def _acl(
    kind: ResourceType, name: str, pattern: ResourcePatternType, user: str, operation: AclOperation, host: str
) -> AclBinding:
    """`user` begins with "-" for a denial."""
    allowed = AclPermissionType.DENY if user.startswith("-") else AclPermissionType.ALLOW
    return AclBinding(kind, name, pattern, f"User:{user.lstrip('-')}", host, operation, allowed)


@contextmanager
def limited(place: Place) -> Iterator[None]:
    """What holds is taken away again, so that the next client is served at once."""
    for name, limit in LIMITS.items():
        place.limit(name, limit)
    place.limit(REPORTS, REPORTS_LIMIT, key="consumer_byte_rate")
    place.limit(POLITE, SHADOWED, shadow=True)
    place.limit_addresses(CONNECTIONS_PER_S)
    try:
        yield
    finally:
        place.limit_addresses(None)
        place.limit(REPORTS, None, key="consumer_byte_rate")
        for name in (*LIMITS, POLITE):
            place.limit(name, None)
