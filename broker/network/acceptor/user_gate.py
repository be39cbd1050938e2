"""Applies the connection limits per user to authenticated connections.

Called by the SaslAuthenticate handler and by TLS handshakes, and by the socket server when a connection
closes. The caller refuses a connection beyond the maximum count. A connection beyond the rate is delayed,
unread and unanswered, until the rate recovers, by Kafka's rule one window at most, and checked again: it is
then served if the user is within the rate, else refused. (As KIP-612 does for addresses.)
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final

from broker.api.requests.context import Connection
from broker.network.acceptor.connection_gate import ConnectionGate
from broker.network.connection.channel import Channel
from broker.network.failures import FailedStep
from broker.network.reaper import Reaper
from broker.quotas.connections import PER_USER, USER_RATE, TooFastOfUser, TooManyOfUser, UserRefusal

REAPER: Final = "user-connection-holds-reaper"

Then = Callable[[int], None]
"""Called with the time in ms when a delay ends."""


class UserGate:
    """An `api.security.client_security.Logins`. `deliver` writes the responses of delayed logins."""

    def __init__(self, gate: ConnectionGate, deliver: Callable[[], None], task_name_prefix: str = "") -> None:
        self._gate = gate
        self._users = gate.quotas.users
        self._deliver = deliver
        self._delayed: list[tuple[int, int, Then, Connection]] = []
        self._serial = 0
        self.reaper = Reaper(f"{task_name_prefix}{REAPER}", self._next_deadline, self._check_due, gate.clock)

    @property
    def delayed(self) -> int:
        """The number of connections delayed by the rate of their user."""
        return len(self._delayed)

    def enter(self, connection: Connection, user: str, now_ms: int) -> UserRefusal | None:
        """Count the connection for its user until it closes. Returns a refusal if it must wait or close. Does
        not count a closed connection.
        """
        if connection.closed:
            return None
        refusal = self._users.enter(user, now_ms)
        if refusal is None:
            connection.counted_as = user
        elif isinstance(refusal, TooManyOfUser):
            self.refuse(connection, user, refusal)
        elif len(self._delayed) >= self._gate.max_throttled:
            self.refuse(connection, user, refusal)
            return TooFastOfUser(0, refusal.bound)
        return refusal

    def delay(self, connection: Connection, throttle_ms: int, then: Then) -> None:
        """Call `then` after `throttle_ms`; it enters again or refuses."""
        self._serial += 1
        due_ms = self._gate.clock.ms() + throttle_ms
        heappush(self._delayed, (due_ms, self._serial, then, connection))
        self.reaper.wake_by(due_ms)

    def refuse(self, connection: Connection, user: str, refusal: UserRefusal) -> None:
        """Record a refusal in the metrics and the log."""
        listener = self._gate.quotas.listeners.get(connection.listener)
        if listener is not None:
            rule = USER_RATE if isinstance(refusal, TooFastOfUser) else PER_USER
            self._gate.reject(listener, connection.address, rule, refusal.bound, reported_as=f"user {user}")

    def release(self, connection: Connection) -> None:
        """Release the count of a closed connection."""
        if connection.counted_as is not None:
            self._users.release(connection.counted_as)
            connection.counted_as = None

    def _next_deadline(self) -> int | None:
        return self._delayed[0][0] if self._delayed else None

    def _check_due(self, now_ms: int) -> None:
        while self._delayed and self._delayed[0][0] <= now_ms:
            _, _, then, connection = heappop(self._delayed)
            try:
                then(now_ms)
            except Exception as error:  # noqa: BLE001 - reported, and the connection is closed
                assert isinstance(connection, Channel)
                connection.responder.fail(connection, FailedStep.USER_LIMIT, error)
        self._deliver()


class UserGates:
    """The `api.security.client_security.Logins` of handlers, which serve connections of every listener."""

    def __init__(self) -> None:
        self._by_listener: dict[str, UserGate] = {}

    def add_listener(self, name: str, users: UserGate) -> None:
        """Use `users` for the connections of a listener."""
        self._by_listener[name] = users

    def enter(self, connection: Connection, user: str, now_ms: int) -> UserRefusal | None:
        return self._by_listener[connection.listener].enter(connection, user, now_ms)

    def delay(self, connection: Connection, throttle_ms: int, then: Then) -> None:
        self._by_listener[connection.listener].delay(connection, throttle_ms, then)

    def refuse(self, connection: Connection, user: str, refusal: UserRefusal) -> None:
        self._by_listener[connection.listener].refuse(connection, user, refusal)
