"""Who makes a change that comes over the Kafka protocol, for the audit and for the role that control
checks.
"""

from broker.api.broker import Broker
from broker.api.context import RequestContext
from broker.control.commands import Actor, ChangeOrigin, Role


def wire_actor(context: RequestContext, broker: Broker, *, automatic: bool = False) -> Actor:
    """The client of this request. `automatic`: the broker acts because of it, as for an auto-created
    topic.
    """
    name = f"User:{context.connection.principal}"
    if automatic or name in broker.security_config.super_users:
        role = Role.ADMIN
    else:
        role = Role[broker.security_config.role_on(context.connection.listener).upper()]
    return Actor(name, role, context.connection.address, ChangeOrigin.WIRE)
