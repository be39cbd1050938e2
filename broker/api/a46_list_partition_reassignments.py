"""ListPartitionReassignments: lists moves of partitions between brokers. The list is always empty.

Version 0. DescribeLogDirs shows moves between log directories of one broker.
"""

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.services import ControlServices
from broker.common.errors import ErrorCode
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from broker.security.acl.acl import Operation


@api(ApiKey.LIST_PARTITION_REASSIGNMENTS, versions=(0, 0), services=ControlServices)
def handle(
    _message: ListPartitionReassignmentsRequest, context: RequestContext, services: ControlServices
) -> Outcome:
    if not services.security.allows_cluster(context, Operation.DESCRIBE):
        return Response(ListPartitionReassignmentsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    return Response(ListPartitionReassignmentsResponse())
