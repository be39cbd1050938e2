"""Schedules when the upstream connection of a client logs in again, with gateway.authentication=gateway.
(KIP-368; Kafka: SaslClientAuthenticator.ReauthInfo, KafkaChannel.maybeBeginClientReauthentication)

A broker with connections.max.reauth.ms closes a connection at its first request after its login has expired.
So, as Kafka's clients do, the gateway logs in again on the same connection after 85 to 95 % of the lifetime:
between two requests of the client, after the responses to those before. A connection that is idle then does
so when its next request arrives. No request pays for this: one reaper for each processor calls
`client_receive` when a login is due, and that mutes the client.

`UpstreamTalk` sends the messages of the login on the client's upstream connection; their responses do not
reach the client. The gateway's own connections are replaced instead; see `upstream.connection`.
"""

import heapq
import random
from collections.abc import Callable
from typing import Any, Final

from broker.common.clock import Clock
from broker.gateway.channel import GatewayChannel
from broker.gateway.responses import decoded
from broker.gateway.routes import LOST, AskedRequest, ForwardRoutes
from broker.gateway.upstream.errors import Reason, UpstreamError
from broker.network.reaper import Reaper
from broker.protocol import codec

FIRST_SHARE: Final = 0.85
LAST_SHARE: Final = 0.95
"""The shares of a lifetime between which a connection logs in again; Kafka's own, so that connections that
were opened together do not log in together.
"""

SPARE: Final = 64
"""Closed connections whose times are kept until they are more than the open ones; ours."""

MAX_CORRELATION_ID: Final = 0x7FFFFFFF


def kafkas_share() -> float:
    return random.uniform(FIRST_SHARE, LAST_SHARE)  # noqa: S311 - spreads load


class Renewals:
    """The connections of one processor by the time of their next login. `share` returns the share of a
    lifetime after which a connection logs in again.
    """

    def __init__(self, name: str, clock: Clock, share: Callable[[], float] = kafkas_share) -> None:
        self._clock = clock
        self._share = share
        self._due: list[tuple[int, int, GatewayChannel]] = []
        self._number = 0
        self._closed = SPARE
        self.reaper = Reaper(f"{name}-upstream-logins", self._next_deadline, self._fire, clock)

    def __len__(self) -> int:
        return len(self._due)

    def add(self, channel: GatewayChannel, lifetime_ms: int) -> None:
        """Log in again before a login ends that has just begun; 0: it does not end."""
        if lifetime_ms <= 0:
            return
        if len(self._due) >= self._closed:
            self._due = [each for each in self._due if each[2].fd >= 0]
            heapq.heapify(self._due)
            self._closed = 2 * len(self._due) + SPARE
        self._number += 1
        due_ms = self._clock.ms() + int(lifetime_ms * self._share())
        heapq.heappush(self._due, (due_ms, self._number, channel))
        self.reaper.wake_by(due_ms)

    def _next_deadline(self) -> int | None:
        return self._due[0][0] if self._due else None

    def _fire(self, now_ms: int) -> None:
        while self._due and self._due[0][0] <= now_ms:
            channel = heapq.heappop(self._due)[2]
            if channel.fd >= 0:
                channel.client.renew()


class UpstreamTalk:
    """An `upstream.login.Talk` on the upstream connection of `channel`, of which nothing is in flight. If
    cancelled, a response can be missing: close the connection.
    """

    def __init__(self, channel: GatewayChannel, routes: ForwardRoutes, client_id: str, clock: Clock) -> None:
        self._channel = channel
        self._routes = routes
        self._client_id = client_id
        self._clock = clock
        self._correlation_id = MAX_CORRELATION_ID

    async def ask(self, message: Any, version: int) -> Any:
        key = message.API_KEY
        head = key << 16 | version
        route = self._routes.get(head) or self._routes.build(head)
        parts = codec.encode_request(key, version)(message, self._correlation_id, self._client_id)
        frame = b"".join(parts)  # type: ignore[arg-type] # without records, all are bytes
        asked = AskedRequest(
            self._channel, route, self._client_id, self._correlation_id, len(frame) - 4, self._clock.ns()
        )
        self._correlation_id -= 1
        upstream = self._channel.client.upstream
        if upstream is None:
            raise UpstreamError(Reason.CLOSED, LOST)
        self._channel.in_flight.append(asked)
        upstream.send(memoryview(frame))
        return decoded(await asked.wait(), key, version)[0]
