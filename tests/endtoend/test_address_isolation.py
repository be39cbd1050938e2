"""An address that connects as fast as it can, far above its own rate, delays no other. Real sockets of
127.0.0.2 and 127.0.0.3; tests/network/acceptor has the same rule on the mock clock.
"""

import math
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.endtoend.test_connection_quotas import METADATA, set_ip_rate
from tests.endtoend.test_storms import port_of
from tests.support.broker_process import BrokerProcess

# Slow: it needs a processor for the broker beside those of the one that hammers and the one that measures.
pytestmark = [pytest.mark.endtoend, pytest.mark.timed, pytest.mark.slow]

HAMMER: Final = "127.0.0.2"
STEADY: Final = "127.0.0.3"
RATE: Final = 5
CONNECTIONS: Final = 40
EVERY_S: Final = 0.05
LATER_MS: Final = 50

HAMMERING: Final = """
import socket, sys
address, port = sys.argv[1], int(sys.argv[2])
for number in range(10**9):
    with socket.socket() as sock:
        sock.bind((address, 0))
        try:
            sock.connect(("127.0.0.1", port))
        except OSError:
            continue
    if number == 200:
        print("hammering", flush=True)
"""


@contextmanager
def hammering(port: int) -> Iterator[None]:
    """Connect without a pause from a process of its own, which shares no interpreter with the measurement."""
    command = [sys.executable, "-c", HAMMERING, HAMMER, str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "hammering\n"
            yield
            assert process.poll() is None
        finally:
            process.kill()


def waits_ms(port: int) -> list[float]:
    """From the begin of each connection to the response to its first request."""
    waits = []
    next_at = time.monotonic()
    for _ in range(CONNECTIONS):
        time.sleep(max(0.0, next_at - time.monotonic()))
        next_at += EVERY_S
        begun = time.monotonic()
        with socket.create_connection(("127.0.0.1", port), timeout=30, source_address=(STEADY, 0)) as sock:
            sock.sendall(METADATA)
            assert sock.recv(65_536)
        waits.append((time.monotonic() - begun) * 1_000)
    return sorted(waits)


def percentile_95(waits: list[float]) -> float:
    return waits[math.ceil(0.95 * len(waits)) - 1]


def test_an_address_above_its_rate_delays_no_other(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        port = port_of(broker)
        set_ip_rate(broker, HAMMER, RATE)
        waits_ms(port)  # warms the broker up
        alone = percentile_95(waits_ms(port))
        with hammering(port):
            beside = percentile_95(waits_ms(port))
    print(f"95th percentile: {alone:.1f} ms alone, {beside:.1f} ms beside the hammer")
    assert beside - alone <= LATER_MS
