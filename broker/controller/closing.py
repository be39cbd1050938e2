"""Closes one connection on an operator's request. Run by `Control` through `OpenConnections`.

The connection closes after the audit trail has recorded who closed it. The client can reconnect at once; use
quotas to limit it.
"""

from functools import partial
from typing import Protocol

import msgspec

from broker.common.errors import ErrorCode
from broker.controller.commands import Command, EntryOutcome
from broker.controller.plan import Plan, Situation
from broker.metadata.actor import Role
from broker.metadata.changes import Change, ChangeKind


class CloseConnection(msgspec.Struct, Command["EntryOutcome"], frozen=True):
    """Role: editor. Returns EntryOutcome: RESOURCE_NOT_FOUND if it is already closed."""

    connection_id: str


class OpenConnections(Protocol):
    def client_of(self, connection_id: str) -> str | None:
        """Return the client id of an open connection; None if there is no such connection."""

    def close_connection(self, connection_id: str) -> None:
        """Close it and discard the responses of its requests in progress. No-op if it is already closed."""


def plan_close(connections: OpenConnections, command: CloseConnection, at: Situation) -> Plan[EntryOutcome]:
    refusal = at.refusal(Role.EDITOR, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if refusal is not None:
        return Plan(refusal)
    connection = command.connection_id
    client = connections.client_of(connection)
    if client is None:
        return Plan(EntryOutcome(ErrorCode.RESOURCE_NOT_FOUND, "There is no such open connection"))
    note = Change(ChangeKind.CONNECTION, connection, "closed", client)
    return Plan(EntryOutcome(), (note,), (partial(connections.close_connection, connection),))
