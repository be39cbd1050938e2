"""kafka-consumer-groups of Apache Kafka: every way to look at a group and to move its offsets."""

from collections.abc import Iterator

import pytest

from tests.support import kafka_tools
from tests.support.broker_process import BrokerProcess
from tests.support.kafka_tools import CONSUMER, GROUPS, TOPICS, ask, call, produce, rows

pytestmark = kafka_tools.pytestmark


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("data"), "group.initial.rebalance.delay.ms=100") as process:
        ask(process, TOPICS, "--create", "--topic", "read")
        ask(process, TOPICS, "--create", "--topic", "other")
        produce(process, "read", 10)
        yield process


@pytest.fixture
def group(broker: BrokerProcess, request: pytest.FixtureRequest) -> str:
    """A group of the test's own that has read all ten records and left."""
    name = f"of-{request.node.name[:40]}".replace("[", "-").replace("]", "")
    ask(broker, CONSUMER, "--topic", "read", "--group", name, "--from-beginning", "--max-messages", "10")
    return name


def test_a_group_is_listed_and_described_in_every_way(broker: BrokerProcess, group: str) -> None:
    assert [group, "Classic", "Empty"] in rows(
        ask(broker, GROUPS, "--list", "--state", "Empty", "--type", "classic")
    )
    assert group not in ask(broker, GROUPS, "--list", "--state", "Stable")
    for arguments in (["--group", group], ["--all-groups", "--all-topics"], ["--group", group, "--offsets"]):
        described = rows(ask(broker, GROUPS, "--describe", *arguments))
        assert [group, "read", "0", "10", "10", "0", "-", "-", "-"] in described
    _, _, complained = call(
        *(
            GROUPS,
            "--bootstrap-server",
            broker.plain,
            "--describe",
            "--group",
            group,
            "--members",
            "--verbose",
        )
    )
    assert f"Consumer group '{group}' has no active members." in complained
    state = rows(ask(broker, GROUPS, "--describe", "--group", group, "--state"))
    assert state[-1] == [group, broker.plain, "(1)", "-", "Empty", "0"]


@pytest.mark.parametrize(
    ("how", "offset"),
    [
        (["--to-earliest"], "0"),
        (["--to-latest"], "10"),
        (["--to-offset", "7"], "7"),
        (["--shift-by", "-3"], "7"),
        (["--shift-by", "-100"], "0"),
        (["--to-datetime", "2020-01-01T00:00:00.000"], "0"),
        (["--by-duration", "PT0S"], "10"),
        (["--to-current"], "10"),
    ],
)
def test_offsets_are_reset_in_every_way(
    broker: BrokerProcess, group: str, how: list[str], offset: str
) -> None:
    reset = ("--reset-offsets", "--group", group)
    planned = rows(ask(broker, GROUPS, *reset, "--topic", "read", *how, "--dry-run"))
    assert planned[-1] == [group, "read", "0", offset]
    output = rows(ask(broker, GROUPS, "--describe", "--group", group))
    assert output[-1][3] == "10"
    ask(broker, GROUPS, *reset, "--topic", "read:0", *how, "--execute")
    assert rows(ask(broker, GROUPS, "--describe", "--group", group))[-1][3] == offset


def test_offsets_are_deleted_topic_by_topic_and_then_the_group(broker: BrokerProcess, group: str) -> None:
    deletion = ("--delete-offsets", "--group", group, "--topic")
    assert ["read", "0", "Successful"] in rows(ask(broker, GROUPS, *deletion, "read"))
    assert "UnknownTopicOrPartitionException" in ask(broker, GROUPS, *deletion, "missing")
    assert "was successful" in ask(broker, GROUPS, "--delete", "--group", group)
    assert group not in ask(broker, GROUPS, "--list").split()


def test_a_missing_group_is_reported_as_missing(broker: BrokerProcess) -> None:
    for arguments, words in (
        (["--describe", "--group", "nobody"], "Group nobody not found."),
        (["--delete", "--group", "nobody"], "The group id does not exist."),
        (["--delete-offsets", "--group", "nobody", "--topic", "read"], "GroupIdNotFoundException"),
    ):
        _, output, complained = call(GROUPS, "--bootstrap-server", broker.plain, *arguments)
        assert words in output + complained
