"""What one socket server has to itself: its connection quotas and the memory of its requests. (Kafka: the
fields `connectionQuotas` and `memoryPool` of SocketServer)

Made by `socket_server`, one for the broker's listeners and one for the controller's where there are any, as
BrokerServer and ControllerServer each make a SocketServer. Both follow the same keys and the same rules for
addresses, each with counts of its own, so that what one server has used up is not missing in the other.
The control plane of KIP-291 is part of the broker's server, as in Kafka up to 3.9.
"""

from collections.abc import Callable, Iterable

from broker.clock import Clock
from broker.config.listeners import Server
from broker.config.sections import NetworkConfig
from broker.network.acceptor.connection_gate import ConnectionGate
from broker.network.acceptor.user_gate import UserGate
from broker.network.clock import TrioClock
from broker.network.connection.frame_pool import FramePool
from broker.network.connection.unauthenticated import UnauthenticatedConnections
from broker.network.failures import Failures
from broker.network.memory.leased_frames import LeasedFrames
from broker.network.memory.memory_limit import memory_limit
from broker.network.memory.memory_pool import MemoryPool
from broker.network.observers import ConnectionObservers
from broker.network.selector import Selector
from broker.quotas.connections import ConnectionQuotas


class ServerResources:
    """`memory` is None where `queued.max.request.bytes` is 0 or -1; `frames` are the buffers of requests
    in either case, `memory` itself where there is one.

    `selectors` answers those of this server's listeners, with the listener's name. `deliver` writes out the
    answers of logins that were held.
    """

    def __init__(
        self,
        name: Server,
        config: NetworkConfig,
        quotas: ConnectionQuotas,
        clock: TrioClock,
        *,
        selectors: Callable[[], Iterable[tuple[str, Selector]]],
        observers: ConnectionObservers,
        failures: Failures,
        deliver: Callable[[], None],
    ) -> None:
        self.name = name
        prefix = task_prefix(name)
        self.gate = ConnectionGate(quotas, clock, selectors, observers, failures, prefix)
        self.users = UserGate(self.gate, deliver, prefix)
        self.unauthenticated = UnauthenticatedConnections(
            self.gate.unauthenticated, clock, quotas.counted, self.gate.reject_on
        )
        self.memory = _bounded(config, clock, prefix)
        self.frames: FramePool = self.memory or FramePool()
        self.gate_task = f"{prefix}connection-quotas"


def task_prefix(name: Server) -> str:
    """What the names of a server's tasks begin with."""
    return "" if name is Server.BROKER else f"{name}-"


def _bounded(config: NetworkConfig, clock: Clock, prefix: str) -> LeasedFrames | None:
    """The memory of all requests of a server (KIP-72), where it is bounded. By default only large requests
    count, as asking costs a request more than a small one does itself.
    """
    size = config.request_memory(memory_limit())
    if size is None:
        return None
    memory = MemoryPool(size, config.socket_request_max_bytes)
    only_large = config.queued_max_request_bytes is None
    return LeasedFrames(memory, config.queued_request_stall_timeout_ms, clock, prefix, only_large=only_large)
