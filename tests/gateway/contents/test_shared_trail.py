"""What an operator does to the cluster through one of several gateways is in the audit trail of all."""

from pathlib import Path

import pytest

from broker.controller.commands import CreateTopics, NewTopic
from broker.metadata.actor import BROKER_ITSELF
from broker.metadata.changes import AuditFilter
from broker.server import gateway as gateway_server
from tests.gateway.contents.world import CONSOLE, World, rest_of
from tests.gateway.test_one_console import soon
from tests.support.running import running_broker
from tests.support.running_gateway import RunningGateway, running_gateway

SCOPE = "quota.scope=cluster"


@pytest.fixture(autouse=True)
def _topics(monkeypatch: pytest.MonkeyPatch) -> None:
    # The upstream broker of these tests is Weir, whose own topics no client may write.
    monkeypatch.setattr(gateway_server, "METADATA_TOPIC", "gateways-metadata")
    monkeypatch.setattr(gateway_server, "SHARES_TOPIC", "gateways-shares")


async def trail(gateway: RunningGateway) -> list[tuple[str, str, str, str]]:
    rows = await gateway.server.views.metadata.audit(AuditFilter())
    kinds = ("upstream", "records")
    return [(row.kind, row.actor, row.entity, row.key) for row in rows if row.kind in kinds]


async def test_notes_reach_all_gateways(tmp_path: Path) -> None:
    async with (
        running_broker(tmp_path / "broker") as broker,
        running_gateway(tmp_path / "one", broker.port, SCOPE, CONSOLE, "node.id=7") as one,
        running_gateway(tmp_path / "two", broker.port, SCOPE, "node.id=8") as other,
        rest_of(one) as http,
    ):
        found = World(broker, one, http)
        await found.ask("POST", "topics", 201, {"name": "orders", "partitions": 1})
        question = {"from": {"earliest": True}}
        await found.ask("POST", "topics/orders/records:browse", 200, question)
        wanted = [
            ("records", "administrator", "orders", "read"),
            ("upstream", "administrator", "topic orders", "created"),
        ]
        assert await trail(one) == wanted

        def is_there() -> None:
            assert other.server.control.image.version == one.server.control.image.version

        await soon(is_there)
        assert await trail(other) == wanted
        # One without a console reads nothing of the cluster.
        assert list(other.server.views.topics.each_topic()) == []
        await other.server.control.apply(CreateTopics((NewTopic("bills", 1, 1),)), BROKER_ITSELF)
        assert "bills" in broker.server.control.image.topics
