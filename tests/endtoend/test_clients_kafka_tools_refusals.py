"""The tools of Apache Kafka for what Weir does not have: each is told so at once and says it in words,
and none hangs.
"""

from collections.abc import Iterator

import pytest

from tests.support import kafka_tools
from tests.support.broker_process import BrokerProcess
from tests.support.kafka_tools import TOPICS, ask, call, refusal

pytestmark = kafka_tools.pytestmark

TOOLS = "org.apache.kafka.tools"
LIVES_ON = ("--topic", "kept", "--partition", "0")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("data")) as process:
        ask(process, TOPICS, "--create", "--topic", "kept")
        yield process


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        (
            "TransactionsCommand",
            ["describe", "--transactional-id", "t"],
            "Failed to describe transaction state of transactional-id `t`",
        ),
        (
            "TransactionsCommand",
            ["abort", *LIVES_ON, "--start-offset", "3"],
            "Could not find any open transactions starting at offset 3 on partition kept-0",
        ),
        ("AclCommand", ["--list"], "No Authorizer is configured"),
        (
            "AclCommand",
            ["--add", "--allow-principal", "User:a", "--operation", "Read", "--topic", "kept"],
            "No Authorizer is configured",
        ),
        (
            "FeatureCommand",
            ["upgrade", "--release-version", "4.1"],
            "The update failed for all features",
        ),
        (
            "DelegationTokenCommand",
            ["--create", "--max-life-time-period", "-1", "--command-config", "/dev/null"],
            "Delegation Token requests are not allowed",
        ),
    ],
)
def test_unsupported_features_are_refused_in_words(
    broker: BrokerProcess, tool: str, arguments: list[str], words: str
) -> None:
    assert words in refusal(f"{TOOLS}.{tool}", "--bootstrap-server", broker.plain, *arguments)


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("TransactionsCommand", ["list"], "TransactionalId"),
        ("TransactionsCommand", ["find-hanging", "--broker-id", "1"], "Topic"),
        ("TransactionsCommand", ["describe-producers", *LIVES_ON], "ProducerId"),
        ("consumer.group.ShareGroupCommand", ["--list"], ""),
        ("streams.StreamsGroupCommand", ["--list"], ""),
        ("consumer.group.ShareGroupCommand", ["--describe", "--group", "g"], "Group g not found."),
        ("FeatureCommand", ["describe"], ""),
    ],
)
def test_absent_things_are_an_empty_list(
    broker: BrokerProcess, tool: str, arguments: list[str], words: str
) -> None:
    status, output, complained = call(f"{TOOLS}.{tool}", "--bootstrap-server", broker.plain, *arguments)
    assert status == 0 and words in output, output + complained
