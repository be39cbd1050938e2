"""The task tree of a running broker: every task, under Kafka's names, with its resources."""

import re
from pathlib import Path

import pytest
import trio
from trio.lowlevel import Task
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.controller.rows.broker import Owned, TaskRow
from broker.network.clock import TrioClock
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.server.task_tree import NURSERIES, TaskTree
from tests.support.hostile import until
from tests.support.produce import create_topic
from tests.support.running import RunningBroker, running_broker
from tests.support.token_issuer import write_key_set

SMALL = ("num.network.threads=2", "num.io.threads=11", "node.id=7")
DOCUMENT = Path(__file__).parents[2] / "docs" / "concurrency.md"


def by_name(broker: RunningBroker) -> dict[str, TaskRow]:
    return {row.name: row for row in broker.server.views.live.tasks()}


def count_below(task: Task) -> int:
    children = [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return len(children) + sum(map(count_below, children))


async def test_every_task_is_in_it_once_and_nothing_else_is(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path, *SMALL) as broker:
        await wait_all_tasks_blocked()
        rows = broker.server.views.live.tasks()
        root = broker.server.server_views.task_tree._root
        assert root is not None
        assert sum(row.count for row in rows if row.kind != "nursery") == count_below(root)
        assert len({row.name for row in rows}) == len(rows)


async def test_nurseries_stand_in_each_other_in_the_order_of_the_shutdown(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with running_broker(tmp_path, *SMALL) as broker:
        rows = by_name(broker)
        nest = [("broker", None), *zip(NURSERIES, ("broker", *NURSERIES), strict=False)]
        assert [(name, rows[name].parent) for name, _ in nest] == nest
        assert [rows[name].depth for name, _ in nest] == list(range(7))


async def test_tasks_have_the_names_of_kafkas_threads(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path, *SMALL) as broker:
        rows = by_name(broker)
        for name, kind, parent in (
            (f"data-plane-kafka-socket-acceptor-PLAINTEXT-PLAINTEXT-{broker.port}", "acceptor", "acceptors"),
            ("data-plane-kafka-request-handler-0", "handler", "handlers"),
            ("data-plane-kafka-request-handler-10", "handler", "handlers"),
            ("ExpirationReaper-7-Fetch", "reaper", "timers"),
            ("ExpirationReaper-7-Produce", "reaper", "timers"),
            ("ThrottledChannelReaper-Request", "reaper", "timers"),
            ("log-retention", "storage", "storage"),
            ("connection-quota-excess", "quota", "connection-quotas"),
        ):
            assert (rows[name].kind, rows[name].parent) == (kind, parent), name
        processors = [name for name, row in rows.items() if row.kind == "processor"]
        assert [re.sub(r"-\d+$", "", name) for name in processors] == [
            "data-plane-kafka-network-thread-7-PLAINTEXT-PLAINTEXT"
        ] * 2


async def test_the_tenth_thread_comes_after_the_ninth(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path, *SMALL) as broker:
        handlers = [row.name for row in broker.server.views.live.tasks() if row.parent == "handlers"]
        numbered = [name for name in handlers if name[-1].isdigit()]
        assert [int(name.rpartition("-")[2]) for name in numbered] == list(range(11))


async def test_queues_report_their_capacity_and_processors_their_connections(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with running_broker(tmp_path, "num.network.threads=1", "queued.max.requests=17") as broker:
        for _ in range(3):
            await broker.connect()
        await until(lambda: len(list(broker.server.socket_server.channels())) == 3)
        rows = by_name(broker)
        assert rows["handlers"].owns == (Owned("requests", 0, 17, 0),)
        assert rows["data-plane-kafka-request-handler-callbacks"].owns == (
            Owned("callbacks", 0, 17, 0),
            Owned("callbacks for later turns", 0, 340),
        )
        assert rows["listener-PLAINTEXT"].owns == (Owned("connections", 3),)
        (processor,) = [row for row in rows.values() if row.kind == "processor"]
        assert Owned("connections", 3) in processor.owns
        assert Owned("accepted sockets", 0, 20) in processor.owns


async def test_in_automqs_mode_every_handler_owns_its_queue_and_all_of_them_the_bytes(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    settings = ("socket.server.mode=automq", "queued.max.requests=17", "num.io.threads=4")
    async with running_broker(tmp_path, *settings) as broker:
        rows = by_name(broker)
        assert rows["handlers"].owns == (
            Owned("requests", 0, 16, 0),
            Owned("bytes of requests", 0, 104_857_600),
        )
        assert rows["data-plane-kafka-request-handler-3"].owns == (
            Owned("requests", 0, 4, 0),
            Owned("callbacks", 0, 4),
        )


async def test_a_reaper_owns_what_waits(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path, *SMALL) as broker:
        client = await broker.connect()
        await client.ask(create_topic(), 5)
        partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=1_000)
        fetch = FetchRequest(max_wait_ms=30_000, min_bytes=1, max_bytes=1_000)
        fetch.topics = [FetchTopic("events", partitions=[partition])]
        await client.send(fetch, 11)
        await until(lambda: broker.server.fetches.delayed == 1)
        assert by_name(broker)["ExpirationReaper-7-Fetch"].owns == (Owned("waiting", 1), Owned("listed", 1))


async def test_idle_is_the_share_of_the_last_second(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path, *SMALL) as broker:
        await wait_all_tasks_blocked()
        mock_clock.jump(1)
        by_name(broker)
        broker.server.socket_server.handlers.busy[3] += 250_000_000
        mock_clock.jump(1)
        rows = by_name(broker)
        assert rows["data-plane-kafka-request-handler-3"].idle == 0.75
        assert rows["data-plane-kafka-request-handler-4"].idle == 1.0
        assert [row.idle for row in rows.values() if row.kind == "processor"] == [1.0, 1.0]
        assert rows["log-retention"].idle is None
        # Within the second the value does not change.
        broker.server.socket_server.handlers.busy[3] += 500_000_000
        mock_clock.jump(0.5)
        assert by_name(broker)["data-plane-kafka-request-handler-3"].idle == 0.75
        mock_clock.jump(0.5)
        assert by_name(broker)["data-plane-kafka-request-handler-3"].idle == 0.5


async def test_it_reports_since_when(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path, *SMALL) as broker:
        started = by_name(broker)["log-retention"].since_at_ms
        mock_clock.jump(60)
        await wait_all_tasks_blocked()
        assert by_name(broker)["log-retention"].since_at_ms == started
        assert by_name(broker)["broker"].since_at_ms <= started <= broker.server.clock.wall_ms() - 60_000


async def test_tasks_of_one_name_are_one_row_and_one_that_comes_later_is_younger(
    mock_clock: MockClock,
) -> None:
    clock = TrioClock()
    tree = TaskTree(clock, lambda now_ns: {})
    assert tree.rows() == []
    tree.begin()
    begun = clock.wall_ms()
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(trio.sleep_forever, name="log-alike")
        await wait_all_tasks_blocked()
        mock_clock.jump(5)
        nursery.start_soon(trio.sleep_forever, name="late")
        await wait_all_tasks_blocked()
        rows = {row.name: row for row in tree.rows()}
        assert rows["log-alike"].count == 3 and rows["log-alike"].since_at_ms == begun
        assert rows["late"].kind == "other" and rows["late"].since_at_ms == begun + 5_000
        nursery.cancel_scope.cancel()


async def test_a_browsers_tasks_are_the_consoles_own_affair(mock_clock: MockClock) -> None:
    async def console() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever, name="connection")

    tree = TaskTree(TrioClock(), lambda now_ns: {})
    tree.begin()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(console, name="admin-web-server")
        await wait_all_tasks_blocked()
        names = [row.name for row in tree.rows()]
        assert "admin-web-server" in names and "connection" not in names
        nursery.cancel_scope.cancel()


def drawn() -> list[re.Pattern[str]]:
    """The names in the tree of docs/concurrency.md, with <what differs> and {what,there,is}."""
    tree = DOCUMENT.read_text().split("```")[1]
    names = re.findall(r"[\w<>{},-]*\w[\w<>{},-]*", tree)
    patterns = []
    for name in names:
        pattern = re.sub(r"<\w+>", r"[\\w.-]+", name)
        pattern = re.sub(r"\{([^}]*)\}", lambda found: f"({found[1].replace(',', '|')})", pattern)
        patterns.append(re.compile(pattern))
    return patterns


EVERYTHING = (
    "listeners=PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
    "console.listener=127.0.0.1:0",
    "queued.max.request.bytes=1000000000",
)


@pytest.mark.parametrize("mode", ["kafka", "automq"])
async def test_the_document_draws_every_task_and_each_has_a_kind(
    tmp_path: Path, mock_clock: MockClock, mode: str
) -> None:
    names = drawn()
    more = (f"sasl.oauthbearer.jwks.endpoint.url={write_key_set(tmp_path)}", f"socket.server.mode={mode}")
    async with running_broker(tmp_path, *SMALL, *EVERYTHING, *more) as broker:
        assert by_name(broker)["oauthbearer-keys-0"].kind == "security"
        for name, row in by_name(broker).items():
            assert any(drawn_name.fullmatch(name) for drawn_name in names), name
            assert row.kind != "other", name
