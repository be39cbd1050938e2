"""E-mail over real sockets of this machine: what a mail server receives, and what its failures lead to."""

import base64
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from email import message_from_bytes, policy
from typing import Any

import pytest
import trio

from broker.config.host_patterns import HostPattern
from broker.monitoring.alerts import mail as mails
from broker.monitoring.alerts.formats import Notification, NotificationSource
from broker.monitoring.alerts.mail import Mail, mail_of, send_mail
from broker.monitoring.alerts.outbox import SendResult
from broker.security.egress import SMTP, Egress, read_url
from tests.support.certificates import certificates

LOOPBACK = Egress([HostPattern.read("127.0.0.0/8"), HostPattern.read("localhost")])
SOURCE = NotificationSource("Zm9v", 3, "http://weir.example/")
FIRING = Notification(
    "lag of reports", "lag", "critical", (("group", "rep\u202eorts\r\nBcc: x"),), 9, 5, 0, None
)
MAIL = mail_of([FIRING], SOURCE, "weir@example.com", ("ops@example.com", "b@example.com"), 0)


class MailServer:
    """Speaks enough SMTP (RFC 5321). `answers` replaces the reply to a command, by its first word; a reply of
    "" is silence.
    """

    def __init__(self) -> None:
        self.answers: dict[str, str] = {}
        self.offers = ["8BITMIME", "AUTH PLAIN"]
        self.tls: ssl.SSLContext | None = None
        self.is_encrypted = False
        self.commands: list[str] = []
        self.messages: list[bytes] = []
        self.encrypted: list[str] = []
        self.port = 0

    async def serve(self, task_status: trio.TaskStatus[Any]) -> None:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.port = listeners[0].socket.getsockname()[1]
        await trio.serve_listeners(self.handle, listeners, task_status=task_status)

    async def handle(self, stream: trio.abc.Stream) -> None:
        is_encrypted = self.is_encrypted
        if is_encrypted:
            assert self.tls is not None
            stream = trio.SSLStream(stream, self.tls, server_side=True)
        with contextlib.suppress(trio.BrokenResourceError):
            await self.talk(stream, is_encrypted)

    async def talk(self, stream: trio.abc.Stream, is_encrypted: bool) -> None:
        await self.reply(stream, "CONNECT", "220 mail.example")
        lines = Lines(stream)
        while (line := await lines.next()) is not None:
            text = line.decode()
            verb = text.split(" ")[0].upper()
            self.commands.append(text)
            if is_encrypted:
                self.encrypted.append(verb)
            if verb == "EHLO":
                offers = ["mail.example", *self.offers]
                await stream.send_all(
                    "".join(
                        f"250{'-' if each is not offers[-1] else ' '}{each}\r\n" for each in offers
                    ).encode()
                )
            elif verb == "STARTTLS":
                assert self.tls is not None
                await stream.send_all(b"220 go\r\n")
                stream = trio.SSLStream(stream, self.tls, server_side=True)
                lines, is_encrypted = Lines(stream), True
            elif verb == "DATA":
                if await self.reply(stream, verb, "354 go on"):
                    self.messages.append(await lines.until(b"\r\n.\r\n"))
                    if not await self.reply(stream, "MESSAGE", "250 queued"):
                        return
            elif verb == "QUIT" or not await self.reply(
                stream, text if text in self.answers else verb, "250 OK" if verb != "AUTH" else "235 OK"
            ):
                return

    async def reply(self, stream: trio.abc.Stream, about: str, usual: str) -> bool:
        """Whether the conversation goes on."""
        answer = self.answers.get(about, usual)
        if answer == "":
            await trio.sleep_forever()
        await stream.send_all(f"{answer}\r\n".encode())
        return True


class Lines:
    def __init__(self, stream: trio.abc.ReceiveStream) -> None:
        self._stream = stream
        self._buffer = b""

    async def until(self, mark: bytes) -> bytes:
        while mark not in self._buffer:
            chunk = await self._stream.receive_some()
            if not chunk:
                raise trio.BrokenResourceError
            self._buffer += bytes(chunk)
        found, _, self._buffer = self._buffer.partition(mark)
        return found

    async def next(self) -> bytes | None:
        try:
            return await self.until(b"\r\n")
        except trio.BrokenResourceError:
            return None


@pytest.fixture
async def server() -> AsyncIterator[MailServer]:
    made = MailServer()
    async with trio.open_nursery() as nursery:
        await nursery.start(made.serve)
        yield made
        nursery.cancel_scope.cancel()


@pytest.fixture
def tls(monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """The server's context; clients trust its certificate."""
    known = certificates()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(known.server.certificate, known.server.key)
    monkeypatch.setenv("SSL_CERT_FILE", str(known.authority.certificate))
    return context


async def send(
    server: MailServer,
    scheme: str = "smtp+plain",
    mail: Mail = MAIL,
    login: tuple[str, str] | None = None,
    egress: Egress = LOOPBACK,
    timeout_s: float = 30,
    host: str = "127.0.0.1",
) -> SendResult:
    endpoint = read_url(f"{scheme}://{host}:{server.port}", SMTP)
    return await send_mail(endpoint, mail, login, egress, timeout_s)


async def test_a_mail_has_an_envelope_headers_and_a_text(server: MailServer) -> None:
    result = await send(server)
    assert (result.status, result.text, result.is_delivered) == (250, "250 OK", True)
    assert server.commands[1:4] == [
        "mail FROM:<weir@example.com>",
        "rcpt TO:<ops@example.com>",
        "rcpt TO:<b@example.com>",
    ]
    (data,) = server.messages
    data.decode("ascii")
    message = message_from_bytes(data, policy=policy.default)
    assert (message["From"], message["To"]) == ("weir@example.com", "ops@example.com, b@example.com")
    assert message["Subject"] == "[Weir] Firing: lag of reports"
    assert message["Bcc"] is None and message["Auto-Submitted"] == "auto-generated"
    text = message.get_content()  # type: ignore[attr-defined]
    assert "lag of reports (critical)" in text
    assert "group rep\ufffdorts\ufffd\ufffdBcc: x has a lag of 9 records, more than 5" in text
    assert "http://weir.example/" in text


async def test_starttls_protects_the_password(server: MailServer, tls: ssl.SSLContext) -> None:
    server.tls = tls
    server.offers.append("STARTTLS")
    result = await send(server, "smtp", login=("weir", "s3cret"), host="localhost")
    assert result.is_delivered and len(server.messages) == 1
    assert server.commands[1] == "STARTTLS" and "AUTH" in server.encrypted and "DATA" in server.encrypted
    (login,) = [each for each in server.commands if each.startswith("AUTH PLAIN ")]
    assert base64.b64decode(login.removeprefix("AUTH PLAIN ")) == b"\0weir\0s3cret"


async def test_smtps_is_encrypted_from_the_start(server: MailServer, tls: ssl.SSLContext) -> None:
    server.tls, server.is_encrypted = tls, True
    result = await send(server, "smtps", login=("weir", "s3cret"), host="localhost")
    assert result.is_delivered and len(server.messages) == 1 and "EHLO" in map(str.upper, server.encrypted)


async def test_without_starttls_nothing_is_sent(server: MailServer) -> None:
    result = await send(server, "smtp", login=("weir", "s3cret"))
    assert result.is_permanent and "STARTTLS" in result.text
    assert not server.messages and not any("AUTH" in each for each in server.commands)


@pytest.mark.parametrize("scheme", ["smtp", "smtps"])
async def test_a_certificate_that_is_not_trusted_is_a_reason(
    server: MailServer, tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    server.tls, server.is_encrypted = tls, scheme == "smtps"
    server.offers.append("STARTTLS")
    result = await send(server, scheme, login=("weir", "s3cret"), host="localhost")
    assert result.status == 0 and "certificate" in result.text.lower()
    assert not server.messages and not any("AUTH" in each for each in server.commands)


@pytest.mark.parametrize(
    ("command", "answer", "permanent"),
    [
        ("CONNECT", "421 too busy", False),
        ("CONNECT", "554 no service", True),
        ("MAIL", "451 try later", False),
        ("MAIL", "553 not you", True),
        ("RCPT", "450 greylisted", False),
        ("RCPT", "550 no such user", True),
        ("DATA", "452 disk full", False),
        ("MESSAGE", "554 spam", True),
        ("MESSAGE", "451 local error", False),
        ("AUTH", "535 5.7.8 wrong", True),
        ("AUTH", "454 later", False),
    ],
)
async def test_a_refusal_is_final_or_not(
    server: MailServer, command: str, answer: str, permanent: bool
) -> None:
    server.answers = {command: answer, command.lower(): answer}
    result = await send(server, login=("weir", "s3cret") if command == "AUTH" else None)
    assert (result.is_delivered, result.is_permanent, result.text) == (False, permanent, answer)


async def test_a_mail_can_reach_some_recipients(server: MailServer) -> None:
    server.answers["rcpt TO:<b@example.com>"] = "550 no such user"
    result = await send(server)
    assert result.is_delivered
    assert result.text == "250 OK, but not for b@example.com: 550 no such user"


@pytest.mark.parametrize("command", ["CONNECT", "MAIL", "DATA", "MESSAGE"])
async def test_a_server_that_hangs_has_a_deadline_and_ends_its_thread(
    server: MailServer, command: str
) -> None:
    server.answers = {command: "", command.lower(): ""}
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.sleep(0.01)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(count)
        result = await send(server, timeout_s=0.3)
        nursery.cancel_scope.cancel()
    assert result == SendResult(0, "no response within 0.3 s") and not result.is_permanent
    # The event loop went on.
    assert turns > 3
    with trio.fail_after(30):
        # All threads are free.
        borrowers = [object() for _ in range(int(mails._THREADS.total_tokens))]
        for each in borrowers:
            await mails._THREADS.acquire_on_behalf_of(each)
        for each in borrowers:
            mails._THREADS.release_on_behalf_of(each)


async def test_a_server_that_says_nothing_after_the_mail_has_it(server: MailServer) -> None:
    """QUIT is not waited for: a mail that is accepted would be sent again."""
    server.answers["QUIT"] = ""
    with trio.fail_after(10):
        assert (await send(server, timeout_s=60)).is_delivered


async def test_a_port_without_a_server_is_a_reason(server: MailServer) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        server.port = unused.getsockname()[1]
        result = await send(server)
    assert (result.status, result.is_permanent) == (0, False) and "refused" in result.reason


async def test_what_is_no_mail_server_is_a_reason(server: MailServer) -> None:
    server.answers["CONNECT"] = "HTTP/1.1 400 Bad Request"
    result = await send(server)
    assert not result.is_delivered and result.text


async def test_an_address_that_is_not_allowed_is_not_connected_to(server: MailServer) -> None:
    egress = Egress([HostPattern.read("public"), HostPattern.read("10.0.0.0/8")])
    for scheme in SMTP:
        result = await send(server, scheme, egress=egress, host="localhost")
        assert result.is_permanent and "not in alerts.destination.hosts" in result.reason
    assert server.commands == []
