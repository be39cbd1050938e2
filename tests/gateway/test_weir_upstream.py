"""A gateway in front of a broker of Weir: the easiest first try of both."""

from pathlib import Path

import pytest
import trio

from broker.common.errors import ConfigError
from broker.protocol.messages.metadata import MetadataRequest
from tests.support.hostile import until
from tests.support.machine_speed import WITHIN_S
from tests.support.running import running_broker
from tests.support.running_gateway import running_gateway

EVENTS = "events.topics=requests,throttles,connections,quota_changes,transactions"
NO_EVENTS = "events.topics="


@pytest.mark.parametrize("of_broker", [EVENTS, NO_EVENTS])
async def test_it_starts_without_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, of_broker: str
) -> None:
    """Its events would be second ones of the same requests, and only the broker writes to these topics."""
    caplog.set_level("INFO")
    async with (
        running_broker(tmp_path / "broker", of_broker) as broker,
        running_gateway(tmp_path / "gateway", broker.port, EVENTS) as gateway,
    ):
        client = await gateway.connect()
        with trio.fail_after(WITHIN_S):
            await client.ask(MetadataRequest([]), 9)
            await until(lambda: "the gateway writes no events" in caplog.messages)
            events = gateway.server.event_topics
            client = await gateway.connect()
            await client.ask(MetadataRequest([]), 9)
            await until(lambda: not any(each.records for each in events.topics.values()))
        assert caplog.messages.count("the gateway writes no events") == 1
        assert events.errors == {} and not any(each.dropped for each in events.topics.values())
        of_gateway = [each for each in caplog.records if each.levelname not in ("INFO", "DEBUG")]
        assert [each.getMessage() for each in of_gateway] == []
        own = broker.server.control.image.topics
        assert any(name.startswith("__weir_") for name in own) is (of_broker == EVENTS)


async def test_limits_cannot_be_shared_there_and_the_start_says_so(tmp_path: Path) -> None:
    async with running_broker(tmp_path / "broker") as broker:
        with pytest.RaisesGroup(
            pytest.RaisesExc(ConfigError, match="quota.scope='cluster'.*the upstream cluster is Weir itself"),
            flatten_subgroups=True,
        ):
            async with running_gateway(
                tmp_path / "gateway", broker.port, "quota.scope=cluster", finds_cluster=False
            ):
                raise AssertionError("it has started")
