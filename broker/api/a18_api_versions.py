"""ApiVersions: the served APIs and their versions.

Versions 0-4. A higher version gets UNSUPPORTED_VERSION in the format of version 0, with the range of
ApiVersions itself, so that the client can retry (KIP-511). From 3 the client names its software, which the
connection stores, and the response has the features of `api.requests.features`: metadata.version, finalized
at 27 (4.1-IV1), transaction.version at 2 (KIP-890), group.version at 1 (KIP-848), share.version at 1
(KIP-932; in Kafka 4.1 an operator's choice) and eligible.leader.replicas.version at 1 (KIP-966). A minimum
level of 0 is sent as 1 below version 4, whose clients cannot read it. Left out: kraft.version, because there
is no quorum of controllers; Kafka supports 0 and 1, and begins with 0. So `kafka-features.sh upgrade
--release-version`, which names it, is refused as a whole.
"""

import re
from typing import Final

from broker.api.registry import api
from broker.api.requests.context import Connection, RequestContext
from broker.api.requests.features import FEATURES, FEATURES_EPOCH
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.services import ClusterServices
from broker.common.errors import ErrorCode
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
"""The format of a client's software name and version (Kafka: ApiVersionsRequest.isValid)."""


def unknown_version(_message: object, context: RequestContext, services: ClusterServices) -> Outcome:
    served = services.endpoints[context.connection.listener].registry.get(ApiKey.API_VERSIONS)
    assert served is not None
    own = ApiVersion(ApiKey.API_VERSIONS, served.min_version, served.max_version)
    return Response(ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[own]))


@api(
    ApiKey.API_VERSIONS,
    versions=(0, 4),
    services=ClusterServices,
    before_login=True,
    unknown_version=unknown_version,
)
def handle(message: ApiVersionsRequest, context: RequestContext, services: ClusterServices) -> Outcome:
    name, version = message.client_software_name, message.client_software_version
    update_connection = None
    if context.api_version >= 3:
        if not (SOFTWARE.fullmatch(name) and SOFTWARE.fullmatch(version)):
            return Response(ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST))

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
