"""The socket server's log lines, in Kafka's words, for operators who know Kafka."""

import logging
import re
import socket
import struct
from pathlib import Path

import pytest
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.common.errors import ConfigError
from broker.protocol.messages.metadata import MetadataRequest
from tests.network.test_login import MODULE
from tests.network.test_sessions import log_in
from tests.network.test_tls import ALICE
from tests.support.certificates import certificates, tls_settings
from tests.support.hostile import is_served
from tests.support.memory import BOUNDED, settled, taker_of_all, waiting
from tests.support.running import running_broker
from tests.support.wire import WireClient

MAP = "listener.security.protocol.map=MINE:PLAINTEXT"

Line = tuple[str, str]
"""Level and words."""


@pytest.fixture(autouse=True)
def _every_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "broker.network")


def log_lines(caplog: pytest.LogCaptureFixture, *beginnings: str) -> list[Line]:
    """What has been told of the socket server and of one connection since the last call."""
    lines = [
        (each.levelname, each.getMessage())
        for each in caplog.records
        if each.name.startswith("broker.network") and each.getMessage().startswith(beginnings)
    ]
    caplog.clear()
    return lines


def peer(client: WireClient) -> str:
    return "{}:{}".format(*client.stream.socket.getsockname()[:2])


def channel_id(caplog: pytest.LogCaptureFixture) -> str:
    """Return the id of the connection that the last line is about."""
    return str(next(each.connection for each in reversed(caplog.records) if hasattr(each, "connection")))


async def test_the_life_of_a_socket_server(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_broker(tmp_path) as broker:
        address = f"127.0.0.1:{broker.port}"
        assert log_lines(caplog, "") == [
            ("INFO", f"Awaiting socket connections on {address}."),
            ("INFO", "Created data-plane acceptor and processors for endpoint : PLAINTEXT"),
            ("DEBUG", "Starting processors for listener PLAINTEXT"),
            ("INFO", "Enabling request processing."),
            ("DEBUG", "Starting acceptor thread for listener PLAINTEXT"),
        ]
        client = await broker.connect()
        await wait_all_tasks_blocked(0.01)
        assert log_lines(caplog, "") == [
            ("DEBUG", f"Accepted connection from {peer(client)} on {address} and assigned it to processor 0"),
            ("DEBUG", f"Processor 0 listening to new connection from {peer(client)}"),
        ]
    assert log_lines(caplog, "St", "Cl") == [
        ("INFO", "Stopping socket server request processors"),
        ("DEBUG", "Closing server socket, selector, and any throttled sockets."),
        ("INFO", "Stopped socket server request processors"),
    ]


async def test_processors_are_distinguished(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_broker(tmp_path, "num.network.threads=2") as broker:
        for _ in range(3):
            await broker.connect()
            await wait_all_tasks_blocked(0.01)
    assert [words[-1] for _, words in log_lines(caplog, "Accepted connection")] == ["0", "1", "0"]


async def test_without_debug_lines_a_connection_is_not_logged(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "broker.network")
    async with running_broker(tmp_path) as broker:
        caplog.clear()
        assert await is_served(await broker.connect())
        assert log_lines(caplog, "") == []


async def test_a_login_and_its_renewal(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    settings = (
        "listeners=SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms=PLAIN",
        "connections.max.reauth.ms=1500",
        f'listener.name.sasl_plaintext.plain.sasl.jaas.config={MODULE} user_alice="secret";',
    )
    async with running_broker(tmp_path, *settings) as broker:
        client = await broker.connect()
        for words in ("authenticated", "re-authenticated"):
            assert (await log_in(client))[0] == 0
            (line,) = [each for each in caplog.records if each.getMessage().startswith("Successfully")]
            assert (line.levelname, line.getMessage()) == (
                "DEBUG",
                f"Successfully {words} with {peer(client)}",
            )
            assert (line.__dict__["principal"], line.__dict__["mechanism"]) == ("User:alice", "PLAIN")
            caplog.clear()
        mock_clock.jump(1)
        assert (await log_in(client, b"\0alice\0wrong"))[0] != 0
        mock_clock.jump(0.1)
        assert await client.is_closed()
        source = channel_id(caplog)
        assert log_lines(caplog, "Successfully", "Failed") == [
            ("INFO", f"Failed re-authentication with /127.0.0.1 (channelId={source}) (the login failed)")
        ]
        stranger = await broker.connect()
        assert (await log_in(stranger, b"\0alice\0wrong"))[0] != 0
        mock_clock.jump(0.1)
        assert await stranger.is_closed()
        source = channel_id(caplog)
        assert log_lines(caplog, "Successfully", "Failed") == [
            ("INFO", f"Failed authentication with /127.0.0.1 (channelId={source}) (the login failed)")
        ]


async def test_a_certificate(tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    async with running_broker(tmp_path, *tls_settings(client_auth="required")) as broker:
        known = certificates()
        client = await broker.connect_tls(known.client_context(known.alice))
        assert await is_served(client)
        (line,) = [each for each in caplog.records if each.getMessage().startswith("Successfully")]
        assert (line.__dict__["principal"], line.__dict__["mechanism"]) == (f"User:{ALICE}", "SSL")


async def test_a_failed_handshake(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_broker(tmp_path, *tls_settings()) as broker:
        client = await broker.connect()
        await client.stream.send_all(b"GET / HTTP/1.1\r\n\r\n")
        assert await client.is_closed()
        source = channel_id(caplog)
        ((level, words),) = log_lines(caplog, "Failed")
        assert level == "INFO"
        assert words.startswith(
            f"Failed authentication with /127.0.0.1 (channelId={source}) (the TLS handshake failed: "
        )


@pytest.mark.parametrize(
    ("size", "reason"),
    [
        (-1, "Invalid receive (size = -1)"),
        (100_001, "Invalid receive (size = 100001 larger than 100000)"),
    ],
)
async def test_a_peer_that_sends_no_request(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture, size: int, reason: str
) -> None:
    async with running_broker(tmp_path, "socket.request.max.bytes=100000") as broker:
        client = await broker.connect()
        await client.stream.send_all(struct.pack(">i", size))
        assert await client.is_closed()
        source = channel_id(caplog)
        (line,) = [each for each in caplog.records if each.getMessage().startswith("Unexpected")]
        assert (line.levelname, line.getMessage(), line.__dict__["reason"]) == (
            "WARNING",
            f"Unexpected error from /127.0.0.1 (channelId={source}); closing connection",
            reason,
        )


@pytest.mark.parametrize("mode", ["kafka", "automq"])
async def test_a_peer_that_leaves(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture, mode: str
) -> None:
    async with running_broker(tmp_path, f"socket.server.mode={mode}") as broker:
        client = await broker.connect()
        assert await is_served(client)
        (channel,) = broker.server.socket_server.channels()
        await client.stream.aclose()
        await wait_all_tasks_blocked(0.01)
        assert log_lines(caplog, "Connection with") == [
            ("DEBUG", f"Connection with /127.0.0.1 (channelId={channel.id}) disconnected")
        ]


async def test_a_port_that_is_taken(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ConfigError, match="cannot be bound: Address already in use"):
            async with running_broker(tmp_path, f"listeners=MINE://127.0.0.1:{taken.getsockname()[1]}", MAP):
                pass  # never reached
    assert log_lines(caplog, "Unable") == [("ERROR", "Unable to start acceptor for MINE")]


async def test_request_memory_that_runs_out_and_recovers_is_reported_once_a_second(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    recovered = ("INFO", "Broker no longer low on memory - unmuting incoming sockets")

    async def runs_out_and_recovers() -> list[Line]:
        taker = await taker_of_all(broker)
        polite = await broker.connect()
        await polite.send(MetadataRequest([]), 9)
        await settled()
        assert waiting(broker) == 1
        low = log_lines(caplog, "Broker")
        await taker.stream.aclose()
        await polite.receive(3, 9)
        return low + log_lines(caplog, "Broker")

    async with running_broker(tmp_path, *BOUNDED) as broker:
        (low, after) = await runs_out_and_recovers()
        assert low[0] == "INFO"
        words = r"Broker low on memory - could not allocate buffer of size \d+ for source 127\.0\.0\.1:\d+-.*"
        assert re.fullmatch(words, low[1])
        assert after == recovered
        mock_clock.jump(0.999)
        assert await runs_out_and_recovers() == []
        mock_clock.jump(0.001)
        assert len(await runs_out_and_recovers()) == 2
