"""kafka-configs of Apache Kafka for every kind of entity: set, shown, changed, removed, and refused."""

from collections.abc import Iterator

import pytest

from tests.support import kafka_tools
from tests.support.broker_process import BrokerProcess
from tests.support.kafka_tools import CONFIGS, TOPICS, ask, refused

pytestmark = kafka_tools.pytestmark

USER = ("--entity-type", "users", "--entity-name")
USERS = ("--entity-type", "users", "--entity-default")
CLIENT = ("--entity-type", "clients", "--entity-name")
CLIENTS = ("--entity-type", "clients", "--entity-default")
IP = ("--entity-type", "ips", "--entity-name")
IPS = ("--entity-type", "ips", "--entity-default")
LOGGERS = ("--entity-type", "broker-loggers", "--entity-name", "1")
GROUP = ("--entity-type", "groups", "--entity-name", "g")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("data")) as process:
        yield process


@pytest.mark.parametrize(
    ("entity", "key", "words"),
    [
        ((*USER, "ann smith"), "producer_byte_rate", "user-principal 'ann smith'"),
        (USERS, "consumer_byte_rate", "the default user-principal"),
        ((*CLIENT, "app"), "request_percentage", "client-id 'app'"),
        (CLIENTS, "controller_mutation_rate", "the default client-id"),
        ((*USER, "bob", *CLIENT, "app"), "producer_byte_rate", "user-principal 'bob', client-id 'app'"),
        ((*USER, "bob", *CLIENTS), "producer_byte_rate", "user-principal 'bob', the default client-id"),
        ((*USERS, *CLIENT, "app"), "producer_byte_rate", "the default user-principal, client-id 'app'"),
        ((*USERS, *CLIENTS), "producer_byte_rate", "the default user-principal, the default client-id"),
        ((*IP, "10.0.0.7"), "connection_creation_rate", "ip '10.0.0.7'"),
        (IPS, "connection_creation_rate", "the default ip"),
        (("--ip", "10.0.0.8"), "connection_creation_rate", "ip '10.0.0.8'"),
        (("--ip-defaults",), "connection_creation_rate", "the default ip"),
    ],
)
def test_a_quota_of_each_kind_of_entity_is_set_shown_and_removed(
    broker: BrokerProcess, entity: tuple[str, ...], key: str, words: str
) -> None:
    ask(broker, CONFIGS, "--alter", *entity, "--add-config", f"{key}=2048")
    assert f"Quota configs for {words} are {key}=2048.0\n" in ask(broker, CONFIGS, "--describe", *entity)
    ask(broker, CONFIGS, "--alter", *entity, "--delete-config", key)
    assert words not in ask(broker, CONFIGS, "--describe", *entity)


@pytest.mark.parametrize(
    ("entity", "change", "words"),
    [
        ((*USER, "eve"), "producer_byte_rate=1.5", "producer_byte_rate cannot be a fractional value."),
        ((*USER, "eve"), "producer_byte_rate=NaN", "Quota producer_byte_rate must be a finite number"),
        ((*USER, "eve"), "request_percentage=Infinity", "Quota request_percentage must be a finite number"),
        ((*USER, "eve"), "producer_byte_rate=9223372036854777856", "too large for a LONG."),
        ((*IP, "10.0.0.9"), "connection_creation_rate=-1", "must be greater than 0"),
        (("--ip", "10.0.0.9"), "connection_creation_rate=1.5", "cannot be a fractional value."),
    ],
)
def test_a_bad_quota_is_refused_in_kafkas_words(
    broker: BrokerProcess, entity: tuple[str, ...], change: str, words: str
) -> None:
    output = refused(broker, CONFIGS, "--alter", *entity, "--add-config", change)
    assert "InvalidRequestException" in output and words in output
    assert "eve" not in ask(broker, CONFIGS, "--describe", "--entity-type", "users")


def test_a_topics_lists_are_set_and_what_is_wrong_changes_nothing(broker: BrokerProcess) -> None:
    ask(broker, TOPICS, "--create", "--topic", "listed", "--config", "retention.ms=9000")
    topic = ("--entity-type", "topics", "--entity-name", "listed")
    ask(broker, CONFIGS, "--alter", *topic, "--add-config", "cleanup.policy=[compact,delete]")
    wrong = (
        ("segment.bytes=13", "Invalid value 13 for configuration segment.bytes"),
        ("no.such.key=1", "Unknown topic config name: no.such.key"),
        ("cleanup.policy=[compact,burn]", "for configuration cleanup.policy"),
    )
    for change, words in wrong:
        output = refused(broker, CONFIGS, "--alter", *topic, "--add-config", f"retention.ms=1,{change}")
        assert "InvalidConfigurationException" in output and words in output
    assert ask(broker, CONFIGS, "--describe", *topic) == (
        "Dynamic configs for topic listed are:\n"
        "  cleanup.policy=compact,delete sensitive=false "
        "synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, "
        "DEFAULT_CONFIG:log.cleanup.policy=delete}\n"
        "  retention.ms=9000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=9000}\n"
    )
    ask(broker, CONFIGS, "--alter", *topic, "--delete-config", "cleanup.policy,retention.ms")
    assert ask(broker, CONFIGS, "--describe", *topic) == "Dynamic configs for topic listed are:\n"
    missing = ("--entity-type", "topics", "--entity-name", "missing", "--add-config", "retention.ms=1")
    assert "UnknownTopicOrPartitionException" in refused(broker, CONFIGS, "--alter", *missing)


def test_a_broker_that_is_not_here_and_a_setting_that_is_fixed_are_refused(broker: BrokerProcess) -> None:
    fixed = ("--entity-type", "brokers", "--entity-name", "1", "--add-config", "log.dirs=/elsewhere")
    assert "Cannot update these configs dynamically: [log.dirs]" in refused(
        broker, CONFIGS, "--alter", *fixed
    )
    assert ask(broker, CONFIGS, "--describe", "--entity-type", "brokers") == (
        "Dynamic configs for broker 1 are:\nDefault configs for brokers in the cluster are:\n"
        "  min.insync.replicas=1 sensitive=false "
        "synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:min.insync.replicas=1}\n"
    )


def test_levels_of_loggers_are_set_shown_and_removed(broker: BrokerProcess) -> None:
    """KIP-412."""
    ask(broker, CONFIGS, "--alter", *LOGGERS, "--add-config", "broker.network=ERROR,broker.log=TRACE")
    shown = ask(broker, CONFIGS, "--describe", *LOGGERS)
    assert "  broker.network=ERROR sensitive=false" in shown and "  broker.log=TRACE sensitive" in shown
    assert "  broker.network.processor=ERROR sensitive=false" in shown
    ask(broker, CONFIGS, "--alter", *LOGGERS, "--delete-config", "broker.network,broker.log")
    assert "  broker.network=INFO sensitive=false" in ask(broker, CONFIGS, "--describe", *LOGGERS)
    loud = refused(broker, CONFIGS, "--alter", *LOGGERS, "--add-config", "broker.network=LOUD")
    assert "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN" in loud
    assert "Removing the log level of the root logger is not allowed" in refused(
        broker, CONFIGS, "--alter", *LOGGERS, "--delete-config", "root"
    )


def test_a_group_without_settings_has_none_and_takes_no_unknown_one(broker: BrokerProcess) -> None:
    output = refused(broker, CONFIGS, "--alter", *GROUP, "--add-config", "producer.session.timeout.ms=50000")
    assert "producer.session.timeout.ms" in output
    described = ask(broker, CONFIGS, "--describe", *GROUP)
    assert described == "The group 'g' doesn't exist and doesn't have dynamic config.\n"


def test_a_group_has_settings_of_its_own_and_the_brokers(broker: BrokerProcess) -> None:
    named = ("--entity-type", "groups", "--entity-name", "limited")
    beyond = refused(broker, CONFIGS, "--alter", *named, "--add-config", "share.delivery.count.limit=11")
    assert "share.delivery.count.limit" in beyond
    ask(broker, CONFIGS, "--alter", *named, "--add-config", "share.delivery.count.limit=10")
    lines = [line.strip() for line in ask(broker, CONFIGS, "--describe", "--all", *named).splitlines()]
    assert (
        "share.delivery.count.limit=10 sensitive=false "
        "synonyms={DYNAMIC_GROUP_CONFIG:share.delivery.count.limit=10, "
        "DEFAULT_CONFIG:group.share.delivery.count.limit=5}"
    ) in lines
    assert (
        "share.renew.acknowledge.enable=true sensitive=false "
        "synonyms={DEFAULT_CONFIG:share.renew.acknowledge.enable=true}"
    ) in lines
    assert not [line for line in lines if line.startswith("share.assignor.offload.enable=")]
