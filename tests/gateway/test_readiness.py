"""`/readyz` of a gateway: red until the upstream cluster has answered."""

from math import inf
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from tests.network.test_drain import status_of
from tests.support.hostile import until
from tests.support.kafka_tools import free_port
from tests.support.machine_speed import WITHIN_S
from tests.support.running import running_broker
from tests.support.running_gateway import RunningGateway, running_gateway

CONSOLE = "console.listener=127.0.0.1:0"
SOON = "upstream.reconnect.backoff.max.ms=50"


async def statuses(gateway: RunningGateway) -> tuple[int, int]:
    assert gateway.started.console is not None
    port = int(gateway.started.console.address.rstrip("/").rpartition(":")[2])
    return await status_of(port, "/readyz"), await status_of(port, "/healthz")


async def test_a_gateway_is_ready_once_its_upstream_has_answered_and_stays_so(tmp_path: Path) -> None:
    port = free_port()
    async with running_gateway(tmp_path / "gateway", port, CONSOLE, SOON, finds_cluster=False) as gateway:
        assert await statuses(gateway) == (503, 200)
        cluster = gateway.server.cluster
        listener = f"listeners=PLAINTEXT://127.0.0.1:{port}"
        async with running_broker(tmp_path / "broker", listener):
            with trio.fail_after(WITHIN_S):
                await cluster.found.wait()
                await until(lambda: bool(cluster.nodes))
            assert await statuses(gateway) == (200, 200)
        await until(lambda: not any(state.condition == "connected" for state in cluster.node_states.values()))
        assert await statuses(gateway) == (200, 200)


async def test_a_gateway_of_another_cluster_is_not_ready(tmp_path: Path) -> None:
    async with (
        running_broker(tmp_path / "broker") as broker,
        running_gateway(
            tmp_path / "gateway", broker.port, CONSOLE, "upstream.cluster.id=other", finds_cluster=False
        ) as gateway,
    ):
        await until(lambda: gateway.server.cluster.is_refused)
        assert await statuses(gateway) == (503, 200)


async def test_a_gateway_that_drains_is_not_ready(tmp_path: Path) -> None:
    async with (
        running_broker(tmp_path / "broker") as broker,
        running_gateway(tmp_path / "gateway", broker.port, CONSOLE) as gateway,
    ):
        await until(lambda: gateway.server.is_ready)
        assert await statuses(gateway) == (200, 200)
        gateway.server.leaving.begin()
        assert await statuses(gateway) == (503, 200)
        await gateway.server.leaving.finished.wait()
        assert await statuses(gateway) == (503, 200)


async def test_a_gateway_is_ready_once_the_others_know_it_or_after_ten_seconds(
    tmp_path: Path, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The upstream broker lets no client write the topic of reports, and nobody knows that it is Weir."""
    monkeypatch.setattr("broker.gateway.upstream.client.ONLY_BY_WEIR", "what no broker says")
    mock_clock.autojump_threshold = 0.05  # the start waits for the rules of all gateways
    async with (
        running_broker(tmp_path / "broker") as broker,
        running_gateway(tmp_path / "gateway", broker.port, "quota.scope=cluster") as gateway,
    ):
        server = gateway.server
        await until(lambda: bool(server.cluster.nodes))
        mock_clock.autojump_threshold = inf
        elapsed_s = (server.clock.ms() - server._made_ms) / 1_000
        assert elapsed_s < 9
        mock_clock.jump(9.999 - elapsed_s)
        assert not server.is_ready
        mock_clock.jump(0.001)
        assert server.is_ready
        mock_clock.autojump_threshold = 0.05
