"""The controller mutation quota of requests that create and delete partitions. (KIP-599)

Called by CreateTopics, DeleteTopics, CreatePartitions and automatic creation. Each topic's partitions are
charged at once, after all other checks of the topic and before a metadata record is written.
"""

from broker.api.broker import Broker
from broker.api.context import RequestContext
from broker.control.commands import Charge
from broker.quotas.mutation import MutationQuota
from broker.quotas.throttled import Throttle


class Mutations:
    """The mutation quota of one request.

    From version `strict_from`, a client that has exhausted its quota is refused; older versions are served
    and throttled.
    """

    __slots__ = ("_clock_ms", "_quota")

    def __init__(self, context: RequestContext, broker: Broker, strict_from: int) -> None:
        self._clock_ms = broker.clock.ms
        self._quota: MutationQuota = broker.quotas.mutation.quota_for(
            context.connection.principal,
            context.client_id,
            self._clock_ms(),
            strict=context.api_version >= strict_from,
        )

    def charge(self, partitions: int) -> None:
        self._quota.record(partitions, self._clock_ms())

    def throttle(self) -> Throttle | None:
        """Return the remaining throttle; the request's own processing time counts towards it."""
        return self._quota.throttle(self._clock_ms())


def automatic_charge(context: RequestContext, broker: Broker) -> Charge:
    """Return the charge for auto-created topics, which is never refused and throttles afterwards."""
    return Mutations(context, broker, strict_from=context.api_version + 1).charge
