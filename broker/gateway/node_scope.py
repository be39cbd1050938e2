"""quota.scope=broker: what a connection uses is charged for the upstream node that it is forwarded to.

Kafka's own quotas hold at each broker, so a client of three brokers has three allowances, and one that
exceeds a limit at one broker is throttled on its connections to that broker only. The classes here replace
those of the other scopes, which pay nothing for this one. A connection's `quotas` are those of its node from
the time that the node is known: on a node's port at once, on a bootstrap port when its upstream connection is
open.
"""

from collections.abc import Callable, Iterable

from broker.common.slices import Steps
from broker.config.listeners import Address
from broker.gateway.channel import GatewayChannel
from broker.gateway.node_request_time import quotas_of
from broker.network.connection.channel import Channel
from broker.network.throttling import PipelinedThrottling
from broker.quotas.bandwidth import RateQuotaManager
from broker.quotas.client_quotas import NO_NODE, ClientQuotas


class QuotasByNode:
    """`node_at` returns the upstream node with an address, or None."""

    def __init__(self, quotas: ClientQuotas, node_at: Callable[[Address], int | None]) -> None:
        self._quotas = quotas
        self._node_at = node_at

    def assign(self, channel: GatewayChannel) -> None:
        """Charge for the node that `channel` is forwarded to from now on. Call again when that is known."""
        node = channel.node_id
        if node is None and channel.upstream_address is not None:
            node = self._node_at(channel.upstream_address)
        channel.quotas = self._quotas.at_node(NO_NODE if node is None else node)


class NodeThrottling(PipelinedThrottling):
    """Applies changed rules to the connections of each node by themselves."""

    def apply_rate_rules(
        self, manager: RateQuotaManager, channels: Iterable[Channel], now_ms: int
    ) -> Steps[None]:
        yield from super().apply_rate_rules(manager, (), now_ms)
        at_node: dict[int, list[Channel]] = {}
        for channel in channels:
            at_node.setdefault(quotas_of(channel).node, []).append(channel)
        yield
        for node, part in list(manager.parts.items()):
            yield from super().apply_rate_rules(part, at_node.get(node, ()), now_ms)
