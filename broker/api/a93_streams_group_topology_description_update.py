"""StreamsGroupTopologyDescriptionUpdate: a member sends the description of its topology. (KIP-1331)

Version 0. Kafka stores descriptions with a plugin, if the broker has one; this broker answers as Kafka does
without: UNSUPPORTED_VERSION. No heartbeat asks for a description. The group's READ operation is required.
"""

from typing import Final

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.group_requests import group_refusal
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.services import GroupServices
from broker.common.errors import ErrorCode
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)

NO_PLUGIN: Final = "The broker has no streams group topology description plugin configured."


@api(ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE, versions=(0, 0), services=GroupServices)
def handle(
    message: StreamsGroupTopologyDescriptionUpdateRequest, context: RequestContext, services: GroupServices
) -> Outcome:
    refusal = group_refusal(message.group_id, context, services)
    error = refusal or ErrorCode.UNSUPPORTED_VERSION
    return Response(
        StreamsGroupTopologyDescriptionUpdateResponse(
            error_code=error, error_message=None if refusal else NO_PLUGIN
        )
    )
