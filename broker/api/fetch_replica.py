"""Fetch requests of replicas. Called by the fetch modules only.

Client quotas do not apply. A throttled partition whose replica is out of sync has no records in the response
while the leader's replication quota is exceeded; the quota always counts the bytes sent for throttled
partitions. Fetching as a replica requires the admin role.
(Kafka: ReplicaManager.shouldLeaderThrottle, KIP-73)
"""

from broker.api.context import RequestContext
from broker.api.fetch_answer import reply_for, size_of
from broker.api.fetch_pending import PendingFetch
from broker.api.outcome import Answered
from broker.api.services import FetchServices
from broker.errors import ErrorCode
from broker.metadata.actor import Role
from broker.protocol.messages.fetch import FetchRequest, FetchResponse
from broker.services.fetching import Found, Reading, Wanted
from broker.services.replica_reading import ReplicaReading


def replica_of(message: FetchRequest) -> int:
    """Return the fetching broker's id, or negative for a consumer. (KIP-903: `replica_state` since v15)"""
    state = message.replica_state
    return message.replica_id if state is None or message.replica_id >= 0 else state.replica_id


def replica_reading(replica: int, wanted: list[Wanted], max_bytes: int, services: FetchServices) -> Reading:
    """Return a reading that throttles every replica but this broker, the only one in sync."""
    if replica == services.node_id:
        return Reading(wanted, max_bytes)
    quota, clock = services.replication.leader, services.clock
    return ReplicaReading(wanted, max_bytes, quota.is_marked, lambda: quota.is_exceeded(clock.ms()))


def refuse_unprivileged(wanted: list[Wanted], context: RequestContext, services: FetchServices) -> None:
    """Set TOPIC_AUTHORIZATION_FAILED for every partition unless the principal administers the cluster."""
    if services.security.actor(context).role < Role.ADMIN:
        for each in wanted:
            each.log, each.error = None, ErrorCode.TOPIC_AUTHORIZATION_FAILED


class PendingReplicaFetch(PendingFetch):
    """A replica's fetch, exempt from client quotas and recorded in the leader's replication quota."""

    __slots__ = ()

    def settle(self, reply: FetchResponse, found: list[Found], size: int | None = None) -> Answered:
        quota = self.services.replication.leader
        marked = [
            each
            for each in found
            if (log := each.wanted.log) is not None and quota.is_marked(log.topic, log.index)
        ]
        if marked:
            size = size_of(reply_for(marked, reply.session_id), self.context.api_version)
            quota.record(size, self.services.clock.ms())
        return Answered(reply)
