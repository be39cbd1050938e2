"""Every connection limit set, raised, lowered and removed while two dozen rude clients connect: nothing
leaks, nothing fails, and an operator who is connected is answered.
"""

import random
import socket
import struct
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
import trio

from tests.endtoend.test_connection_quotas import METADATA, becomes, set_ip_rate, two_listeners
from tests.endtoend.test_storms import descriptors, descriptors_at_rest
from tests.support.broker_process import PATIENCE
from tests.support.live import alter_through

pytestmark = [pytest.mark.endtoend, pytest.mark.slow]

CLIENTS: Final = 24
CHANGES: Final = 50
KEPT_OPEN: Final = 5

VALUES: Final = {
    "max.connections": ("3", "20", "1000", None),
    "max.connection.creation.rate": ("5", "50", "1000", None),
    "max.connections.per.ip": ("5", "30", "1000", None),
    "listener.name.external.max.connections": ("2", "10", "100", None),
    "ip.throttle.mode": ("kip", "kafka", None),
}


def be_rude(ports: Sequence[int], seed: int, over: threading.Event) -> None:
    """Connects, and asks, or resets, or leaves, or stays without a word."""
    dice, kept = random.Random(seed), list[socket.socket]()
    while not over.is_set():
        try:
            sock = socket.create_connection(("127.0.0.1", dice.choice(ports)), timeout=2)
        except OSError:
            continue
        kept.append(sock)
        try:
            match dice.randrange(4):
                case 0 | 1:
                    sock.sendall(METADATA)
                    sock.recv(65_536)
                case 2:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    kept.pop().close()
        except OSError:
            kept.pop().close()
        if len(kept) > KEPT_OPEN:
            kept.pop(0).close()
    for sock in kept:
        sock.close()


async def test_limits_that_change_under_load_leak_nothing_and_delay_no_client(tmp_path: Path) -> None:
    async with two_listeners(tmp_path) as (broker, operator, inner, outer):
        base = await descriptors_at_rest(broker)
        over, worst, dice = threading.Event(), 0.0, random.Random(1)
        clients = [threading.Thread(target=be_rude, args=((inner, outer), n, over)) for n in range(CLIENTS)]
        for client in clients:
            client.start()
        try:
            for turn in range(CHANGES):
                key = dice.choice(list(VALUES))
                started = time.monotonic()
                assert await alter_through(operator, {key: dice.choice(VALUES[key])}) == (0, None)
                worst = max(worst, time.monotonic() - started)
                if turn % 5 == 0:
                    address, rate = dice.choice((None, "127.0.0.1")), dice.choice((None, 3, 20, 200))
                    await trio.to_thread.run_sync(set_ip_rate, broker, address, rate)
                await trio.sleep(0.2)
        finally:
            over.set()
            for client in clients:
                await trio.to_thread.run_sync(client.join)
        assert await alter_through(operator, dict.fromkeys(VALUES)) == (0, None)
        await becomes(lambda: descriptors(broker) == base)
        assert worst < 1 * PATIENCE
        assert not [line for line in broker.log_lines if "ERROR" in line or "Traceback" in line]
