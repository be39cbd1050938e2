"""What the requests that make and remove partitions share: the controller mutation quota. (KIP-599)

Called by CreateTopics, DeleteTopics, CreatePartitions and automatic creation. Partitions are charged a
topic at a time, after everything else about the topic was found good and before a metadata record is
written.
"""

from broker.api.broker import Broker
from broker.api.context import RequestContext
from broker.control.commands import Charge
from broker.quotas.mutation import MutationQuota
from broker.quotas.verdict import Throttle


class Mutations:
    """The quota of one request. From version `strict_from` on a client that has used it up is refused; older
    ones are served, and wait afterwards.
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
        """What is left of the wait now, for carrying a request out takes time too."""
        return self._quota.throttle(self._clock_ms())


def automatic_charge(context: RequestContext, broker: Broker) -> Charge:
    """For topics that the broker makes because this client named them: never refused, and owed afterwards."""
    return Mutations(context, broker, strict_from=context.api_version + 1).charge
