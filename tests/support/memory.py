"""A broker whose memory of requests is bounded to one request of the largest size, and a client that takes it
all.
"""

import socket
import struct

from trio.testing import wait_all_tasks_blocked

from tests.support.running import RunningBroker
from tests.support.wire import WireClient

KIB = 1024
POOL = 256 * KIB
BOUNDED = (f"queued.max.request.bytes={POOL}", f"socket.request.max.bytes={POOL}")
BEGUN = struct.pack(">i", POOL) + b"\0"
"""The first byte of a request that takes all of the memory."""


def used(broker: RunningBroker) -> int:
    assert broker.server.socket_server.memory is not None
    return broker.server.socket_server.memory.memory.used


def waiting(broker: RunningBroker) -> int:
    assert broker.server.socket_server.memory is not None
    return broker.server.socket_server.memory.waiting


async def settled() -> None:
    await wait_all_tasks_blocked(0.02)


async def taker_of_all(broker: RunningBroker) -> WireClient:
    taker = await broker.connect("taker")
    await taker.stream.send_all(BEGUN)
    await settled()
    assert used(broker) == POOL
    return taker


def readable(client: WireClient) -> bool:
    try:
        return bool(client.stream.socket._sock.recv(1, socket.MSG_PEEK))  # type: ignore[attr-defined]
    except BlockingIOError:
        return False
