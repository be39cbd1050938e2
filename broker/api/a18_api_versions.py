"""ApiVersions: the served APIs and their versions.

Versions 0-5. A higher version gets UNSUPPORTED_VERSION in the format of version 0, with the range of
ApiVersions itself, so that the client can retry (KIP-511). From 3 the client names its software, which the
connection stores, and the response has these features: metadata.version, finalized at 33 (4.4-IV2),
transaction.version at 2 (KIP-890), group.version at 1 (KIP-848), share.version at 2 (KIP-932) and
eligible.leader.replicas.version at 1 (KIP-966). A minimum level of 0 is told as 1 below version 4, whose
clients cannot read it. From 5 the client may state the cluster and the node that it means to reach: where
this is another one, REBOOTSTRAP_REQUIRED makes it look for its cluster again (KIP-1242). Left out:
kraft.version, because there is no quorum of controllers; Kafka supports 0 and 1, and begins with 0. So
`kafka-features.sh upgrade --release-version`, which names it, is refused as a whole.
"""

import re
from typing import Final, NamedTuple

from broker.api.registry import api
from broker.api.requests.context import Connection, RequestContext
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.services import ClusterServices
from broker.common.errors import ErrorCode
from broker.coordinator.transaction.changes import BUMPS_EPOCH
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)


class Feature(NamedTuple):
    """The least level that this broker supports, and the highest, which is finalized. (KIP-584)

    UpdateFeatures refuses every level but the finalized one.
    """

    least: int
    level: int


FEATURES: Final = {
    "eligible.leader.replicas.version": Feature(0, 1),
    "group.version": Feature(0, 1),
    "metadata.version": Feature(7, 33),
    "share.version": Feature(0, 2),
    "transaction.version": Feature(0, BUMPS_EPOCH),
}
"""Each with the levels of Kafka 4.4.0, whose new clusters finalize the same.

`eligible.leader.replicas.version` 1: min.insync.replicas is a default of the whole cluster, and an only
replica stays the leader (KIP-966). `group.version` 1: consumer groups (KIP-848). `metadata.version` 33:
4.4-IV2, whose requests and settings are served. `share.version` 2: share groups (KIP-932).
`transaction.version` 2: producers get a new epoch with each transaction and add partitions by writing to them
(KIP-890).
"""

NEVER_FINALIZED: Final = frozenset({"kraft.version", "streams.version"})
"""Features of Kafka 4.4 that this broker does not support, so that their level is 0: it has neither a quorum
of controllers nor streams groups.
"""

FEATURES_EPOCH: Final = 0
"""The finalized features never change."""

SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
"""The format of a client's software name and version."""

ANY_NODE: Final = -1
"""The node id of a client that does not state which node it means to reach."""


def unknown_version(_message: object, context: RequestContext, services: ClusterServices) -> Outcome:
    served = services.endpoints[context.connection.listener].registry.get(ApiKey.API_VERSIONS)
    assert served is not None
    own = ApiVersion(ApiKey.API_VERSIONS, served.min_version, served.max_version)
    return Response(ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[own]))


def is_valid(message: ApiVersionsRequest) -> bool:
    """Return whether a request of version 3 or higher names its software as Kafka allows it, and states both
    cluster and node or neither. (Kafka: ApiVersionsRequest.isValid)
    """
    if (message.cluster_id is None) != (message.node_id == ANY_NODE):
        return False
    return all(map(SOFTWARE.fullmatch, (message.client_software_name, message.client_software_version)))


@api(
    ApiKey.API_VERSIONS,
    versions=(0, 5),
    services=ClusterServices,
    before_login=True,
    unknown_version=unknown_version,
)
def handle(message: ApiVersionsRequest, context: RequestContext, services: ClusterServices) -> Outcome:
    name, version = message.client_software_name, message.client_software_version
    update_connection = None
    if context.api_version >= 3:
        if not is_valid(message):
            return Response(ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST))
        if message.cluster_id is not None and (
            message.node_id != services.node_id or message.cluster_id != services.control.image.cluster_id
        ):
            return Response(ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED))

        def update_connection(connection: Connection) -> None:
            connection.software_name = name
            connection.software_version = version

    registry = services.endpoints[context.connection.listener].registry
    served = [ApiVersion(entry.key, entry.advertised_min, entry.max_version) for entry in registry]
    lowest = int(context.api_version < 4)
    reply = ApiVersionsResponse(
        api_keys=served,
        supported_features=[
            SupportedFeatureKey(name, max(each.least, lowest), each.level) for name, each in FEATURES.items()
        ],
        finalized_features_epoch=FEATURES_EPOCH,
        finalized_features=[
            FinalizedFeatureKey(name, each.level, each.level) for name, each in FEATURES.items()
        ],
    )
    return Response(reply, cacheable=True, update_connection=update_connection)
