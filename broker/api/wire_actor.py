"""Identifies the client that makes a change over the Kafka protocol, for the audit log and the role check."""

from broker.api.broker import Broker
from broker.api.context import RequestContext
from broker.control.commands import Actor, ChangeOrigin, Role
from broker.principal import Principal


def wire_actor(context: RequestContext, broker: Broker, *, automatic: bool = False) -> Actor:
    """Return the client as an actor; `automatic` marks a derived change such as topic auto-creation."""
    name = str(Principal(context.connection.principal))
    if automatic or name in broker.security_config.super_users:
        role = Role.ADMIN
    else:
        role = Role[broker.security_config.role_on(context.connection.listener).upper()]
    return Actor(name, role, context.connection.address, ChangeOrigin.WIRE)
