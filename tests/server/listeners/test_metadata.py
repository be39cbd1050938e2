"""Committed changes reach the parts of the server that they concern."""

from pathlib import Path

import pytest

from broker.controller.commands import (
    AlterClientQuotas,
    AlterUserScramCredentials,
    Command,
    ConfigAlteration,
    ConfigOp,
    ConfigResource,
    CreateTopics,
    IncrementalAlterConfigs,
    NewTopic,
    OpType,
    QuotaAlteration,
    QuotaOp,
    ResourceType,
    ScramUpsertion,
)
from broker.metadata.actor import BROKER_ITSELF
from broker.protocol.messages.metadata import MetadataRequest
from tests.support.running import running_broker

LIMITED = AlterClientQuotas(
    tuple(
        QuotaAlteration(entity, (QuotaOp(key, 1_000.0),))
        for entity, key in (
            ((("client-id", "app"),), "producer_byte_rate"),
            ((("ip", "10.0.0.1"),), "connection_creation_rate"),
        )
    )
)
SHADOWED = AlterClientQuotas((QuotaAlteration((("client-id", "app"),), (), shadow=True),))
TOPIC = CreateTopics((NewTopic("t"),))
SETTING = IncrementalAlterConfigs(
    (
        ConfigAlteration(
            ConfigResource(ResourceType.BROKER, ""), (ConfigOp("log.retention.ms", OpType.SET, "1"),)
        ),
    )
)
USER = AlterUserScramCredentials((ScramUpsertion("ann", 1, 4_096, b"salt", b"salted"),))


@pytest.mark.parametrize(
    ("commands", "kept"), [([LIMITED, SHADOWED], True), ([TOPIC], False), ([SETTING], False), ([USER], False)]
)
async def test_cached_responses_outlive_changes_of_quotas_only(
    tmp_path: Path, commands: list[Command[list[object]]], kept: bool
) -> None:
    async with running_broker(tmp_path) as broker:
        client = await broker.connect("app")
        await client.ask(MetadataRequest(None), 9)
        (listener,) = broker.server.socket_server.listeners
        assert any(route.cached_responses for route in listener.routes.all())
        for command in commands:
            (outcome, *_) = await broker.server.control.apply(command, BROKER_ITSELF)
            assert outcome.ok  # type: ignore[attr-defined]
        assert any(route.cached_responses for route in listener.routes.all()) is kept
