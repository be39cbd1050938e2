"""Kafka's own default file warns of nothing but what has no effect, with the reason."""

from pathlib import Path

import pytest

from broker.config.load import load
from broker.config.table import setting_of
from broker.config.unknown_keys import _BY_REASON, why_without_effect

OF_KAFKAS_FILE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "inter.broker.listener.name": "PLAINTEXT",
    "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL",
    "num.network.threads": "3",
    "num.io.threads": "8",
    "socket.send.buffer.bytes": "102400",
    "socket.receive.buffer.bytes": "102400",
    "socket.request.max.bytes": "104857600",
    "log.dirs": "/tmp/kraft-combined-logs",
    "num.partitions": "1",
    "num.recovery.threads.per.data.dir": "1",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "log.retention.hours": "168",
    "log.segment.bytes": "1073741824",
    "log.retention.check.interval.ms": "300000",
}


def test_no_key_of_kafkas_default_file_is_called_unknown(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in OF_KAFKAS_FILE.items()))
    warnings = load(file, (), {}).warnings
    assert not [each for each in warnings if "unknown" in each]
    named = "transaction.state.log.min.isr has no effect: every partition has one replica, on this broker"
    assert f"{file} line 21: {named}" in warnings


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("remote.log.storage.system.enable", "tiered storage"),
        ("listener.name.external.principal.builder.class", "no Java classes"),
        ("controller.quorum.voters", "metadata itself"),
        ("metrics.num.samples", "/metrics"),
    ],
)
def test_a_key_without_a_counterpart_has_its_reason(key: str, words: str) -> None:
    assert words in (why_without_effect(key) or "")


@pytest.mark.parametrize("key", ["num.partition", "remotely", "replicas", "no.such.key", ""])
def test_other_keys_stay_unknown(key: str) -> None:
    assert why_without_effect(key) is None


def test_no_setting_is_said_to_have_no_effect() -> None:
    for begins in _BY_REASON.values():
        assert not [each for each in begins if setting_of(each) is not None]
