"""Gateways that share limits know each other's addresses: one that drains sends its clients to the others."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from broker.controller.rows.upstream import DrainState
from broker.protocol.messages.metadata import MetadataRequest
from broker.server import gateway as gateway_server
from tests.gateway.test_drain import ends
from tests.support.running import RunningBroker, running_broker
from tests.support.running_gateway import RunningGateway, running_gateway

SCOPE = "quota.scope=cluster"
WITHIN_S = 20.0


@pytest.fixture(autouse=True)
def _topics(monkeypatch: pytest.MonkeyPatch) -> None:
    # The upstream broker of these tests is Weir, whose own topics no client may write.
    monkeypatch.setattr(gateway_server, "METADATA_TOPIC", "gateways-metadata")
    monkeypatch.setattr(gateway_server, "SHARES_TOPIC", "gateways-shares")


@asynccontextmanager
async def two(
    tmp_path: Path, *overrides: str
) -> AsyncIterator[tuple[RunningBroker, RunningGateway, RunningGateway]]:
    async with (
        running_broker(tmp_path / "broker") as broker,
        running_gateway(tmp_path / "one", broker.port, SCOPE, "node.id=1", *overrides) as one,
        running_gateway(tmp_path / "two", broker.port, SCOPE, "node.id=2", *overrides) as two,
    ):
        await soon(lambda: one.server.is_ready and two.server.is_ready)
        yield broker, one, two


async def soon(condition: Callable[[], bool]) -> None:
    with trio.fail_after(WITHIN_S):
        while not condition():  # noqa: ASYNC110 - nothing announces it
            await trio.sleep(0.01)


def others_of(gateway: RunningGateway) -> list[bool]:
    """Whether each other gateway that is known drains."""
    return [each.draining for each in gateway.server._other_gateways()]


async def test_clients_are_told_the_other_gateway(tmp_path: Path) -> None:
    async with two(tmp_path, "gateway.drain.timeout.ms=4000") as (_, one, other):
        idle, client = await one.connect(), await one.connect()
        await client.ask(MetadataRequest([], False), 9)
        one.server.leaving.begin()
        await ends(idle)
        answer = await client.ask(MetadataRequest([], False), 9)
        (node,) = answer.brokers
        assert node.port == other.first_port + node.node_id
        await soon(lambda: others_of(other) == [True])
        await ends(client)
        await one.server.leaving.finished.wait()


async def test_gateways_that_all_drain_send_clients_nowhere(tmp_path: Path) -> None:
    """So several processes of one machine stop together as fast as one."""
    async with two(tmp_path) as (_, one, other):
        await soon(lambda: others_of(one) == others_of(other) == [False])
        clients = [await each.connect() for each in (one, one, other, other)]
        for client in clients:
            await client.ask(MetadataRequest([], False), 9)
        one.server.leaving.begin()
        other.server.leaving.begin()
        with trio.fail_after(WITHIN_S):
            await one.server.leaving.finished.wait()
            await other.server.leaving.finished.wait()


async def test_a_gateway_that_stops_says_farewell_and_the_last_one_ends_at_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with two(tmp_path) as (_, one, other):
        await soon(lambda: others_of(one) == [False])
        other.stop.set()
        await other.started.stopped.wait()
        await soon(lambda: others_of(one) == [])
        assert one.server._member is not None
        assert one.server._member.table.gateways == [one.server._id]
        assert not [each for each in caplog.records if "cannot write" in each.getMessage()]
        await one.connect()
        await soon(lambda: len(one.channels()) == 1)
        one.server.leaving.begin()
        with trio.fail_after(WITHIN_S):
            await one.server.leaving.finished.wait()
        assert one.server.leaving.row().state is DrainState.DRAINED
