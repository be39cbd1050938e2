"""The page of /metrics has exactly the documented names, and counts transactions by their state."""

import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, Final
from urllib.request import Request, urlopen

import pytest
import trio
from trio.testing import MockClock

from broker.api.requests.outcome import Outcome
from broker.config.listeners import Plane
from broker.config.sections import RequestLogConfig
from broker.metadata.changes import AuditFilter
from broker.metrics.families import render
from broker.monitoring.prometheus.page import transaction_families
from broker.network.requests.request_channel import Request as BrokerRequest
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.list_groups import ListGroupsRequest
from broker.quotas.entity import Entity
from tests.support.idle import thread_waits
from tests.support.produce import batch_of, create_topic, produce_request
from tests.support.prometheus import Family, parse
from tests.support.running import RunningBroker, running_broker
from tests.webui.log_world import LogWorld

DOCUMENT: Final = Path(__file__).parents[3] / "docs" / "metrics.md"
ROW: Final = re.compile(r"^\| `((?:kafka|weir)_[^`]+)` \|", re.MULTILINE)


def promised() -> list[str]:
    """Return the names in the table, expanded: `a_{b,c}` is a_b and a_c."""
    names = []
    for pattern in ROW.findall(DOCUMENT.read_text(encoding="utf-8")):
        pieces = re.split(r"\{([^}]*)\}", pattern)
        choices = [piece.split(",") if index % 2 else [piece] for index, piece in enumerate(pieces)]
        names += ["".join(chosen) for chosen in product(*choices)]
    return names


def test_the_mapping_of_kafkas_network_mbeans_names_metrics_of_the_page() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    section = text.partition("## Metrics of the network layer")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(kafka_[a-z_]+)`", section))
    assert len(named) == 20
    assert named - {CONTROLLERS} <= set(promised())


CONTROLLERS: Final = "kafka_server_kafkarequesthandlerpool_controllerrequesthandleravgidle_percent"
"""Only of a broker with controller listeners, for which the table has a sentence."""


async def busy(broker: RunningBroker) -> None:
    """Create a sample for every family."""
    broker.server.quotas.apply(Entity(client_id="x"), "producer_byte_rate", 10_000_000)
    client = await broker.connect("x")
    await client.ask(create_topic(), 5)
    await client.ask(produce_request(batch_of(b"one")), 9)
    topics = [FetchTopic("events", partitions=[FetchPartition(0, partition_max_bytes=1_000)])]
    await client.ask(FetchRequest(max_wait_ms=0, max_bytes=1_000, session_epoch=-1, topics=topics), 11)


async def scraped(broker: RunningBroker) -> dict[str, Family]:
    assert broker.started.console is not None
    address, token = broker.started.console.address, broker.started.console.token
    request = Request(f"{address}metrics", headers={"Authorization": f"Bearer {token}"})

    def ask() -> str:
        with urlopen(request, timeout=10) as answer:
            assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            return str(answer.read().decode())

    return parse(await trio.to_thread.run_sync(ask))


async def test_a_scrape_has_every_promised_name_and_no_other(tmp_path: Path) -> None:
    async with running_broker(tmp_path, "console.listener=127.0.0.1:0") as broker:
        await busy(broker)
        families = await scraped(broker)
        names = promised()
        assert len(names) == len(set(names)) > 60
        assert set(names) - set(families) == set()
        assert set(families) - set(names) == set()


async def test_no_family_is_reported_in_two_pieces(tmp_path: Path) -> None:
    """`render` would merge them, and drop one of two HELP texts."""
    async with running_broker(tmp_path) as broker:
        await busy(broker)
        names = [family.name for family in broker.server.prometheus.families()]
        assert len(names) == len(set(names))
        assert parse(render(broker.server.prometheus.families()).decode())


async def test_the_page_has_the_metrics_of_a_request_dashboard(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path) as broker:
        await busy(broker)
        page = parse(broker.server.prometheus.page())
        prefix = "kafka_network_requestmetrics"
        assert page[f"{prefix}_requests_total"].value(request="FetchConsumer", version="11") == 1
        assert page[f"{prefix}_requests_total"].value(request="Fetch", version="11") == 1
        assert page[f"{prefix}_errors_total"].value(request="Produce", error="NONE") == 1
        times = page[f"{prefix}_totaltimems"]
        assert times.label_names() == {"request", "quantile"}
        assert times.value("_count", request="Produce") == 1
        assert times.value(request="Produce", quantile="0.999") == 0
        assert page[f"{prefix}_temporarymemorybytes"].value("_count", request="Produce") == 1


async def test_quantiles_are_of_the_last_five_minutes(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path) as broker:
        await busy(broker)
        times = "kafka_network_requestmetrics_totaltimems"
        for _ in range(2):
            page = parse(broker.server.prometheus.page())
            assert page[times].value(request="Produce", quantile="0.5") == 0
            mock_clock.jump(300)
            await trio.lowlevel.checkpoint()
        page = parse(broker.server.prometheus.page())
        assert str(page[times].value(request="Produce", quantile="0.5")) == "nan"
        assert page[times].value("_count", request="Produce") == 1


async def test_rates_are_over_the_time_since_the_last_scrape(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path) as broker:
        labels = {"listener": "PLAINTEXT", "networkProcessor": "0"}
        name = "kafka_server_socket_server_metrics_response"
        broker.server.prometheus.page()
        await busy(broker)
        mock_clock.jump(10)
        page = parse(broker.server.prometheus.page())
        assert page[f"{name}_total"].value(**labels) == 3
        assert page[f"{name}_rate"].value(**labels) == pytest.approx(0.3)
        mock_clock.jump(10)
        page = parse(broker.server.prometheus.page())
        assert page[f"{name}_total"].value(**labels) == 3
        assert page[f"{name}_rate"].value(**labels) == 0


async def test_a_client_that_waits_is_idle(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path, "num.network.threads=2") as broker:
        broker.server.prometheus.page()
        thread_waits(broker, mock_clock, 10)
        page = parse(broker.server.prometheus.page())
        processors = page["kafka_network_processor_idle_percent"]
        assert [processors.value(networkProcessor=str(number)) for number in range(2)] == [1, 1]
        assert page["kafka_network_socketserver_networkprocessoravgidle_percent"].value() == 1
        pool = "kafka_server_kafkarequesthandlerpool"
        assert page[f"{pool}_requesthandleravgidle_percent"].value() == 1
        assert page[f"{pool}_brokerrequesthandleravgidle_percent"].value() == 1
        labels = {"listener": "PLAINTEXT", "networkProcessor": "1"}
        selector = "kafka_server_socket_server_metrics"
        assert page[f"{selector}_io_wait_ratio"].value(**labels) == 1
        assert page[f"{selector}_io_ratio"].value(**labels) == 0
        assert page[f"{selector}_io_wait_time_ns_total"].value(**labels) == 10e9


IDLE = (
    "weir_thread_idle_percent",
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
    "kafka_server_kafkarequesthandlerpool_brokerrequesthandleravgidle_percent",
)


@pytest.mark.parametrize("mode", ["kafka", "automq"])
@pytest.mark.parametrize(("work_ms", "idle"), [(0, 1.0), (4, 0.6), (9.5, 0.05), (10, 0.0)])
async def test_handlers_that_saturate_the_thread_leave_the_network_threads_idle(
    tmp_path: Path, mock_clock: MockClock, mode: str, work_ms: float, idle: float
) -> None:
    """A second of requests, ten milliseconds each: the thread is idle outside of the handler."""
    settings = (f"socket.server.mode={mode}", "num.io.threads=8", "num.network.threads=3")
    async with running_broker(tmp_path, *settings) as broker:
        client = await broker.connect()
        await client.ask(ListGroupsRequest(), 0)
        pool = broker.server.socket_server.handlers
        conclude = pool._conclude

        def slowly(request: BrokerRequest, outcome: Outcome) -> None:
            mock_clock.jump(work_ms / 1_000)
            conclude(request, outcome)

        thread_waits(broker, mock_clock, 1)
        broker.server.prometheus.page()
        broker.server.views.overview()
        pool._conclude = slowly  # type: ignore[method-assign]
        for _ in range(101):
            await client.ask(ListGroupsRequest(), 0)
            thread_waits(broker, mock_clock, (10 - work_ms) / 1_000)
        pool._conclude = conclude  # type: ignore[method-assign]
        page = parse(broker.server.prometheus.page())
        assert [page[name].value() for name in IDLE] == pytest.approx([idle] * 3, abs=1e-6)
        processors = page["kafka_network_processor_idle_percent"]
        assert [processors.value(networkProcessor=str(number)) for number in range(3)] == [1.0] * 3
        assert page["kafka_network_socketserver_networkprocessoravgidle_percent"].value() == 1.0
        metrics = broker.server.views.overview().metrics
        assert [metrics.thread_idle, metrics.handler_idle] == pytest.approx([idle] * 2, abs=1e-6)
        assert metrics.processor_idle == 1.0


class SlowSocket:
    """A socket whose writes take time."""

    def __init__(self, sock: Any, take: Callable[[], None]) -> None:
        self._sock = sock
        self._take = take

    def send(self, data: Any) -> int:
        self._take()
        return int(self._sock.send(data))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


@pytest.mark.parametrize(("work_ms", "idle"), [(0, 1.0), (4, 0.6), (10, 0.0)])
async def test_responses_are_written_in_the_time_of_the_network_threads(
    tmp_path: Path, mock_clock: MockClock, work_ms: float, idle: float
) -> None:
    """A second of requests, ten milliseconds each; the task of a handler writes the responses."""
    async with running_broker(tmp_path) as broker:
        client = await broker.connect()
        await client.ask(ListGroupsRequest(), 0)
        (channel,) = broker.server.socket_server.channels()
        slow: Any = SlowSocket(channel.sock, lambda: mock_clock.jump(work_ms / 1_000))
        channel.sock = slow
        thread_waits(broker, mock_clock, 1)
        broker.server.prometheus.page()
        for _ in range(101):
            await client.ask(ListGroupsRequest(), 0)
            thread_waits(broker, mock_clock, (10 - work_ms) / 1_000)
        page = parse(broker.server.prometheus.page())
        network = "kafka_network_socketserver_networkprocessoravgidle_percent"
        assert page[network].value() == pytest.approx(idle, abs=1e-6)
        assert page["weir_thread_idle_percent"].value() == pytest.approx(idle, abs=1e-6)
        assert [page[name].value() for name in IDLE[1:]] == [1.0, 1.0]
        labels = {"listener": "PLAINTEXT", "networkProcessor": "0"}
        ratio = page["kafka_server_socket_server_metrics_io_wait_ratio"].value(**labels)
        assert ratio == pytest.approx(idle, abs=1e-6)


async def test_each_plane_has_a_queue_and_a_pool_of_its_own(tmp_path: Path, mock_clock: MockClock) -> None:
    listeners = "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"
    protocols = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"
    async with running_broker(
        tmp_path,
        f"listeners={listeners}",
        f"listener.security.protocol.map={protocols}",
        "process.roles=broker,controller",
        "controller.listener.names=CONTROLLER",
        "num.io.threads=2",
    ) as broker:
        thread_waits(broker, mock_clock, 1)
        broker.server.prometheus.page()
        thread_waits(broker, mock_clock, 0.75)
        broker.server.socket_server.planes[Plane.CONTROLLER].handlers.busy[0] += 250_000_000
        mock_clock.jump(0.25)
        page = parse(broker.server.prometheus.page())
        pool = "kafka_server_kafkarequesthandlerpool"
        shares = {
            name: page[f"{pool}_{name}requesthandleravgidle_percent"].value()
            for name in ("", "broker", "controller")
        }
        assert shares == {"": 0.75, "broker": 1.0, "controller": 0.75}
        assert page["kafka_network_requestchannel_controllerrequestqueuesize"].value() == 0


async def test_the_request_log_is_switched_over_http_and_the_change_is_on_record(tmp_path: Path) -> None:
    async with running_broker(tmp_path, "console.listener=127.0.0.1:0") as broker:
        assert broker.started.console is not None
        address, token = broker.started.console.address, broker.started.console.token
        body = b'{"apis": ["Produce"], "client_ids": [], "max_per_second": 5}'
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        request = Request(f"{address}api/v1/request-log", body, headers, method="PUT")

        def ask() -> bytes:
            with urlopen(request, timeout=10) as answer:
                return bytes(answer.read())

        assert b'"Produce"' in await trio.to_thread.run_sync(ask)
        assert broker.server.control.config.request_log == RequestLogConfig(("Produce",), (), 5)
        changes = await broker.server.views.metadata.audit(AuditFilter())
        assert {"request.log.apis", "request.log.max.per.second"} <= {row.key for row in changes}
        await busy(broker)
        page = parse(broker.server.prometheus.page())
        assert page["weir_request_log_lines_total"].value(result="written") == 1


def values(world: LogWorld) -> dict[str, float]:
    return {
        f"{family.name} {sample.labels[0][1]}": sample.value
        for family in transaction_families(world.transactions)
        if family is not None
        for sample in family.samples
        if sample.value
    }


def test_states_and_decisions_are_counted(tmp_path: Path) -> None:
    world = LogWorld(tmp_path)
    world.topic("t")
    assert values(world) == {}
    world.transact("idle")
    world.transact("late", ("t", 0), timeout_ms=1_000)
    world.transact("aborted", ("t", 0))
    assert values(world) == {"weir_transactional_ids Empty": 1, "weir_transactional_ids Ongoing": 2}
    aborted = world.transactions.coordinator.get("aborted")
    assert aborted is not None and not world.transactions.abort(aborted, world.now())
    world.clock.advance(20_000)
    for _ in range(3):
        world.transactions.run(world.now())
    assert values(world) == {
        "weir_transactional_ids Empty": 1,
        "weir_transactional_ids CompleteAbort": 2,
        "weir_transactions_decided_total timed_out": 1,
        "weir_transactions_decided_total aborted_by_operator": 1,
    }
    world.close()


async def test_refused_headers_of_the_console_are_counted_by_reason(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        prometheus = broker.server.prometheus
        assert "weir_console_refused_headers_total{" not in prometheus.page()
        prometheus.refused_headers.update({"checksum": 2, "missing": 0})
        refused = parse(prometheus.page())["weir_console_refused_headers_total"]
        assert (refused.value(reason="checksum"), refused.value(reason="missing")) == (2, 0)
