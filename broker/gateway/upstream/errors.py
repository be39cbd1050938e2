"""The reasons why a request to an upstream broker, or a connection to it, failed."""

from enum import StrEnum

from broker.common.errors import ErrorCode


class Reason(StrEnum):
    """`REFUSED`: no TCP connection, because the broker refuses it, its host is unreachable, or this machine
    has no socket left. `CLOSED`: the connection ended before a response came. `PROTOCOL`: the response breaks
    the protocol or reports an error of the broker. `VERSION`: Weir and the broker have no common version of
    the API. `NODE`: the address of the node is unknown. `CLUSTER`: the broker belongs to another cluster.
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


class UpstreamError(Exception):
    """The only exception of this package. Its text names the address and contains no secret."""

    def __init__(self, reason: Reason, text: str) -> None:
        super().__init__(text)
        self.reason = reason

    def again(self) -> "UpstreamError":
        """Return an equal exception: several tasks can raise the error of one connection."""
        return UpstreamError(self.reason, str(self))


def name_of(code: int) -> str:
    """Return the name of an error code in a response, or its number if only a later Kafka has it."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)
