"""A TLS listener with a burst of handshakes, and with handshakes that never continue."""

import contextlib
import socket
import ssl
import struct
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
import trio

from broker.protocol.messages.metadata import MetadataRequest
from tests.endtoend.test_storms import MIB, QUIET, descriptors, descriptors_at_rest, resident_bytes, storm_of
from tests.support.broker_process import BrokerProcess
from tests.support.certificates import certificates
from tests.support.hostile import until
from tests.support.wire import WireClient, connect_tls

pytestmark = pytest.mark.endtoend

STORM: Final = 1_000

WORST_S: Final = 10.0
"""Less than anything that the broker waits for by itself, and ten times what it takes on a busy machine."""


def hello() -> bytes:
    """What a client says first. Sent again and again it costs its sender nothing, and the broker a
    signature.
    """
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = certificates().client_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


async def worst_answer(client: WireClient, seconds: float) -> float:
    """The longest wait for an answer, asking on and on."""
    worst, end = 0.0, time.monotonic() + seconds
    while time.monotonic() < end:
        started = time.monotonic()
        await client.ask(MetadataRequest([]), 9)
        worst = max(worst, time.monotonic() - started)
        await trio.sleep(0.01)
    return worst


@pytest.mark.timed
@pytest.mark.parametrize("key", ["ec", "rsa"])
async def test_a_thousand_abandoned_handshakes(tmp_path: Path, key: str) -> None:
    """1,000 signatures at once: connected clients get responses meanwhile, and no state remains."""
    known = certificates()
    shown = known.server if key == "ec" else known.authority.sign("rsa", "/CN=rsa", algorithm="rsa")
    overrides = [
        "listeners=PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        f"ssl.keystore.location={shown.store}",
    ]
    with BrokerProcess(tmp_path, QUIET, *overrides, "connection.authentication.timeout.ms=3000") as broker:
        port = int(broker.sasl.rpartition(":")[2])
        polite = await connect_tls(port, known.client_context())
        base, resident = await descriptors_at_rest(broker), resident_bytes(broker)
        output = hello()
        with ExitStack() as stack:
            peers = storm_of(port, STORM, stack)
            for number, peer in enumerate(peers):
                peer.sendall(output if number % 4 else output[: number % len(output)])
            assert await worst_answer(polite, 2) < WORST_S
            assert resident_bytes(broker) - resident < 100 * MIB
            await until(lambda: descriptors(broker) == base)
        late = [line for line in broker.log_lines if "not authenticated within 3000 ms" in line]
        assert len(late) == STORM
        assert await worst_answer(polite, 0.1) < WORST_S
        await polite.stream.aclose()


@pytest.mark.timed
async def test_a_thousand_clients_that_are_reset_leave_nothing_behind(tmp_path: Path) -> None:
    known = certificates()
    overrides = [
        "listeners=PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        f"ssl.keystore.location={known.server.store}",
    ]
    with BrokerProcess(tmp_path, QUIET, *overrides) as broker:
        port = int(broker.sasl.rpartition(":")[2])
        polite = await connect_tls(port, known.client_context())
        base = await descriptors_at_rest(broker)
        output = hello()
        with ExitStack() as stack:
            for peer in storm_of(port, STORM, stack):
                peer.sendall(output)
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await until(lambda: descriptors(broker) == base)
        assert await worst_answer(polite, 0.1) < WORST_S
        assert not [line for line in broker.log_lines if "Traceback" in line]
        await polite.stream.aclose()
