"""Request time under quota.scope=broker: it is charged for the upstream node that a connection goes to."""

from broker.api.requests.outcome import Outcome
from broker.gateway.channel import GatewayChannel
from broker.network.connection.channel import Channel
from broker.network.requests.request_channel import Request
from broker.network.requests.request_time import RequestTime
from broker.quotas.client_quotas import NodeQuotas


def quotas_of(channel: Channel) -> NodeQuotas:
    """Return the quotas in which a connection is charged now."""
    assert isinstance(channel, GatewayChannel) and isinstance(channel.quotas, NodeQuotas)
    return channel.quotas


class NodeRequestTime(RequestTime):
    """Charges request time for the node of a connection."""

    def charge(self, request: Request, outcome: Outcome) -> Outcome:
        self._quota = quotas_of(request.channel).request
        return super().charge(request, outcome)

    def admits_cached(self, channel: Channel, client_id: str | None) -> bool:
        self._quota = quotas_of(channel).request
        return super().admits_cached(channel, client_id)

    def settle(self, request: Request) -> None:
        self._quota = quotas_of(request.channel).request
        super().settle(request)

    def close(self, channel: Channel) -> None:
        self._quota = quotas_of(channel).request
        super().close(channel)
