"""The socket server's log lines, in Kafka's words, for operators who know Kafka."""

import logging
from pathlib import Path

import pytest
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.network.test_login import MODULE
from tests.network.test_sessions import log_in
from tests.network.tls.test_tls import ALICE
from tests.support.certificates import certificates, tls_settings
from tests.support.hostile import is_served
from tests.support.running import running_broker
from tests.support.wire import WireClient

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


async def test_without_debug_lines_a_connection_is_not_told_of(
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
        assert log_lines(caplog, "Successfully") == []


async def test_a_certificate(tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    async with running_broker(tmp_path, *tls_settings(client_auth="required")) as broker:
        known = certificates()
        client = await broker.connect_tls(known.client_context(known.alice))
        assert await is_served(client)
        (line,) = [each for each in caplog.records if each.getMessage().startswith("Successfully")]
        assert (line.__dict__["principal"], line.__dict__["mechanism"]) == (f"User:{ALICE}", "SSL")
