"""Requests of notifications over real sockets of this machine: what is sent, and where it must not go."""

import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio

from broker.config.host_patterns import HostPattern
from broker.monitoring.alerts import sender
from broker.monitoring.alerts.outbox import SendResult
from broker.monitoring.alerts.sender import MAX_BODY_BYTES, allowed_addresses, post
from broker.security.egress import Egress, read_url
from tests.support.certificates import certificates

LOOPBACK = Egress([HostPattern.read("127.0.0.0/8")])


class Receiver:
    """An HTTP server of one answer, which records the requests."""

    def __init__(self, answer: bytes = b"HTTP/1.1 204 No Content\r\n\r\n") -> None:
        self.answer = answer
        self.requests: list[bytes] = []
        self.port = 0

    async def serve(self, task_status: trio.TaskStatus[int]) -> None:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.port = listeners[0].socket.getsockname()[1]
        await trio.serve_listeners(self.handle, listeners, task_status=task_status)  # type: ignore[arg-type]

    async def handle(self, stream: trio.SocketStream) -> None:
        received = b""
        while b"\r\n\r\n" not in received or not received.endswith(b"}"):
            chunk = await stream.receive_some()
            if not chunk:
                return
            received += chunk
        self.requests.append(received)
        with contextlib.suppress(trio.BrokenResourceError):
            await stream.send_all(self.answer)
            await stream.send_eof()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    made = Receiver()
    async with trio.open_nursery() as nursery:
        await nursery.start(made.serve)
        yield made
        nursery.cancel_scope.cancel()


async def send(url: str, egress: Egress = LOOPBACK, timeout_s: float = 10, **headers: str) -> SendResult:
    return await post(read_url(url), b'{"a":1}', list(headers.items()), egress, timeout_s)


async def test_a_request_has_the_body_and_the_headers(receiver: Receiver) -> None:
    result = await send(f"http://127.0.0.1:{receiver.port}/hook?a=b", Authorization="Bearer s3cret")
    assert (result.status, result.is_delivered) == (204, True)
    head, _, body = receiver.requests[0].partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /hook?a=b HTTP/1.1" and body == b'{"a":1}'
    fields = dict(line.split(": ", 1) for line in lines[1:])
    assert fields["Authorization"] == "Bearer s3cret"
    assert fields["Host"] == f"127.0.0.1:{receiver.port}"
    assert (fields["Content-Type"], fields["Content-Length"]) == ("application/json", "7")


@pytest.mark.parametrize(
    ("answer", "status", "retry_after"),
    [
        (b"HTTP/1.1 429 Slow\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n", 429, "7"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", 302, None),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (MAX_BODY_BYTES * 4), 200, None),
    ],
)
async def test_answers_are_read_but_not_followed(
    receiver: Receiver, answer: bytes, status: int, retry_after: str | None
) -> None:
    receiver.answer = answer
    result = await send(f"http://127.0.0.1:{receiver.port}/")
    assert (result.status, result.retry_after) == (status, retry_after)
    assert len(receiver.requests) == 1


@pytest.mark.parametrize("answer", [b"SSH-2.0-OpenSSH\r\n\r\n", b"", b"HTTP/1.1 999999 x\r\n\r\n"])
async def test_what_is_no_answer_is_a_reason(receiver: Receiver, answer: bytes) -> None:
    receiver.answer = answer
    result = await send(f"http://127.0.0.1:{receiver.port}/")
    assert (result.status, result.is_permanent) == (0, False) and result.reason


async def test_a_port_without_a_server_is_a_reason() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        result = await send(f"http://127.0.0.1:{unused.getsockname()[1]}/")
    assert result.status == 0 and "refused" in result.reason


async def test_a_server_that_never_answers_has_a_deadline(receiver: Receiver) -> None:
    async def silent(_stream: Any) -> None:
        await trio.sleep_forever()

    receiver.handle = silent  # type: ignore[method-assign]
    async with trio.open_nursery() as nursery:
        await nursery.start(receiver.serve)
        result = await send(f"http://127.0.0.1:{receiver.port}/", timeout_s=0.05)
        nursery.cancel_scope.cancel()
    assert result == SendResult(0, "no response within 0.05 s")


async def test_an_address_that_is_not_allowed_is_not_connected_to(receiver: Receiver) -> None:
    for host in ("localhost", "127.0.0.1", "127.1", "2130706433", "0x7f000001"):
        egress = Egress([HostPattern.read("public"), HostPattern.read("10.0.0.0/8")])
        result = await send(f"http://{host}:{receiver.port}/", egress)
        assert result.is_permanent and "which is not in alerts.destination.hosts" in result.reason
    assert receiver.requests == []


async def test_a_listed_name_may_lead_anywhere(receiver: Receiver) -> None:
    egress = Egress([HostPattern.read(f"localhost:{receiver.port}")])
    assert (await send(f"http://localhost:{receiver.port}/", egress)).is_delivered


async def test_the_connection_goes_to_the_checked_address(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that changes between the check and the connection leads to the checked address."""
    answers = iter([["127.0.0.1"], ["10.255.255.1"]])

    async def resolve(_host: str, port: int, **_rest: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in next(answers)]

    monkeypatch.setattr(sender.trio.socket, "getaddrinfo", resolve)
    assert (await send(f"http://rebound.example:{receiver.port}/")).is_delivered


async def test_of_several_addresses_the_allowed_ones_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async def resolve(_host: str, port: int, **_rest: Any) -> list[Any]:
        found = ("10.0.0.1", "127.0.0.1", "::1", "127.0.0.2", "127.0.0.1")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in found]

    monkeypatch.setattr(sender.trio.socket, "getaddrinfo", resolve)
    endpoint = read_url("http://several.example/")
    assert await allowed_addresses(LOOPBACK, endpoint) == ["127.0.0.1", "127.0.0.2"]


async def test_a_certificate_that_is_not_trusted_is_a_reason() -> None:
    server = certificates().server
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.certificate, server.key)
    received = []

    async def handle(stream: trio.SSLStream[trio.SocketStream]) -> None:
        with contextlib.suppress(trio.BrokenResourceError):
            received.append(await stream.receive_some())

    async with trio.open_nursery() as nursery:
        listeners = await trio.open_ssl_over_tcp_listeners(0, context, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, handle, listeners)
        port = listeners[0].transport_listener.socket.getsockname()[1]
        result = await send(f"https://127.0.0.1:{port}/")
        nursery.cancel_scope.cancel()
    assert result.status == 0 and "certificate" in result.reason.lower()
    assert received == []


async def test_a_name_that_does_not_exist_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def resolve(*_given: Any, **_rest: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(sender.trio.socket, "getaddrinfo", resolve)
    result = await send("http://missing.example/")
    assert (result.status, result.is_permanent) == (0, False) and "not known" in result.reason
