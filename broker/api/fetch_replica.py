"""A Fetch that comes from another broker, or from who says so. Called by `api.a01_fetch` only.

(Kafka: ReplicaManager.shouldLeaderThrottle, KIP-73) Client quotas do not apply to it. Where a partition is
marked as throttled, its replica is not in sync and the leader's quota is exceeded, the partition is answered
without records; what is sent of marked partitions is counted in either case. Only who may administer the
cluster may ask as a replica.
"""

from broker.api.broker import Broker
from broker.api.context import RequestContext
from broker.api.fetch_answer import reply_for, size_of
from broker.api.fetch_pending import PendingFetch
from broker.api.outcome import Answered
from broker.api.wire_actor import wire_actor
from broker.errors import ErrorCode
from broker.metadata.actor import Role
from broker.protocol.messages.fetch import FetchRequest, FetchResponse
from broker.services.fetching import Found, Reading, Wanted
from broker.services.replica_reading import ReplicaReading


def replica_of(message: FetchRequest) -> int:
    """The broker that asks; negative for a consumer. (KIP-903: in `replica_state` since version 15)"""
    state = message.replica_state
    return message.replica_id if state is None or message.replica_id >= 0 else state.replica_id


def replica_reading(replica: int, wanted: list[Wanted], max_bytes: int, broker: Broker) -> Reading:
    """This broker alone is in sync with itself; every other replica may be throttled."""
    if replica == broker.config.node_id:
        return Reading(wanted, max_bytes)
    quota, clock = broker.replication.leader, broker.clock
    return ReplicaReading(wanted, max_bytes, quota.is_marked, lambda: quota.is_exceeded(clock.ms()))


def refuse_unprivileged(wanted: list[Wanted], context: RequestContext, broker: Broker) -> None:
    """Everything is TOPIC_AUTHORIZATION_FAILED to who may not administer the cluster."""
    if wire_actor(context, broker).role < Role.ADMIN:
        for each in wanted:
            each.log, each.error = None, ErrorCode.TOPIC_AUTHORIZATION_FAILED


class PendingReplicaFetch(PendingFetch):
    """Is exempt from client quotas, a refusal too, and counted in the leader's replication quota when it is
    answered.
    """

    __slots__ = ()

    def settle(self, reply: FetchResponse, found: list[Found], size: int | None = None) -> Answered:
        quota = self.broker.replication.leader
        marked = [
            each
            for each in found
            if (log := each.wanted.log) is not None and quota.is_marked(log.topic, log.index)
        ]
        if marked:
            size = size_of(reply_for(marked, reply.session_id), self.context.api_version)
            quota.record(size, self.broker.clock.ms())
        return Answered(reply)
