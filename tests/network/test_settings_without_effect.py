"""follower.replication.throttled.* and sasl.kerberos.*: accepted, since clients set them, and reported as
without effect when set, at every start, and by DescribeConfigs.
"""

import logging
from pathlib import Path

import pytest

from broker.controller import dynamic_config
from broker.protocol.messages.create_topics import CreatableTopicConfig
from broker.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from broker.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.live import ALL_BROKERS, BROKER, BROKER_ONE, SET, alter_through, takes_effect
from tests.support.produce import create_topic
from tests.support.running import running_broker
from tests.support.wire import WireClient

TOPIC = 2
RATE = "follower.replication.throttled.rate"
REPLICAS = "follower.replication.throttled.replicas"
WHY = "this broker does not replicate from other brokers"
KERBEROS = {
    "sasl.kerberos.kinit.cmd": "/opt/kinit",
    "sasl.kerberos.min.time.before.relogin": "58000",
    "sasl.kerberos.principal.to.local.rules": "RULE:[1:$1],DEFAULT",
    "sasl.kerberos.service.name": "kafka",
    "sasl.kerberos.ticket.renew.jitter": "0.1",
    "sasl.kerberos.ticket.renew.window.factor": "0.9",
}


def warnings(caplog: pytest.LogCaptureFixture) -> list[tuple[str, object]]:
    """(words, resource) since the last call."""
    lines = [
        (each.getMessage(), each.__dict__["resource"])
        for each in caplog.records
        if each.name == dynamic_config.__name__ and each.levelno == logging.WARNING
    ]
    caplog.clear()
    return lines


async def set_on_topic(client: WireClient, key: str, value: str, *, validate: bool = False) -> int:
    resource = AlterConfigsResource(TOPIC, "events", [AlterableConfig(key, SET, value)])
    answer = await client.ask(IncrementalAlterConfigsRequest([resource], validate), 1)
    return int(answer.responses[0].error_code)


async def documentation(client: WireClient, kind: int, name: str, key: str) -> str:
    resource = DescribeConfigsResource(kind, name, [key])
    answer = await client.ask(DescribeConfigsRequest([resource], False, True), 4)
    (config,) = answer.results[0].configs
    return str(config.documentation)


async def test_where_they_are_set_the_log_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running_broker(tmp_path) as broker:
        client = await broker.connect()
        request = create_topic()
        request.topics[0].configs = [CreatableTopicConfig(REPLICAS, "*")]
        assert (await client.ask(request, 5)).topics[0].error_code == 0
        assert warnings(caplog) == [(f"{REPLICAS} has no effect: {WHY}", "topic events")]

        assert await set_on_topic(client, REPLICAS, "0:1", validate=True) == 0
        assert await set_on_topic(client, REPLICAS, "nonsense") != 0
        assert await set_on_topic(client, "leader.replication.throttled.replicas", "*") == 0
        assert warnings(caplog) == [], "nothing was set in vain"
        assert await set_on_topic(client, REPLICAS, "0:1") == 0
        assert warnings(caplog) == [(f"{REPLICAS} has no effect: {WHY}", "topic events")]

        assert await alter_through(client, {RATE: "7"}, BROKER_ONE) == (0, None)
        assert await alter_through(client, {RATE: "8"}, ALL_BROKERS) == (0, None)
        words = f"{RATE} has no effect: {WHY}"
        assert warnings(caplog) == [(words, "broker 1"), (words, "all brokers")]
        assert await alter_through(client, {RATE: None}, BROKER_ONE) == (0, None)
        assert warnings(caplog) == []

    async with running_broker(tmp_path):
        assert sorted(warnings(caplog)) == [
            (words, "all brokers"),
            (f"{REPLICAS} has no effect: {WHY}", "topic events"),
        ]


async def test_describing_them_says_so_too(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        client = await broker.connect()
        await client.ask(create_topic(), 5)
        for kind, name, key in ((BROKER, BROKER_ONE, RATE), (TOPIC, "events", REPLICAS)):
            assert (await documentation(client, kind, name, key)).endswith(f"Without effect here: {WHY}.")
            useful = key.replace("follower", "leader")
            assert "ithout effect" not in await documentation(client, kind, name, useful)


@takes_effect(
    "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.principal.to.local.rules",
    "sasl.kerberos.service.name",
    "sasl.kerberos.ticket.renew.jitter",
    "sasl.kerberos.ticket.renew.window.factor",
)
async def test_keys_of_kerberos_are_kept_for_one_broker(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_broker(tmp_path) as broker:
        client = await broker.connect()
        assert await alter_through(client, dict(KERBEROS), BROKER_ONE) == (0, None)
        said = {words.partition(" has no effect: ")[0] for words, _ in warnings(caplog)}
        assert said == set(KERBEROS)
        for key, value in KERBEROS.items():
            assert (await alter_through(client, {key: value}, ALL_BROKERS))[0] != 0
            resource = DescribeConfigsResource(BROKER, BROKER_ONE, [key])
            (row,) = (await client.ask(DescribeConfigsRequest([resource]), 4)).results[0].configs
            assert (row.value, row.read_only) == (value, False)
