"""What a hostile peer sends and what is to come of it: raw frames, and claims about how a connection ended.

Used by the tests of bad input. A broker answers each with an error code, or with the end of the connection
and one log line.
"""

import struct
import time
from collections.abc import Callable, Iterator
from typing import Final

import pytest
import trio
import trio.testing

from broker.protocol.messages.metadata import MetadataRequest
from broker.protocol.varint import uvarint
from tests.support.machine_speed import WITHIN_S
from tests.support.wire import WireClient

HEADER_V1 = struct.Struct(">hhih")


def framed(body: bytes) -> bytes:
    """`body` behind its honest size."""
    return struct.pack(">i", len(body)) + body


LIMIT: Final = 100_000
"""`socket.request.max.bytes` where NO_REQUESTS are sent."""

TLS_HELLO: Final = bytes.fromhex("16030100c8010000c40303") + bytes(range(200))
HTTP_GET: Final = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"

NO_REQUESTS: Final = {
    "a size below zero": (struct.pack(">i", -1), "Invalid receive (size = -1)"),
    "the least size": (
        struct.pack(">i", -(2**31)),
        f"Invalid receive (size = {-(2**31)})",
    ),
    "a size above the limit": (
        struct.pack(">i", LIMIT + 1),
        "Invalid receive (size = 100001 larger than 100000)",
    ),
    "the greatest size": (
        struct.pack(">i", 2**31 - 1),
        f"Invalid receive (size = {2**31 - 1} larger than 100000)",
    ),
    "an empty frame": (framed(b""), "a request of 0 bytes has no header: expected at least 10"),
    "a frame below the smallest header": (
        framed(bytes(9)),
        "a request of 9 bytes has no header: expected at least 10",
    ),
    "HTTP": (HTTP_GET, f"Invalid receive (size = {0x47455420} larger than 100000)"),
    "TLS": (TLS_HELLO, f"Invalid receive (size = {0x16030100} larger than 100000)"),
}
"""What is no request frame, and the reason for closing its connection."""


def request(api_key: int, version: int, body: bytes = b"", *, flexible: bool = False) -> bytes:
    """A whole frame with an honest header and any body at all."""
    client_id = b"hostile"
    header = HEADER_V1.pack(api_key, version, 1, len(client_id)) + client_id
    return framed(header + (b"\0" if flexible else b"") + body)


def compact_array(count: int) -> bytes:
    """The beginning of an array of `count` elements."""
    return uvarint(count + 1)


async def is_served(client: WireClient) -> bool:
    """Whether a polite connection gets its answer."""
    with trio.move_on_after(WITHIN_S) as scope:
        answer = await client.ask(MetadataRequest([]), 9)
        assert len(answer.brokers) == 1
    return not scope.cancelled_caught


async def is_closed_soon(client: WireClient) -> bool:
    """Whether the broker ends the connection, without a word."""
    with trio.move_on_after(WITHIN_S):
        return await client.is_closed()
    return False


async def until(is_so: Callable[[], bool], seconds: float = WITHIN_S) -> None:
    """Returns as soon as `is_so`; trio.TooSlowError when it was not within `seconds`.

    It waits in a thread: a mock clock may stand still, and where a client asks all the time no moment comes
    at which all tasks are blocked.
    """
    with trio.fail_after(seconds):
        while not is_so():
            await trio.to_thread.run_sync(time.sleep, 0.01)


LIFE_OF_THE_SERVER = {
    "broker.metadata.secret_key",
    "broker.network.acceptor.acceptor",
    "broker.network.server_factory",
    "broker.network.socket_server",
}
"""Who tells, at INFO, of its beginning and its end and of no connection."""


def log_texts(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The reasons of the connections that were closed, one for each line that an operator saw."""
    return list(_reasons(caplog))


def _reasons(caplog: pytest.LogCaptureFixture) -> Iterator[str]:
    for record in caplog.records:
        if record.name in LIFE_OF_THE_SERVER and record.levelname == "INFO":
            continue
        if record.name.startswith("broker") and record.levelname != "DEBUG":
            assert record.exc_info is None, record.getMessage()
            yield str(getattr(record, "reason", record.getMessage()))
