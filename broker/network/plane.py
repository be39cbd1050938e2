"""One request plane: a bounded queue, the handlers behind it, and the listeners before it. (Kafka: the data
plane of a SocketServer; the controller's SocketServer, ControllerServer; the control plane of KIP-291)

Made by `socket_server`. What one plane has to wait for holds up none of the others' queues.
"""

from typing import Final

from broker.api.registry import Registry
from broker.config.listeners import Plane as PlaneName
from broker.network.handling.handler_pool import HandlerPool
from broker.network.handling.request_channel import Requests
from broker.protocol.api_key import ApiKey

CONTROL_PLANE_QUEUE: Final = 20
CONTROL_PLANE_HANDLERS: Final = 1
CONTROL_PLANE_PROCESSORS: Final = 1
"""Kafka's, none of which was a key (SocketServer.scala of 3.9: `new RequestChannel(20, ...)`)."""

CONTROLLER_APIS: Final = frozenset(
    {
        ApiKey.SASL_HANDSHAKE,
        ApiKey.API_VERSIONS,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.DESCRIBE_CLUSTER,
    }
)
"""Of the APIs that Kafka's messages mark with `"listeners": ["controller"]`, those that there may be
here. Fetch is one of them for the metadata log alone, which other brokers would follow and there are
none.
"""


class Plane:
    """`processors` is how many each of its listeners has, None where that is num.network.threads."""

    def __init__(
        self,
        name: PlaneName,
        requests: Requests,
        handlers: HandlerPool,
        registry: Registry,
        processors: int | None,
    ) -> None:
        self.name = name
        self.requests = requests
        self.handlers = handlers
        self.registry = registry
        self.processors = processors


def served_by(name: PlaneName, registry: Registry) -> Registry:
    """The APIs of a plane."""
    return registry.only(CONTROLLER_APIS) if name is PlaneName.CONTROLLER else registry
