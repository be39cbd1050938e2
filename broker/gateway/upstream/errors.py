"""The reasons why a request to an upstream broker, or a connection to it, failed; when to try again."""

from enum import StrEnum
from typing import Final

from broker.common.errors import ErrorCode
from broker.config.sections import UpstreamConfig


class Reason(StrEnum):
    """`REFUSED`: no TCP connection, because the broker refuses it, its host is unreachable, or this machine
    has no socket left. `CLOSED`: the connection ended before a response came. `PROTOCOL`: the response breaks
    the protocol or reports an error of the broker. `VERSION`: Weir and the broker have no common version of
    the API. `NODE`: the address of the node is unknown. `CLUSTER`: the broker belongs to another cluster.
    `PRINCIPAL`: one client cannot be logged in as its own principal; others can.
    """

    DNS = "dns"
    REFUSED = "refused"
    TIMEOUT = "timeout"
    CLOSED = "closed"
    TLS = "tls"
    CREDENTIALS = "credentials"
    PROTOCOL = "protocol"
    VERSION = "version"
    NODE = "node"
    CLUSTER = "cluster"
    PRINCIPAL = "principal"


WEIR_UPSTREAM: Final = "the upstream cluster is Weir itself, which lets nobody else write to topics __weir_*"


class UpstreamError(Exception):
    """The only exception of this package. Its text names the address and contains no secret."""

    def __init__(self, reason: Reason, text: str) -> None:
        super().__init__(text)
        self.reason = reason

    def again(self) -> "UpstreamError":
        """Return an equal exception: several tasks can raise the error of one connection."""
        return UpstreamError(self.reason, str(self))


class WeirUpstreamError(UpstreamError):
    """The upstream cluster is a broker of Weir or another gateway, whose topics `__weir_*` are its own."""

    def __init__(self) -> None:
        super().__init__(Reason.PROTOCOL, WEIR_UPSTREAM)


def name_of(code: int) -> str:
    """Return the name of an error code in a response, or its number if only a later Kafka has it."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


class ReconnectBackoff:
    """The time to wait after each failed connection: twice as long as before, up to a limit. Without jitter,
    since one gateway opens few connections of its own. (Kafka: reconnect.backoff.ms and its maximum)

    Refused credentials are not tried more often than `upstream.metadata.max.age.ms`: some brokers lock users
    out who try too often. Neither are brokers of another cluster.
    """

    def __init__(self, config: UpstreamConfig) -> None:
        self._first_ms = config.reconnect_backoff_ms
        self._most_ms = config.reconnect_backoff_max_ms
        self._period_ms = config.metadata_max_age_ms
        self._next_ms = self._first_ms

    def after_s(self, error: UpstreamError) -> float:
        """Return the seconds to wait after one more failure."""
        now_ms, self._next_ms = self._next_ms, min(self._next_ms * 2, self._most_ms)
        if error.reason in (Reason.CREDENTIALS, Reason.CLUSTER):
            now_ms = max(now_ms, self._period_ms)
        return now_ms / 1_000

    def reset(self) -> None:
        """Start again, after a success."""
        self._next_ms = self._first_ms
