"""The controller mutation quota of requests that create and delete partitions. (KIP-599)

Called by CreateTopics, DeleteTopics, CreatePartitions and automatic creation. Each topic's partitions are
charged at once, after all other checks of the topic and before a metadata record is written.
"""

from broker.api.context import RequestContext
from broker.clock import Clock
from broker.control.commands import Charge
from broker.quotas.mutation import MutationQuota, MutationQuotaManager
from broker.quotas.verdict import Throttle


class Mutations:
    """The mutation quota of one request."""

    __slots__ = ("_clock", "_quota")

    def __init__(self, quota: MutationQuota, clock: Clock) -> None:
        self._quota = quota
        self._clock = clock

    def charge(self, partitions: int) -> None:
        self._quota.record(partitions, self._clock.ms())

    def throttle(self) -> Throttle | None:
        """Return the remaining throttle; the request's own processing time counts towards it."""
        return self._quota.throttle(self._clock.ms())


class ControllerMutations:
    """The mutation quotas of all clients."""

    __slots__ = ("_clock", "_manager")

    def __init__(self, manager: MutationQuotaManager, clock: Clock) -> None:
        self._manager = manager
        self._clock = clock

    def of(self, context: RequestContext, strict_from: int) -> Mutations:
        """Return the quota of a request.

        From version `strict_from`, a client that has exhausted its quota is refused; older versions are
        served and throttled.
        """
        quota = self._manager.quota_for(
            context.connection.principal,
            context.client_id,
            self._clock.ms(),
            strict=context.api_version >= strict_from,
        )
        return Mutations(quota, self._clock)

    def automatic_charge(self, context: RequestContext) -> Charge:
        """Return the charge for auto-created topics, which is never refused and throttles afterwards."""
        return self.of(context, strict_from=context.api_version + 1).charge
