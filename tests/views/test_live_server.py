"""The console's values: idle shares of an idle broker."""

import math
import tracemalloc
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.common.slices import run_through
from broker.controller.commands import BROKER_ITSELF, AlterClientQuotas, QuotaAlteration, QuotaOp
from broker.network.lingering import LINGERS_MS
from broker.network.requests.request_metrics import PHASES, AllMetrics
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.quotas.kinds import QuotaKind
from broker.views.live_server import PHASES_EVERY_MS, PhaseRows
from tests.support.idle import thread_waits
from tests.support.running import running_broker
from tests.support.view_rows import address_rows


async def test_a_broker_without_a_client_is_idle(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path) as broker:
        for _ in range(3):
            await trio.lowlevel.checkpoint()
            thread_waits(broker, mock_clock, 10)
            metrics = broker.server.views.overview().metrics
            assert (metrics.processor_idle, metrics.handler_idle) == (1.0, 1.0)


async def test_bytes_of_a_removed_processor_are_still_counted(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path, "num.network.threads=2") as broker:
        for _ in range(2):
            client = await broker.connect()
            await client.ask(ApiVersionsRequest("x", "1"), 3)
        before = broker.server.views.overview().metrics
        (listener,) = broker.server.socket_server.listeners
        listener.resize(1)
        await wait_all_tasks_blocked(0.02)
        mock_clock.jump(LINGERS_MS / 1000)  # the client does not close its connection
        await wait_all_tasks_blocked(0.02)
        after = broker.server.views.overview().metrics
        assert len(list(broker.server.socket_server.processors())) == 1 and after.connections == 1
        assert 0 < before.bytes_in_total == after.bytes_in_total
        assert 0 < before.bytes_out_total == after.bytes_out_total


async def test_connections_are_counted_by_software(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path) as broker:
        for version in ("1", "2", "2"):
            await (await broker.connect()).ask(ApiVersionsRequest("lib", version), 3)
        await broker.connect()
        await wait_all_tasks_blocked(0.02)
        rows = run_through(broker.server.views.live.software())
        assert sorted((row.software_name, row.software_version, row.connections) for row in rows) == [
            ("lib", "1", 1),
            ("lib", "2", 2),
            ("unknown", "unknown", 1),
        ]


async def test_the_clients_of_a_topic_are_counted(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path) as broker:
        for version in ("1", "1", "1", "2", "3"):
            await (await broker.connect()).ask(ApiVersionsRequest("lib", version), 3)
        await wait_all_tasks_blocked(0.02)
        first, second, third, other, _idle = sorted(
            broker.server.socket_server.channels(), key=lambda each: (each.software_version, each.id)
        )
        first.topics_written = first.topics_read = frozenset({"orders", "clicks"})
        topic_id = bytes(15) + b"\x07"
        second.topics_read = frozenset({topic_id})  # as a gateway knows it
        other.topics_written = frozenset({"orders"})
        third.topics_read = frozenset({"clicks"})
        rows = run_through(broker.server.views.live.clients_of_topic("orders", topic_id))
        assert sorted((row.software_version, row.connections, row.writing, row.reading) for row in rows) == [
            ("1", 2, 1, 2),
            ("2", 1, 1, 0),
        ]
        assert run_through(broker.server.views.live.clients_of_topic("nothing", bytes(16))) == []


async def test_a_meter_has_a_window_of_its_own(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path, "queued.max.request.bytes=200000000") as broker:
        views = broker.server.views
        client = await broker.connect()
        meter = views.live.meter()
        first = meter.read()
        assert math.isnan(first.bytes_in) and math.isnan(first.thread_idle)
        assert (first.connections, first.memory_used) == (1, 0.0)
        before = views.overview().metrics
        await client.ask(ApiVersionsRequest("x", "1"), 3)
        thread_waits(broker, mock_clock, 4)
        # Another reader does not begin the window anew.
        after = views.overview().metrics
        thread_waits(broker, mock_clock, 4)
        load = meter.read()
        assert load.bytes_in == (after.bytes_in_total - before.bytes_in_total) / 8 > 0
        assert load.bytes_out == (after.bytes_out_total - before.bytes_out_total) / 8 > 0
        assert (load.network_idle, load.handler_idle) == (1.0, 1.0) and 0.9 < load.thread_idle <= 1.0
        # A second later there is a new reading, and not before.
        await client.ask(ApiVersionsRequest("x", "1"), 3)
        thread_waits(broker, mock_clock, 0.999)
        assert meter.read() is load
        thread_waits(broker, mock_clock, 0.001)
        assert meter.read().bytes_in == load.bytes_in * 8
        again = views.live.meter().read()
        assert math.isnan(again.bytes_out)


@pytest.mark.parametrize(("later", "shown"), [(PHASES_EVERY_MS - 1, 1), (PHASES_EVERY_MS, 2)])
def test_phases_are_made_anew_every_five_seconds(later: int, shown: int) -> None:
    metrics, phases = AllMetrics(), PhaseRows()
    metrics.of("Produce", 9).cached = 1
    assert {row.count for row in phases.rows(metrics, 7)} == {1}
    metrics.of("Produce", 9).cached = 2
    rows = phases.rows(metrics, 7 + later)
    assert {row.count for row in rows} == {shown}
    assert [row.phase for row in rows] == list(PHASES)


async def test_addresses_are_seen_without_a_rule_and_throttled_with_one(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with running_broker(tmp_path, "quota.window.num=2") as broker:
        views = broker.server.views
        for _ in range(2):
            await (await broker.connect()).ask(ApiVersionsRequest("x", "1"), 3)
        (row,) = address_rows(views)
        assert row.address == "127.0.0.1" and row.limit is None and row.bound is None
        assert row.use is not None and (row.use.accepted, row.use.connections, row.use.throttled) == (2, 2, 0)
        whole, plain = views.live.connection_limits()
        assert whole.connections == plain.connections == 2 and plain.listener == "PLAINTEXT"
        assert whole.max_connections is None and whole.rejected == ()
        one = QuotaAlteration((("ip", "127.0.0.1"),), (QuotaOp("connection_creation_rate", 1.0),))
        await broker.server.control.apply(AlterClientQuotas((one,)), BROKER_ITSELF)
        for _ in range(2):
            await broker.connect()
        await wait_all_tasks_blocked(0.02)
        (row,) = address_rows(views)
        assert row.bound == 1 and row.use is not None and (row.use.accepted, row.use.throttled) == (3, 1)
        (throttled,) = views.quotas.throttled()
        assert (throttled.address, throttled.quota_type) == ("127.0.0.1", QuotaKind.CONNECTION_RATE)
        assert (throttled.entity, throttled.bound, throttled.times) == ((("ip", "127.0.0.1"),), 1.0, 1)
        assert 0 < throttled.remaining_ms <= throttled.throttle_ms <= 1_000
        assert views.overview().metrics.throttled == 1


async def test_the_rows_of_a_thousand_clients_hold_no_history_of_them(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    """The live table keeps its rows: 60 tuples per client would take 4 MB."""
    clients = 1_000
    async with running_broker(tmp_path) as broker:
        accounts = broker.server.socket_server.accounts.update()
        for number in range(clients):
            accounts._book(("alice", f"client-{number}"), (number, 2, 3, 0), broker.server.clock.ms())
        tracemalloc.start()
        rows = list(broker.server.views.quotas.each_usage())
        kept_bytes, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(rows) == clients and kept_bytes < clients * 1_000
        (row,) = [row for row in rows if row.client_id == "client-7"]
        assert (len(row.history()), row.history()[-1]) == (60, (7, 2, 3))
