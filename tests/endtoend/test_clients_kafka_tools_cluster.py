"""Kafka's tools for a cluster's leaders, quorum, features and brokers, which need a Java machine each."""

import re
from collections.abc import Iterator

import pytest

from tests.support import kafka_tools
from tests.support.broker_process import BrokerProcess
from tests.support.kafka_tools import TOPICS, ask, call, refused, run

pytestmark = kafka_tools.pytestmark

ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
CLUSTER = "org.apache.kafka.tools.ClusterTool"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("data")) as process:
        yield process


def test_no_partition_needs_an_election(broker: BrokerProcess) -> None:
    ask(broker, TOPICS, "--create", "--topic", "elected", "--partitions", "2")
    preferred = ("--election-type", "PREFERRED")
    one = ask(broker, ELECTION, *preferred, "--topic", "elected", "--partition", "1")
    assert "Valid replica already elected for partitions elected-1" in one
    every = ask(broker, ELECTION, *preferred, "--all-topic-partitions")
    assert "Error" not in every
    status, output, complained = call(
        *(ELECTION, "--bootstrap-server", broker.plain, *preferred, "--topic", "none", "--partition", "0")
    )
    assert status != 0 and "UnknownTopicOrPartitionException" in output + complained


def test_the_broker_is_the_quorum(broker: BrokerProcess) -> None:
    status = ask(broker, QUORUM, "describe", "--status")
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    assert (fields["LeaderId"].strip(), fields["MaxFollowerLag"].strip()) == ("1", "0")
    assert '"id": 1' in fields["CurrentVoters"] and fields["CurrentObservers"].strip() == "[]"
    header, row = ask(broker, QUORUM, "describe", "--replication").splitlines()
    assert header.split()[0] == "NodeId" and row.split()[0] == "1" and row.split()[-1] == "Leader"


def test_features_are_returned_and_not_changed(broker: BrokerProcess) -> None:
    described = ask(broker, FEATURES, "describe")
    assert [re.split(r"\s{2,}", line)[:4] for line in described.splitlines()] == [
        [
            f"Feature: {name}.version",
            f"SupportedMinVersion: {least}",
            f"SupportedMaxVersion: {most}",
            f"FinalizedVersionLevel: {most}",
        ]
        for name, least, most in (
            ("eligible.leader.replicas", "0", "1"),
            ("group", "0", "1"),
            ("metadata", "3.3-IV3", "4.4-IV2"),
            ("share", "0", "2"),
            ("streams", "0", "1"),
            ("transaction", "0", "2"),
        )
    ]
    same = ask(broker, FEATURES, "upgrade", "--feature", "transaction.version=2")
    assert "was upgraded to 2" in same
    for change, feature, why in (
        ("downgrade", "transaction.version=1", "This broker has only version 2."),
        ("upgrade", "transaction.version=3", "Local controller 1 only supports versions 0-2"),
        ("disable", "share.version", "This broker has only version 2."),
    ):
        assert why in refused(broker, FEATURES, change, "--feature", feature)


def test_the_only_broker_is_not_removed(broker: BrokerProcess) -> None:
    where = ("--bootstrap-server", broker.plain)
    status, output, complained = call(CLUSTER, "unregister", *where, "--id", "1")
    assert status != 0 and "cannot be removed" in output + complained
    status, output, complained = call(CLUSTER, "unregister-controller", *where, "--id", "1")
    assert status != 0 and "Controller cannot unregister itself" in output + complained
    assert "Cluster ID" in run(CLUSTER, "cluster-id", *where)
