"""Request memory without `queued.max.request.bytes`: a share of the process's memory, leased only by requests
larger than the scratch buffer.
"""

import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from broker.config.sections import NetworkConfig
from broker.network.connection.receive import SCRATCH_BYTES, Receive
from broker.network.leased_receive import LargeReceive
from broker.network.memory_pool import memory_limit
from broker.protocol.messages.metadata import MetadataRequest
from tests.network.test_pipelining import correlation_ids, encoded, stored
from tests.support.certificates import certificates, tls_settings
from tests.support.hostile import is_served, log_texts
from tests.support.memory import BEGUN, POOL, readable, settled, taker_of_all, used, waiting
from tests.support.produce import PRODUCE_VERSION, batch_of, create_topic, produce_request, produce_request_of
from tests.support.running import RunningBroker, running_broker

LARGEST = f"socket.request.max.bytes={POOL}"
LARGE = produce_request_of(100_000, "tester")


@pytest.fixture(autouse=True)
def four_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest request is a quarter of the memory available to the process."""
    monkeypatch.setattr("broker.network.server_factory.memory_limit", lambda: 4 * POOL)


# Every test asks for the mock clock itself: a fixture's clock does not become the run's.
@pytest.fixture
async def broker(tmp_path: Path, mock_clock: MockClock) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path, LARGEST) as running:
        maker = await running.connect("maker")
        assert (await maker.ask(create_topic(), 5)).topics[0].error_code == 0
        yield running


# How much


@pytest.mark.parametrize(
    ("limit", "wanted"), [(399, 100), (400, 100), (403, 100), (404, 101), (0, 100), (4_000_000_000, 10**9)]
)
def test_it_is_a_quarter_of_the_limit_and_one_request_at_least(limit: int, wanted: int) -> None:
    assert NetworkConfig(socket_request_max_bytes=100).request_memory(limit) == wanted


@pytest.mark.parametrize(("key", "wanted"), [(-1, None), (0, None), (100, 100), (10**12, 10**12)])
def test_where_the_key_is_set_the_limit_does_not_matter(key: int, wanted: int | None) -> None:
    config = NetworkConfig(socket_request_max_bytes=100, queued_max_request_bytes=key)
    assert config.request_memory(4_000) == wanted


def tree(root: Path, group: str, files: dict[str, str]) -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(group)
    for path, text in files.items():
        file = root / "sys/fs/cgroup" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


MACHINE = memory_limit(Path("/no/such/root"))


@pytest.mark.parametrize(
    ("group", "files", "limit"),
    [
        ("0::/\n", {"memory.max": "1000000\n"}, 1_000_000),
        ("0::/\n", {"memory.max": "max\n"}, MACHINE),
        ("0::/\n", {}, MACHINE),
        ("0::/a/b\n", {"a/b/memory.max": "max\n", "a/memory.max": "3000\n", "memory.max": "max"}, 3_000),
        ("0::/a/b\n", {"a/b/memory.max": "2000\n", "a/memory.max": "3000\n"}, 2_000),
        ("0::/unseen\n", {"memory.max": "5000\n"}, 5_000),
        ("4:memory:/a\n0::/\n", {"memory/a/memory.limit_in_bytes": "7000\n"}, 7_000),
        ("4:cpu,memory:/unseen\n", {"memory/memory.limit_in_bytes": "8000\n"}, 8_000),
        ("4:memory:/\n", {"memory/memory.limit_in_bytes": "9223372036854771712\n"}, MACHINE),
        ("4:cpu:/\n", {"memory/memory.limit_in_bytes": "8000\n"}, MACHINE),
        ("nonsense", {"memory.max": "no number"}, MACHINE),
    ],
)
def test_the_limit_is_that_of_the_control_group_or_the_machine(
    tmp_path: Path, group: str, files: dict[str, str], limit: int
) -> None:
    assert memory_limit(tree(tmp_path, group, files)) == limit


# Who asks


async def test_small_requests_ask_for_nothing(broker: RunningBroker, mock_clock: MockClock) -> None:
    client = await broker.connect()
    assert await is_served(client)
    for channel in broker.server.socket_server.channels():
        assert type(channel.receive) is LargeReceive
        assert LargeReceive.read is Receive.read, "the hot path is the plain one"
    (processor,) = broker.server.socket_server.processors()
    assert type(processor.selector.poll).__name__ == "builtin_function_or_method"


@pytest.mark.parametrize(
    ("frame", "is_served_now"),
    [(SCRATCH_BYTES - 5, True), (SCRATCH_BYTES - 4, True), (SCRATCH_BYTES - 3, False)],
)
async def test_only_what_is_larger_than_64_kib_with_its_size_waits(
    broker: RunningBroker, mock_clock: MockClock, frame: int, is_served_now: bool
) -> None:
    taker = await taker_of_all(broker)
    client = await broker.connect()
    await client.send(produce_request_of(frame, "tester"), PRODUCE_VERSION)
    await settled()
    assert (readable(client), waiting(broker)) == (is_served_now, not is_served_now)
    await taker.stream.aclose()
    await client.receive(0, PRODUCE_VERSION)
    await settled()
    assert (used(broker), waiting(broker)) == (0, 0)
    assert broker.server.socket_server.frames.outstanding == 0


async def test_a_client_that_waits_is_served_as_soon_as_memory_is_back(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    taker = await taker_of_all(broker)
    client = await broker.connect()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.send, LARGE, PRODUCE_VERSION)
        await settled()
        polite = await broker.connect()
        assert await is_served(polite), "small ones do not wait"
        assert (waiting(broker), readable(client)) == (1, False)
        started = trio.current_time()
        await taker.stream.aclose()
        await client.receive(0, PRODUCE_VERSION)
        assert trio.current_time() == started


async def test_a_connection_that_ends_while_it_waits_leaves_nothing(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    taker = await taker_of_all(broker)
    client = await broker.connect()
    await client.stream.send_all(struct.pack(">i", POOL) + bytes(100))
    await settled()
    assert waiting(broker) == 1
    await trio.aclose_forcefully(client.stream)
    await taker.stream.aclose()
    await settled()
    assert (used(broker), waiting(broker), broker.server.socket_server.frames.outstanding) == (0, 0, 0)


async def test_an_announcement_holds_nothing(broker: RunningBroker, mock_clock: MockClock) -> None:
    for _ in range(20):
        await (await broker.connect()).stream.send_all(BEGUN[:4])
    await settled()
    assert (used(broker), waiting(broker)) == (0, 0)
    client = await broker.connect()
    assert (await client.ask(LARGE, PRODUCE_VERSION)).responses[0].partition_responses[0].error_code == 0


@pytest.mark.parametrize(("passed", "closed"), [(4.999, False), (5.0, True)])
async def test_a_request_that_stands_still_is_given_up_when_others_have_waited_for_it(
    broker: RunningBroker,
    mock_clock: MockClock,
    caplog: pytest.LogCaptureFixture,
    passed: float,
    closed: bool,
) -> None:
    await taker_of_all(broker)
    client = await broker.connect()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.send, LARGE, PRODUCE_VERSION)
        await settled()
        mock_clock.jump(passed)
        await settled()
        assert readable(client) is closed
        assert len(log_texts(caplog)) == closed
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("more", "closed"), [(64 * 1024 - 1, True), (64 * 1024, False)])
async def test_a_request_that_goes_on_is_waited_for(
    broker: RunningBroker, mock_clock: MockClock, more: int, closed: bool
) -> None:
    taker = await taker_of_all(broker)
    client = await broker.connect()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.send, LARGE, PRODUCE_VERSION)
        await settled()
        mock_clock.jump(4.999)
        await taker.stream.send_all(bytes(more))
        await settled()
        mock_clock.jump(0.001)
        await settled()
        assert readable(client) is closed
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("mode", ["kafka", "automq"])
async def test_requests_of_all_sizes_keep_their_order_under_pressure(
    tmp_path: Path, mode: str, tls: bool
) -> None:
    async def converse(number: int) -> None:
        if tls:
            client = await broker.connect_tls(certificates().client_context())
        else:
            client = await broker.connect(f"client-{number}")
        stream = b"".join(
            encoded(produce_request(batch_of(bytes((10, 90_000, 200_000, 65_300)[at % 4]))), 8, at)
            for at in range(number, number + 30)
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.stream.send_all, stream)
            for at in range(number, number + 30, 5):
                assert await correlation_ids(client, 5) == list(range(at, at + 5))

    settings = tls_settings() if tls else ()
    async with running_broker(tmp_path, *settings, LARGEST, f"socket.server.mode={mode}") as broker:
        if tls:
            maker = await broker.connect_tls(certificates().client_context())
        else:
            maker = await broker.connect()
        assert (await maker.ask(create_topic(), 5)).topics[0].error_code == 0
        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(converse, number)
        assert stored(broker) == 300
        assert (used(broker), waiting(broker)) == (0, 0)
        assert broker.server.socket_server.frames.outstanding == 0
        assert await is_served(maker)
        await maker.ask(MetadataRequest([]), 9)
