"""DescribeCluster: the brokers, as in Metadata, without topics.

Versions 0-2. From 1 the client selects brokers or controllers (KIP-919), which must match its listener;
version 2 can include fenced brokers, and there are none. Responses are cached until the metadata image
changes. Authorized operations are all those of a cluster if there is no authorizer. Left out: racks.
"""

from typing import Final

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.services import ClusterServices
from broker.common.errors import ErrorCode
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from broker.security.acl.acl import Operation

BROKERS: Final = 1
CONTROLLERS: Final = 2

NAMES: Final = {BROKERS: "BROKER", CONTROLLERS: "CONTROLLER"}


@api(ApiKey.DESCRIBE_CLUSTER, versions=(0, 2), services=ClusterServices)
def handle(message: DescribeClusterRequest, context: RequestContext, services: ClusterServices) -> Outcome:
    endpoint = services.endpoints[context.connection.listener]
    endpoint_type = CONTROLLERS if endpoint.is_controller else BROKERS
    if message.endpoint_type not in NAMES:
        return _refused(
            ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {message.endpoint_type}"
        )
    if message.endpoint_type != endpoint_type:
        return _refused(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            f"The request was sent to an endpoint of type {NAMES[endpoint_type]}, "
            f"but we wanted an endpoint of type {NAMES[message.endpoint_type]}",
        )
    if endpoint.is_controller and not services.security.allows_cluster(context, Operation.ALTER):
        return _refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)
    node = services.node_id
    reply = DescribeClusterResponse(
        endpoint_type=endpoint_type,
        cluster_id=services.control.image.cluster_id,
        controller_id=node,
        brokers=[DescribeClusterBroker(node, endpoint.host, endpoint.port)],
    )
    if message.include_cluster_authorized_operations:
        reply.cluster_authorized_operations = services.security.cluster_operations(context)
    return Response(reply, cacheable=True)


def _refused(error: ErrorCode, message: str | None) -> Outcome:
    return Response(DescribeClusterResponse(error_code=error, error_message=message))
