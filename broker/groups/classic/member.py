"""One member of a classic group."""

from collections.abc import Iterable, Set

from broker.errors import BrokerBug
from broker.groups.requests import Buffer
from broker.groups.timers import Kind, Timer

Protocols = dict[str, bytes]
"""Metadata by protocol name, in the member's order of preference."""


def protocols_of(pairs: Iterable[tuple[str, Buffer]]) -> Protocols:
    """Copy a request's protocols out of its buffer; the first entry of a duplicate name wins."""
    protocols: Protocols = {}
    for name, metadata in pairs:
        if name not in protocols:
            protocols[name] = bytes(metadata)
    return protocols


class Member:
    """A member.

    `is_new` until the first generation includes it; a pending request does not keep a new member's session
    alive.
    """

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session",
        "session_timeout_ms",
    )

    def __init__(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        protocols: Protocols,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.protocols = protocols
        self.assignment = b""
        self.is_new = False
        self.session = Timer(Kind.SESSION, group_id, member_id)

    def prefers(self, protocols: Protocols) -> bool:
        """Return whether these are the member's protocols, in the same order."""
        return list(protocols.items()) == list(self.protocols.items())

    def vote(self, candidates: Set[str]) -> str:
        for name in self.protocols:
            if name in candidates:
                return name
        raise BrokerBug(f"member {self.member_id} supports none of {sorted(candidates)}")
