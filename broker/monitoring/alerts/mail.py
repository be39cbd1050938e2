"""Notifications as e-mail, and their submission to a mail server over SMTP.

Called by broker.monitoring.alerts.task. Trio connects, to addresses that the allow list permits only; the
standard library's smtplib then speaks SMTP in a worker thread. At the deadline the connection is shut down,
which ends the thread at once. smtp:// requires STARTTLS, and smtps:// is TLS from the start; both verify the
server's certificate.
"""

import smtplib
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email import policy
from email.message import EmailMessage
from email.utils import format_datetime, make_msgid
from typing import Final

import msgspec
import trio

from broker.monitoring.alerts.formats import Notification, NotificationSource, headline, utc
from broker.monitoring.alerts.outbox import SendResult
from broker.monitoring.alerts.sender import NotAllowed, allowed_addresses, described, shown
from broker.security.egress import Egress, Endpoint

_THREADS: Final = trio.CapacityLimiter(4)
"""Mails that are sent at the same time; more wait for their turn, within their deadline."""


_POLICY: Final = policy.SMTP.clone(cte_type="7bit")
"""Every mail server takes 7-bit lines."""


class Mail(msgspec.Struct, frozen=True):
    sender: str
    recipients: tuple[str, ...]
    subject: str
    text: str
    at_ms: int

    def message(self) -> bytes:
        made = EmailMessage(_POLICY)
        made["From"] = self.sender
        made["To"] = ", ".join(self.recipients)
        made["Subject"] = self.subject
        made["Date"] = format_datetime(datetime.fromtimestamp(self.at_ms / 1000, UTC))
        made["Message-ID"] = make_msgid(domain=self.sender.rpartition("@")[2])
        # Programs do not reply to it (RFC 3834).
        made["Auto-Submitted"] = "auto-generated"
        made.set_content(self.text)
        return made.as_bytes()


def mail_of(
    batch: Sequence[Notification],
    source: NotificationSource,
    sender: str,
    recipients: Sequence[str],
    at_ms: int,
) -> Mail:
    parts = [_paragraph(each) for each in batch]
    end = f"Weir, node {source.node_id} of cluster {source.cluster_id}\n{source.console}"
    return Mail(
        sender, tuple(recipients), f"[Weir] {headline(batch)}", "\n\n".join([*parts, f"-- \n{end}\n"]), at_ms
    )


def _paragraph(each: Notification) -> str:
    state = each.severity if each.ended_at_ms is None else "resolved"
    lines = [f"{each.rule} ({state})", _visible(each.summary), f"since {utc(each.started_at_ms)}"]
    if each.ended_at_ms is not None:
        lines[-1] += f", until {utc(each.ended_at_ms)}"
    return "\n".join(lines)


def _visible(text: str) -> str:
    """Replace what is not printable: clients choose their names."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)


async def send_mail(
    endpoint: Endpoint, mail: Mail, login: tuple[str, str] | None, egress: Egress, timeout_s: float
) -> SendResult:
    """Send one mail. Never raises for network errors. `timeout_s` covers all of it."""
    with trio.move_on_after(timeout_s):
        try:
            addresses = await allowed_addresses(egress, endpoint)
            connection = await _connect(addresses, endpoint.port)
        except NotAllowed as error:
            return SendResult(0, str(error), is_final=True)
        except (OSError, ValueError) as error:
            return SendResult(0, described(error))
        other = connection.dup()
        try:
            connection.settimeout(timeout_s)
            return await trio.to_thread.run_sync(
                _submit, connection, endpoint, mail, login, abandon_on_cancel=True, limiter=_THREADS
            )
        finally:
            with suppress(OSError):
                other.shutdown(socket.SHUT_RDWR)
            other.close()
    return SendResult(0, f"no response within {timeout_s:g} s")


async def _connect(addresses: Sequence[str], port: int) -> socket.socket:
    """Return a blocking socket that is connected to the first address that answers. Raises OSError."""
    problem = OSError("no address")
    for address in addresses:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        made = trio.socket.socket(family, socket.SOCK_STREAM)
        try:
            await made.connect((address, port))
        except OSError as error:
            made.close()
            problem = error
        except BaseException:
            made.close()
            raise
        else:
            return socket.socket(fileno=made.detach())
    raise problem


class _Client(smtplib.SMTP):
    """Speaks over a connection that exists."""

    def __init__(self, connection: socket.socket, host: str) -> None:
        self._connection = connection
        # The address stands for the name of this machine, which a look-up could take long to find.
        address = connection.getsockname()[0]
        literal = f"[IPv6:{address}]" if ":" in address else f"[{address}]"
        super().__init__(host, 1, local_hostname=literal)

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        return self._connection


def _submit(
    connection: socket.socket, endpoint: Endpoint, mail: Mail, login: tuple[str, str] | None
) -> SendResult:
    """Runs in a worker thread. A reply of 4xx may be another one later, 5xx is final (RFC 5321)."""
    client: _Client | None = None
    try:
        if endpoint.scheme == "smtps":
            context = ssl.create_default_context()
            connection = context.wrap_socket(connection, server_hostname=endpoint.host)
        client = _Client(connection, endpoint.host)
        if endpoint.scheme == "smtp":
            client.starttls(context=ssl.create_default_context())
        if login is not None:
            client.login(*login)
        refused = client.sendmail(mail.sender, mail.recipients, mail.message())
        # The mail is accepted: what the server says to this changes nothing, so nothing waits for it.
        client.putcmd("QUIT")
        return SendResult(250, _accepted(refused))
    except smtplib.SMTPRecipientsRefused as error:
        return _refusal(*next(iter(error.recipients.values())))
    except smtplib.SMTPResponseException as error:
        return _refusal(error.smtp_code, error.smtp_error)
    except smtplib.SMTPNotSupportedError as error:
        return SendResult(0, described(error), is_final=True)
    except (OSError, ValueError) as error:
        return SendResult(0, described(error))
    finally:
        if client is not None:
            client.close()
        connection.close()


def _accepted(refused: dict[str, tuple[int, bytes]]) -> str:
    """Say for whom the server did not take a mail that it took for others."""
    return "OK" + "".join(f", but not for {to}: {code} {_text(text)}" for to, (code, text) in refused.items())


def _refusal(code: int, text: bytes | str) -> SendResult:
    return SendResult(code, _text(text), is_final=500 <= code < 600, is_temporary=not 500 <= code < 600)


def _text(text: bytes | str) -> str:
    return shown(text.decode("utf-8", "replace") if isinstance(text, bytes) else text)
