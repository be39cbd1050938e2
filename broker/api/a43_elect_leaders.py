"""ElectLeaders: elects the leaders of partitions, which this broker always is. (KIP-183, KIP-460)

Versions 0-2; version 1 adds the election type, preferred or unclean. A partition that is served is
ELECTION_NOT_NEEDED. An offline one has no leader, and none can be elected: PREFERRED_LEADER_NOT_AVAILABLE, or
ELIGIBLE_LEADERS_NOT_AVAILABLE for an unclean election. A null list selects all partitions; the response then
leaves out those that need no election, as in Kafka.
"""

from collections.abc import Awaitable
from functools import partial
from typing import Final

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response, in_slices
from broker.api.requests.pacing import mapped
from broker.api.requests.services import MetadataServices
from broker.common.errors import ErrorCode
from broker.common.slices import Slices
from broker.partitions.partitions import HostedTopic
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from broker.security.acl.acl import Operation

PREFERRED: Final = 0
UNCLEAN: Final = 1

NO_LEADER: Final = {
    PREFERRED: (ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."),
    UNCLEAN: (
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        "Eligible topic partition leaders are not available.",
    ),
}
"""The error of an offline partition by election type."""

TYPED_SINCE: Final = 1


@api(ApiKey.ELECT_LEADERS, versions=(0, 2), services=MetadataServices)
def handle(
    message: ElectLeadersRequest, context: RequestContext, services: MetadataServices
) -> Outcome | Awaitable[Outcome]:
    if not services.security.permits(context, Operation.ALTER):
        return in_slices(_refused(message, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, context))
    if message.election_type not in NO_LEADER:
        reason = f"Unknown election type {message.election_type}"
        return in_slices(_refused(message, ErrorCode.INVALID_REQUEST, context, reason))
    return in_slices(_elect(message, services))


def _elect(message: ElectLeadersRequest, services: MetadataServices) -> Slices[Outcome]:
    by_name = services.partitions.by_name
    results = []
    if message.topic_partitions is None:
        for name, topic in list(by_name.items()):
            found = yield from mapped(
                partial(_result, name, topic, message.election_type), range(topic.count)
            )
            needed = [each for each in found if each.error_code != ErrorCode.ELECTION_NOT_NEEDED]
            results.append(ReplicaElectionResult(name, needed))
            yield None
        return Response(ElectLeadersResponse(replica_election_results=results))
    for wanted in message.topic_partitions:
        one = partial(_result, wanted.topic, by_name.get(wanted.topic), message.election_type)
        found = yield from mapped(one, wanted.partitions)
        results.append(ReplicaElectionResult(wanted.topic, found))
        yield None
    return Response(ElectLeadersResponse(replica_election_results=results))


def _result(name: str, topic: HostedTopic | None, election_type: int, index: int) -> PartitionResult:
    if topic is None:
        message = f"No such topic as {name}"
        return PartitionResult(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    if not 0 <= index < topic.count:
        message = f"No such partition as {name}-{index}"
        return PartitionResult(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    log = topic.open_logs.get(index)
    if log is not None and log.offline is not None:
        return PartitionResult(index, *NO_LEADER[election_type])
    return PartitionResult(
        index, ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
    )


def _refused(
    message: ElectLeadersRequest, error: ErrorCode, context: RequestContext, reason: str | None = None
) -> Slices[Outcome]:
    """Refuse the request and each of its partitions; version 0 has the errors of partitions only."""
    results = []
    for wanted in message.topic_partitions or ():
        one = partial(PartitionResult, error_code=error, error_message=reason)
        found = yield from mapped(one, wanted.partitions)
        results.append(ReplicaElectionResult(wanted.topic, found))
        yield None
    reply = ElectLeadersResponse(replica_election_results=results)
    if context.api_version >= TYPED_SINCE:
        reply.error_code = error
    return Response(reply)
