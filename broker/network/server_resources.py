"""The resources of one socket server: its connection quotas and its request memory. (Kafka: the fields
`connectionQuotas` and `memoryPool` of SocketServer)

Created by `socket_server`, once for the broker's listeners and once for the controller's, if any, as
BrokerServer and ControllerServer each create a SocketServer. Both use the same keys and rules per address
with separate counts, so that one server cannot use up the other's resources. The control plane of KIP-291
belongs to the broker's server, as in Kafka up to 3.9.
"""

from collections.abc import Callable, Iterable

from broker.common.clock import Clock
from broker.config.listeners import Server
from broker.config.sections import NetworkConfig
from broker.network.acceptor.connection_gate import ConnectionGate
from broker.network.acceptor.user_gate import UserGate
from broker.network.clock import TrioClock
from broker.network.connection.frame_pool import FramePool, Unmapping
from broker.network.failures import Failures
from broker.network.leased_receive import LeasedFrames
from broker.network.memory_pool import MemoryPool, memory_limit
from broker.network.observers import ConnectionObservers
from broker.network.selector import Selector
from broker.network.unauthenticated import UnauthenticatedConnections
from broker.quotas.connections import ConnectionQuotas


class ServerResources:
    """`memory` is None if `queued.max.request.bytes` is 0 or -1; `frames` is the buffer pool of requests, and
    is `memory` itself if that is set.

    `selectors` returns (listener name, selector) pairs of this server. `deliver` writes the responses of
    delayed logins.
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
        prefix = task_name_prefix(name)
        self.gate = ConnectionGate(quotas, clock, selectors, observers, failures, prefix)
        self.users = UserGate(self.gate, deliver, prefix)
        self.unauthenticated = UnauthenticatedConnections(
            self.gate.unauthenticated, clock, quotas.counted, self.gate.reject_on
        )
        self.unmapping = Unmapping(clock, prefix)
        self.memory = _bounded(config, clock, prefix, self.unmapping)
        self.frames: FramePool = self.memory or FramePool(self.unmapping.begin)
        self.gate_task = f"{prefix}connection-quotas"


def task_name_prefix(name: Server) -> str:
    """Return the prefix of the names of a server's tasks."""
    return "" if name is Server.BROKER else f"{name}-"


def _bounded(config: NetworkConfig, clock: Clock, prefix: str, unmapping: Unmapping) -> LeasedFrames | None:
    """Return the bounded memory of a server's requests (KIP-72), or None if unbounded. By default only large
    requests count, since accounting costs more than handling a small request.
    """
    size = config.request_memory(memory_limit())
    if size is None:
        return None
    memory = MemoryPool(size, config.socket_request_max_bytes)
    only_large = config.queued_max_request_bytes is None
    return LeasedFrames(
        memory,
        config.queued_request_stall_timeout_ms,
        clock,
        prefix,
        only_large=only_large,
        unmap=unmapping.begin,
    )
