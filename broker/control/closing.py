"""Closes one connection, as an operator asks for. Carried out by `Control`; who has the connections is the
composition root's to say.

The trail keeps who closed it, and the connection is closed once that is written. The client may connect
again at once: to keep it away is what quotas are for.
"""

from dataclasses import dataclass
from functools import partial
from typing import Protocol

from broker.control.commands import Command, Outcome
from broker.control.plan import Plan, Situation
from broker.errors import ErrorCode
from broker.metadata.actor import Role
from broker.metadata.changes import Change, Kind


@dataclass(frozen=True, slots=True)
class CloseConnection(Command["Outcome"]):
    """Role: editor. Answers Outcome: RESOURCE_NOT_FOUND where it is closed already."""

    connection_id: str


class OpenConnections(Protocol):
    def client_of(self, connection_id: str) -> str | None:
        """The client id behind an open connection; None where there is no such connection."""

    def close_connection(self, connection_id: str) -> None:
        """What it has in hand is answered into nothing. Nothing happens where it is closed already."""


def plan_close(connections: OpenConnections, command: CloseConnection, at: Situation) -> Plan[Outcome]:
    refusal = at.refusal(Role.EDITOR, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if refusal is not None:
        return Plan(refusal)
    connection = command.connection_id
    client = connections.client_of(connection)
    if client is None:
        return Plan(Outcome(ErrorCode.RESOURCE_NOT_FOUND, "There is no such connection, or not any more"))
    note = Change(Kind.CONNECTION, connection, "closed", client)
    return Plan(Outcome(), (note,), (partial(connections.close_connection, connection),))
