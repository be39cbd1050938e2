"""The views of a broker with a controller's listener: separate connection quotas and request memory."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from trio.testing import MockClock

from broker.metrics.families import render
from broker.monitoring.prometheus.handlers import memory_families
from broker.monitoring.prometheus.sockets import acceptor_families
from tests.support.connections import (
    CONTROLLER,
    LOOPBACK,
    PLAINTEXT,
    TWO_SERVERS,
    open_to,
    opened,
    set_ip_rate,
    settle,
)
from tests.support.memory import BEGUN, BOUNDED, POOL
from tests.support.prometheus import Family, parse
from tests.support.running import RunningBroker, running_broker
from tests.support.view_rows import address_rows

GROUP = "kafka_server_socket_server_metrics"


@pytest.fixture
async def broker(tmp_path: Path, mock_clock: MockClock) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path, *TWO_SERVERS, *BOUNDED, "max.connections=7") as running:
        yield running


def scraped(broker: RunningBroker) -> dict[str, Family]:
    server = broker.server
    memories = {name.value: each.memory for name, each in server.socket_server.resources.items()}
    now_ms = server.clock.ms()
    families = [
        *(each for each in acceptor_families(server.socket_server, now_ms) if each is not None),
        *memory_families(memories, now_ms),
    ]
    return parse(render(families).decode())


async def test_connection_limits_are_shown_by_server(broker: RunningBroker, mock_clock: MockClock) -> None:
    await opened(broker, 3, PLAINTEXT)
    await opened(broker, 2, CONTROLLER)
    rows = broker.server.views.live.connection_limits()
    assert [(row.server, row.listener, row.connections, row.max_connections) for row in rows] == [
        ("broker", "", 3, 7),
        ("broker", PLAINTEXT, 3, 7),
        ("controller", "", 2, 7),
        ("controller", CONTROLLER, 2, 7),
    ]
    assert broker.server.views.overview().metrics.connections == 5


async def test_an_address_is_reported_with_its_use_of_each_server_and_its_rule_with_the_busier(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    await set_ip_rate(broker, 2, LOOPBACK)
    await opened(broker, 4, PLAINTEXT)
    await opened(broker, 1, CONTROLLER)
    views = broker.server.views
    (row,) = [each for each in address_rows(views) if each.address == LOOPBACK]
    assert row.use is not None and row.controller_use is not None
    assert (row.use.accepted, row.use.throttled, row.use.connections) == (2, 2, 2)
    assert (row.controller_use.accepted, row.controller_use.throttled, row.controller_use.connections) == (
        1,
        0,
        1,
    )
    uses = [each for each in broker.server.views.quotas._live.quota_use() if each is not None]
    assert [(each.key, each.observed) for each in uses] == [("connection_creation_rate", 2.0)]


async def test_request_memory_is_shown_by_server(broker: RunningBroker, mock_clock: MockClock) -> None:
    taker = await open_to(broker, CONTROLLER)
    await taker.stream.send_all(BEGUN)
    await settle()
    metrics = broker.server.views.overview().metrics
    assert (metrics.memory_pool_used, metrics.memory_pool_size) == (0, POOL)
    assert (metrics.controller_memory_pool_used, metrics.controller_memory_pool_size) == (POOL, POOL)
    tasks = {row.name: row for row in broker.server.views.live.tasks()}
    owned = {
        name: tasks[name].owns[0].now for name in ("memory-pool-reaper", "controller-memory-pool-reaper")
    }
    assert owned == {"memory-pool-reaper": 0, "controller-memory-pool-reaper": POOL}
    page = scraped(broker)
    used = page["kafka_network_socketserver_memorypoolused"]
    assert (used.value(server="broker"), used.value(server="controller")) == (0, POOL)
    available = page["kafka_network_socketserver_memorypoolavailable"]
    assert (available.value(server="broker"), available.value(server="controller")) == (POOL, 0)


async def test_metrics_have_the_label_server_where_both_count(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    await set_ip_rate(broker, 5)
    await opened(broker, 3, PLAINTEXT)
    await opened(broker, 2, CONTROLLER)
    page = scraped(broker)
    whole = page[f"{GROUP}_broker_connection_accept_rate"]
    assert (whole.value(server="broker"), whole.value(server="controller")) == (3, 2)
    rates = page[f"{GROUP}_connection_accept_rate"]
    assert (rates.value(listener=PLAINTEXT), rates.value(listener=CONTROLLER)) == (3, 2)
    assert rates.value(ip=LOOPBACK, server="broker") == 3
    assert rates.value(ip=LOOPBACK, server="controller") == 2


async def test_with_one_server_there_is_no_such_label(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path) as broker:
        page = scraped(broker)
        assert page[f"{GROUP}_broker_connection_accept_rate"].value() == 0
        assert page["kafka_network_socketserver_memorypoolused"].value() == 0
        assert "server" not in {label for each in page.values() for label in each.label_names()}


async def test_the_tasks_of_the_controllers_quotas_stand_beside_the_brokers(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    rows = {row.name: row for row in broker.server.views.live.tasks()}
    for prefix in ("", "controller-"):
        assert rows[f"{prefix}connection-quotas"].parent == "acceptors"
        for task in ("hosts", "rejections", "excess"):
            row = rows[f"{prefix}connection-quota-{task}"]
            assert (row.kind, row.parent) == ("quota", f"{prefix}connection-quotas")
        assert rows[f"{prefix}user-connection-holds-reaper"].kind == "reaper"
