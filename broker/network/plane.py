"""One request plane: a bounded queue, its handlers, and its listeners. (Kafka: the data plane of a
SocketServer; the controller's SocketServer, ControllerServer; the control plane of KIP-291)

Created by `socket_server`. Planes do not share queues, so a blocked plane does not delay the others.
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
"""Kafka's values, which are constants there (SocketServer.scala of 3.9: `new RequestChannel(20, ...)`)."""

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
"""The served APIs among those that Kafka's messages mark with `"listeners": ["controller"]`. Fetch is left
out: there it reads only the metadata log, for other brokers, and Weir has none.
"""


class Plane:
    """`processors` is the number per listener; None means num.network.threads."""

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
    """Return the APIs that a plane serves."""
    return registry.only(CONTROLLER_APIS) if name is PlaneName.CONTROLLER else registry
