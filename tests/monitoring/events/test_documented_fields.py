"""docs/events.md has every field that a broker writes, and no other."""

import json
import re
from pathlib import Path
from typing import Final

import pytest
from trio.testing import MockClock

from broker.controller.commands import AlterClientQuotas, QuotaAlteration, QuotaOp
from broker.metadata.actor import Actor, ChangeOrigin, Role
from broker.protocol.messages.api_versions import ApiVersionsRequest
from tests.conventions.sources import ROOT
from tests.monitoring.events.transacting import begin, time_out
from tests.monitoring.events.written import second_passes, values
from tests.support.produce import PRODUCE_VERSION, create_topic, produce_request_of
from tests.support.running import running_broker

TOPICS: Final = (
    "__weir_requests",
    "__weir_throttles",
    "__weir_connections",
    "__weir_quota_changes",
    "__weir_transactions",
)
EVERYWHERE: Final = {"v", "time_ms"}
OPERATOR: Final = Actor("olga", Role.EDITOR, "10.0.0.7", ChangeOrigin.REST)


def section(topic: str) -> str:
    text = (ROOT / "docs" / "events.md").read_text(encoding="utf-8")
    found = re.search(rf"^### `{topic}`\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def named(text: str) -> set[str]:
    return set(re.findall(r"`([a-z_]+)`", text))


def fields(topic: str) -> set[str]:
    """Return the first column of the table of fields."""
    rows = re.findall(r"^\| (`[^|]*) \|", section(topic).partition("| field |")[2], re.MULTILINE)
    return named(" ".join(rows))


async def test_the_fields_of_each_topic_are_the_documented_ones(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    everything = "events.topics=requests,throttles,connections,quota_changes,transactions"
    async with running_broker(tmp_path, everything) as broker:
        entity = (("client-id", "greedy"),)
        command = AlterClientQuotas((QuotaAlteration(entity, (QuotaOp("producer_byte_rate", 1_000.0),)),))
        assert all(outcome.ok for outcome in await broker.server.control.apply(command, OPERATOR))
        greedy = await broker.connect("greedy")
        await greedy.ask(ApiVersionsRequest("probe", "1.0"), 3)
        await greedy.ask(create_topic(), 5)
        await greedy.ask(produce_request_of(11_000, "greedy"), PRODUCE_VERSION)
        await begin(await broker.connect("payer"), "payments", timeout_ms=1)
        await time_out(broker, mock_clock)
        await second_passes(broker, mock_clock)
        await greedy.stream.aclose()
        await second_passes(broker, mock_clock)
        for topic in TOPICS:
            events = [json.loads(value) for value in values(broker, topic)]
            written = {key for event in events for key in event} - EVERYWHERE
            assert written, topic
            assert written - named(section(topic)) == set(), topic
            assert fields(topic) - written == set(), topic


@pytest.mark.parametrize("topic", TOPICS[:3])
def test_the_tables_have_fields(topic: str) -> None:
    assert len(fields(topic)) > 5
