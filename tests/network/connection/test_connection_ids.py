"""Connection ids: their format, and their uniqueness among open connections. (Kafka:
SocketServerTest.testConnectionId and testConnectionIdReuse)
"""

import socket
import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from trio.testing import MockClock

from broker.network.connection.channel import MAX_INDEX
from broker.network.processor import Processor
from broker.network.selector import UNWATCHED
from tests.support.connections import LOOPBACK, channel_of, settle
from tests.support.hostile import is_served
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient

INT_MAX = 2_147_483_647


def only_processor(broker: RunningBroker) -> Processor:
    (processor,) = broker.server.socket_server.processors()
    return processor


def id_of(broker: RunningBroker, client: WireClient) -> str:
    channel = channel_of(broker, client)
    assert channel is not None
    return channel.id


async def indices(broker: RunningBroker, count: int) -> list[int]:
    """Of so many new connections."""
    clients = [await broker.connect() for _ in range(count)]
    await settle()
    return [int(id_of(broker, client).rpartition("-")[2]) for client in clients]


async def test_an_id_is_local_and_remote_address_processor_and_index(tmp_path: Path) -> None:
    async with running_broker(tmp_path, "num.network.threads=1") as broker:
        clients = [await broker.connect() for _ in range(5)]
        assert [await is_served(client) for client in clients] == [True] * 5
        for index, client in enumerate(clients):
            local = f"{LOOPBACK}:{broker.port}"
            remote = f"{LOOPBACK}:{client.stream.socket.getsockname()[1]}"
            assert id_of(broker, client) == f"{local}-{remote}-{only_processor(broker).id}-{index}"


async def test_every_processor_counts_its_own_connections(tmp_path: Path) -> None:
    async with running_broker(tmp_path, "num.network.threads=2") as broker:
        clients = [await broker.connect() for _ in range(6)]
        assert [await is_served(client) for client in clients] == [True] * 6
        ends = [id_of(broker, client).rsplit("-", 2)[1:] for client in clients]
        assert sorted(ends) == [[str(processor), str(index)] for processor in (0, 1) for index in range(3)]


async def test_an_index_is_not_used_again_when_its_connection_has_ended(tmp_path: Path) -> None:
    async with running_broker(tmp_path, "num.network.threads=1") as broker:
        first = await broker.connect()
        assert await is_served(first)
        await first.stream.aclose()
        await settle()
        assert only_processor(broker).selector.ids == set()
        assert await indices(broker, 2) == [1, 2]


@pytest.mark.parametrize(
    ("first", "following"),
    [
        (INT_MAX - 2, [INT_MAX - 2, INT_MAX - 1, INT_MAX]),
        (INT_MAX - 1, [INT_MAX - 1, INT_MAX, 0]),
        (INT_MAX, [INT_MAX, 0, 1]),
    ],
)
async def test_behind_int_max_the_index_begins_at_0(tmp_path: Path, first: int, following: list[int]) -> None:
    assert MAX_INDEX == INT_MAX
    async with running_broker(tmp_path, "num.network.threads=1") as broker:
        only_processor(broker)._ids.next_index = first
        assert await indices(broker, 3) == following


async def test_an_index_that_begins_again_meets_old_connections_with_other_addresses(tmp_path: Path) -> None:
    """Then an index occurs twice, but no id does."""
    async with running_broker(tmp_path, "num.network.threads=1") as broker:
        old = [await broker.connect() for _ in range(2)]
        assert await is_served(old[1])
        only_processor(broker)._ids.next_index = INT_MAX
        assert await indices(broker, 3) == [INT_MAX, 0, 1]
        ids = [channel.id for channel in broker.server.socket_server.channels()]
        assert len(set(ids)) == len(ids) == 5
        assert only_processor(broker).selector.ids == set(ids)
        assert await is_served(old[0])


@contextmanager
def from_port(port: int, broker_port: int) -> Iterator[socket.socket]:
    """Connect from the given port, or from one that the system chooses (0)."""
    with closing(socket.socket()) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((LOOPBACK, port))
        sock.connect((LOOPBACK, broker_port))
        yield sock


@pytest.mark.parametrize(("next_index", "index"), [(5, 5), (INT_MAX, INT_MAX), (0, 1)])
async def test_an_id_that_is_still_open_is_not_given_to_a_connection_of_the_same_addresses(
    tmp_path: Path, mock_clock: MockClock, next_index: int, index: int
) -> None:
    """The first has index 0, was reset, and is not closed yet, so that the kernel lets its port be used
    again. At 0 its id would be there twice.
    """
    async with running_broker(tmp_path, "num.network.threads=1") as broker:
        processor = only_processor(broker)
        with from_port(0, broker.port) as first:
            await settle()
            (old,) = broker.server.socket_server.channels()
            processor.selector.stop_watching(old)  # as `_on_reset` does while it still has requests
            port = first.getsockname()[1]
            first.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        processor._ids.next_index = next_index
        with from_port(port, broker.port):
            await settle()
            assert (old.closed, old.interest) == (False, UNWATCHED)
            _, new = broker.server.socket_server.channels()
            stem = f"{LOOPBACK}:{broker.port}-{LOOPBACK}:{port}-{processor.id}"
            assert (old.id, new.id) == (f"{stem}-0", f"{stem}-{index}")
            assert processor.selector.ids == {old.id, new.id}
            processor.selector.close_channel(old, "over")
            assert processor.selector.ids == {new.id}
