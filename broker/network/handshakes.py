"""TLS handshakes of one processor's new connections. (Kafka: SslTransportLayer.handshake,
KafkaChannel.prepare)

The processor calls `begin` for each connection of a TLS listener. From then on a read queues the connection
for a separate task, which runs the next step; a handshake is never muted, and registers write interest only
while ciphertext waits. After the handshake the channel has the certificate's user and reads frames. A failed
handshake closes the connection at once, with an alert and one log line. `LateLogins` limits its duration.
"""

import logging
import socket
import time
from collections import deque
from collections.abc import Callable
from functools import partial

import trio

from broker.api.security.client_security import Logins, refusal_message
from broker.common.errors import ConfigError
from broker.common.slices import Steps
from broker.config.listeners import ListenerConfig
from broker.config.sections import TlsConfig
from broker.network.authentication import log_authenticated
from broker.network.clock import TrioClock
from broker.network.connection.channel import Channel
from broker.network.connection.send import HandshakeSend
from broker.network.connection.tls_socket import CIPHERTEXT_BYTES, TlsError, TlsSocket
from broker.network.connection.transport import Transport
from broker.network.responder import Responder
from broker.network.selector import READ, WRITE, Ending, Selector
from broker.quotas.connections import TooFastOfUser, UserRefusal
from broker.security.principal_rules import subject_of
from broker.security.tls import Certificates, is_readable_by_others, refuse_ended

logger = logging.getLogger(__name__)


def certificates_of(tls: TlsConfig, listener: ListenerConfig) -> Certificates | None:
    """Return the certificates of a listener, or None without TLS. Raises ConfigError."""
    if not listener.protocol.is_encrypted:
        return None
    config = tls.of(listener)
    if is_readable_by_others(config):
        logger.warning(
            "the private key is readable by all users of this machine",
            extra={"listener": listener.name, "file": config.keystore_location},
        )
    certificates = Certificates(config)
    refuse_ended(config, time.time())
    return certificates


class Handshakes:
    """With `names_users`, the client's certificate names the user, since no login follows, and `logins`
    admits the user's connections. `meter` returns a counter of a connection's bytes. `close_on_error` closes
    a connection after an error. `due` holds connections that wait for their next step, with the rest of the
    search for their users' names after the handshake.
    """

    def __init__(
        self,
        certificates: Certificates,
        selector: Selector,
        responder: Responder,
        clock: TrioClock,
        close_on_error: Callable[[Channel, Exception], None],
        logins: Logins,
        meter: Callable[[Channel], Callable[[int], bool]],
        *,
        names_users: bool,
    ) -> None:
        self._certificates = certificates
        self._selector = selector
        self._responder = responder
        self._clock = clock
        self._close_on_error = close_on_error
        self._logins = logins
        self._meter = meter
        self._delayed: set[Channel] = set()
        self._names_users = names_users
        self._scratch = memoryview(bytearray(CIPHERTEXT_BYTES))
        self.busy_ns = 0
        """Nanoseconds that all steps took."""
        self.due: deque[tuple[Channel, TlsSocket, Steps[str | None] | None]] = deque()
        self._wake = trio.Event()

    def begin(self, channel: Channel) -> None:
        """Put TLS over the plain socket of a new channel."""
        try:
            self._certificates.renew(self._clock.ms())
        except ConfigError as error:
            logger.warning(
                "cannot use the new certificate", extra={"listener": channel.listener, "reason": str(error)}
            )
        assert isinstance(channel.sock, socket.socket)
        tls = TlsSocket(channel.sock, self._certificates.context, self._scratch, self._meter(channel))
        channel.start_tls(tls)
        channel.read_with(partial(self._queue_step, channel, tls))

    async def run(self) -> None:
        """Run one step of one handshake at a time, with a turn for other tasks after each: a step costs as
        much as a hundred requests, and after a restart all clients connect at once.
        """
        while True:
            if not self.due:
                self._wake = trio.Event()
                await self._wake.wait()
            channel, tls, naming = self.due.popleft()
            if channel.fd >= 0:
                time = self._responder.request_time
                begun = self._clock.ns()
                if time is not None:
                    time.begin_at(begun)
                try:
                    self._step(channel, tls, naming)
                except Exception as error:  # noqa: BLE001 - sorted by `close_on_error`
                    if time is not None:
                        time.add_network(channel)
                    self._close_on_error(channel, error)
                else:
                    if time is not None:
                        time.add_network(channel)
                self.busy_ns += self._clock.ns() - begun
            await trio.lowlevel.checkpoint()

    def _queue_step(self, channel: Channel, tls: TlsSocket, _sock: Transport) -> None:
        """Queue the next step, in place of the channel's `read` until the handshake is done. Epoll does not
        report the connection until the step has run.
        """
        self._selector.set_interest(channel, channel.interest & ~READ)
        self.due.append((channel, tls, None))
        self._wake.set()

    def _step(self, channel: Channel, tls: TlsSocket, naming: Steps[str | None] | None) -> None:
        if channel in self._delayed:
            return
        if naming is None and tls.handshake():
            naming = self._name_user(tls)
        if naming is not None:
            try:
                next(naming)
            except StopIteration as end:
                if not self._enter(channel, tls, end.value):
                    return
            else:
                self.due.append((channel, tls, naming))
                return
        self._await_peer(channel, tls)

    def _name_user(self, tls: TlsSocket) -> Steps[str | None]:
        """Return the user whom the client's certificate names, None if it names none. Raises TlsError."""
        certificate = tls.peer_certificate()
        if certificate is None or not self._names_users:
            return None
        try:
            subject = subject_of(certificate)
        except ValueError as error:
            raise TlsError(f"invalid client certificate: {error}") from error
        name = yield from self._certificates.rules.apply(subject)
        if name is None:
            raise TlsError(f"no rule of ssl.principal.mapping.rules matches {subject}")
        return name

    def _await_peer(self, channel: Channel, tls: TlsSocket) -> None:
        if tls.is_blocked:
            channel.send = HandshakeSend()
            self._selector.set_interest(channel, WRITE)
        else:
            self._responder.resume_reading(channel)

    def _enter(self, channel: Channel, tls: TlsSocket, name: str | None) -> bool:
        """Admit the connection after its handshake, whose last bytes may still wait. Returns whether it
        continues now.
        """
        if name is not None:
            channel.principal = name
            if not self._admits_user(channel, tls, name):
                return False
        self._admit(channel, tls)
        return True

    def _admits_user(self, channel: Channel, tls: TlsSocket, name: str) -> bool:
        """Return whether the user may have one more connection. If not, closes or delays the connection."""
        refusal = self._logins.enter(channel, name, self._clock.ms())
        if isinstance(refusal, TooFastOfUser) and refusal.throttle_ms:
            self._delayed.add(channel)
            self._logins.delay(channel, refusal.throttle_ms, partial(self._enter_again, channel, tls, name))
        elif refusal is not None:
            self._refuse_user(channel, name, refusal)
        return refusal is None

    def _enter_again(self, channel: Channel, tls: TlsSocket, name: str, now_ms: int) -> None:
        self._delayed.discard(channel)
        if channel.fd < 0:
            return
        try:
            refusal = self._logins.enter(channel, name, now_ms)
            if refusal is None:
                self._admit(channel, tls)
                self._await_peer(channel, tls)
                return
            if isinstance(refusal, TooFastOfUser):
                self._logins.refuse(channel, name, refusal)
            self._refuse_user(channel, name, refusal)
        except Exception as error:  # noqa: BLE001 - sorted by `close_on_error`
            self._close_on_error(channel, error)

    def _refuse_user(self, channel: Channel, name: str, refusal: UserRefusal) -> None:
        reason = refusal_message(name, refusal)
        self._selector.close_channel(channel, reason, ending=Ending.FAILED_AUTHENTICATION)

    def _admit(self, channel: Channel, tls: TlsSocket) -> None:
        if self._names_users:
            self._selector.counts.logins += 1
            self._selector.counts.logins_without_reauth += 1
            log_authenticated(channel)
        channel.authenticated = self._names_users
        channel.tls = tls.cipher()
        channel.read_frames()
