"""The classes that the gateway's socket server is built of, and what its listeners forward with."""

from collections.abc import Callable
from functools import partial

from broker.api.requests.callbacks import Callbacks
from broker.gateway.node_request_time import NodeRequestTime
from broker.gateway.node_scope import NodeThrottling
from broker.gateway.processor import GatewayProcessor, ListenerForwarding
from broker.network.clock import TrioClock
from broker.network.failures import Failures
from broker.network.handling.handler_pool import HandlerPool
from broker.network.observers import ConnectionObservers
from broker.network.requests.request_channel import RequestChannel
from broker.network.requests.request_time import RequestTime
from broker.network.server_factory import ServerMode
from broker.network.throttling import PipelinedThrottling, Throttling
from broker.quotas.client_quotas import ClientQuotas


class GatewayMode:
    """`forwarding` returns what a listener forwards with, given the throttling of the socket server; it is
    called for every processor. With `by_node`, client quotas hold at each upstream node (quota.scope=broker).
    """

    def __init__(self, forwarding: Callable[[str, Throttling], ListenerForwarding], *, by_node: bool) -> None:
        self._forwarding = forwarding
        self._by_node = by_node
        self._throttling: Throttling | None = None

    def server_mode(self) -> ServerMode:
        return ServerMode(
            lambda capacity, _handlers: RequestChannel(capacity),
            lambda capacity, _handlers: Callbacks(capacity),
            partial(GatewayProcessor, forwarding=self._of_listener),
            HandlerPool,
            self._make_throttling,
            request_time=NodeRequestTime if self._by_node else RequestTime,
        )

    def _make_throttling(
        self, quotas: ClientQuotas, clock: TrioClock, observers: ConnectionObservers, failures: Failures
    ) -> Throttling:
        throttling = NodeThrottling if self._by_node else PipelinedThrottling
        self._throttling = throttling(quotas, clock, observers, failures)
        return self._throttling

    def _of_listener(self, listener: str) -> ListenerForwarding:
        assert self._throttling is not None
        return self._forwarding(listener, self._throttling)
