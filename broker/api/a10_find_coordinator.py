"""FindCoordinator: returns the coordinator of a group, which is always this broker.

Versions 0-6. One key up to version 3, several from 4. The first request for a group creates the offsets
topic; responses are cached until the metadata image changes. Left out: transactions (key type 1 is refused)
and share groups (key type 2, version 6, is an invalid request).
"""

from collections.abc import Awaitable
from typing import Final

from broker.api.automatic_topics import automatic_topic
from broker.api.context import RequestContext
from broker.api.outcome import Outcome, Response, in_slices, outcome_of
from broker.api.pacing import Pace, mapped
from broker.api.registry import api
from broker.api.services import MetadataServices
from broker.authorization.acl import Operation
from broker.control.commands import BROKER_ITSELF, CreateTopics
from broker.errors import ErrorCode
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from broker.records.slices import Slices
from broker.services.group_service import OFFSETS_TOPIC

GROUP: Final = 0
TRANSACTION: Final = 1

NO_NODE: Final = -1


@api(ApiKey.FIND_COORDINATOR, versions=(0, 6), services=MetadataServices)
def handle(
    message: FindCoordinatorRequest, context: RequestContext, services: MetadataServices
) -> Outcome | Awaitable[Outcome]:
    if message.key_type == TRANSACTION:
        return in_slices(_refused(message, context, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    if message.key_type != GROUP:
        return in_slices(_refused(message, context, ErrorCode.INVALID_REQUEST))
    if context.api_version < 4 and not services.security.allows_group(
        context, Operation.DESCRIBE, message.key
    ):
        return in_slices(_refused(message, context, ErrorCode.GROUP_AUTHORIZATION_FAILED))
    if not services.groups.is_available:
        return _make_offsets_topic(message, context, services)
    return in_slices(_coordinators(message, context, services, cacheable=True))


async def _make_offsets_topic(
    message: FindCoordinatorRequest, context: RequestContext, services: MetadataServices
) -> Outcome:
    topic = automatic_topic(OFFSETS_TOPIC, services.control.config)
    await services.control.apply(
        CreateTopics((topic,), charge=services.mutations.automatic_charge(context)), BROKER_ITSELF
    )
    # Of two concurrent requests, the second finds that the topic exists, and both succeed.
    if services.groups.is_available:
        return outcome_of(_coordinators(message, context, services, cacheable=False))
    return outcome_of(_refused(message, context, ErrorCode.COORDINATOR_NOT_AVAILABLE))


def _coordinators(
    message: FindCoordinatorRequest, context: RequestContext, services: MetadataServices, *, cacheable: bool
) -> Slices[Outcome]:
    node = services.node_id
    endpoint = services.endpoints[context.connection.listener]
    if context.api_version < 4:
        reply = FindCoordinatorResponse(node_id=node, host=endpoint.host, port=endpoint.port)
        return Response(reply, cacheable=cacheable)
    security = services.security
    coordinators = yield from mapped(
        lambda key: (
            Coordinator(key, node, endpoint.host, endpoint.port)
            if security.allows_group(context, Operation.DESCRIBE, key)
            else Coordinator(key, NO_NODE, "", -1, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        ),
        message.coordinator_keys,
        Pace(),
    )
    return Response(FindCoordinatorResponse(coordinators=coordinators), cacheable=cacheable)


def _refused(message: FindCoordinatorRequest, context: RequestContext, error: ErrorCode) -> Slices[Outcome]:
    if context.api_version < 4:
        return Response(FindCoordinatorResponse(0, error, None, NO_NODE, "", -1))
    coordinators = yield from mapped(
        lambda key: Coordinator(key, NO_NODE, "", -1, error), message.coordinator_keys, Pace()
    )
    return Response(FindCoordinatorResponse(coordinators=coordinators))
