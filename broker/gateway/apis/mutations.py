"""Charges of the controller mutation quota for one request, topic by topic. (KIP-599)

The gateway charges a topic before the request goes upstream, and corrects the charge when the upstream
cluster has answered: a topic that it refuses costs nothing, as on a broker. So clients pay for what they
change, and a topic that the quota refuses never reaches the cluster.
"""

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

import msgspec

from broker.api.requests.change_limits import ControllerMutations, Mutations
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Response
from broker.common.errors import ApiError, ErrorCode
from broker.gateway.apis.own_topics import MESSAGE
from broker.gateway.apis.partition_counts import PartitionCounts
from broker.gateway.own_topics import OwnTopics

Key = TypeVar("Key", bound=Hashable)


class MutationServices(msgspec.Struct, frozen=True):
    """For CreateTopics, DeleteTopics and CreatePartitions at the gateway."""

    mutations: ControllerMutations
    counts: PartitionCounts
    own: OwnTopics


class TopicCharges(Generic[Key]):
    """From version `strict_from`, topics are refused once the quota is exhausted; older versions are
    forwarded and throttled.
    """

    def __init__(self, services: MutationServices, context: RequestContext, strict_from: int) -> None:
        self._mutations: Mutations = services.mutations.of(context, strict_from)
        self._charged: dict[Key, int] = {}
        self.refused: dict[Key, ApiError] = {}

    @property
    def is_limited(self) -> bool:
        """Whether the client has a quota. A request of any other is forwarded as it is."""
        return self._mutations.is_limited

    def refuse_own(self, topic: Key) -> None:
        """Refuse a change of a topic that only gateways use."""
        self.refused[topic] = ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, MESSAGE)

    def charge(self, topic: Key, partitions: int) -> None:
        """Charge a topic, once. A request without effect, with no partitions, is free."""
        if partitions <= 0 or topic in self._charged or topic in self.refused:
            return
        try:
            self._charged[topic] = self._mutations.charge_for(partitions)
        except ApiError as error:
            self.refused[topic] = error

    def settle(self, topic: Key, partitions: int | None) -> None:
        """Correct the charge of a topic, once, now that the number of its partitions is known; None: it was
        as estimated.
        """
        charged = self._charged.pop(topic, 0)
        if charged and partitions is not None and partitions != charged:
            self._mutations.correct(partitions - charged)

    def refusals(self, result: Callable[[Key, int, str | None], Any]) -> list[Any]:
        """Return `result(topic, error code, message)` of each refused topic."""
        return [result(topic, int(error.code), error.message) for topic, error in self.refused.items()]

    def response(self, reply: Any) -> Response:
        """Return the response with the larger throttle time, the upstream broker's or the gateway's."""
        throttle = self._mutations.throttle()
        if throttle is not None:
            reply.throttle_time_ms = max(reply.throttle_time_ms, throttle.throttle_ms)
        return Response(reply, throttle)
