"""FindCoordinator: returns the coordinator of a group or a transactional id, which is always this broker.

Versions 0-6. One key up to version 3, several from 4. The first request for a group creates the offsets
topic, that for a transactional id the topic of transactions; responses are cached until the metadata image
changes. A share coordinator (key type 2) is for brokers, from version 6; its key is
"group:topicId:partition".
"""

from collections.abc import Awaitable
from typing import Final

from broker.api.registry import api
from broker.api.requests.automatic_topics import automatic_topic
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response, in_slices, outcome_of
from broker.api.requests.pacing import mapped
from broker.api.requests.services import MetadataServices
from broker.common.errors import ErrorCode
from broker.common.slices import Slices
from broker.controller.commands import BROKER_ITSELF, CreateTopics
from broker.coordinator.group_service import OFFSETS_TOPIC
from broker.coordinator.share.persister import SHARE_STATE_TOPIC, is_coordinator_key
from broker.coordinator.transaction_service import TRANSACTIONS_TOPIC
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from broker.security.acl.acl import Operation, ResourceType

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2

SHARE_SINCE: Final = 6

TOPICS: Final = {GROUP: OFFSETS_TOPIC, TRANSACTION: TRANSACTIONS_TOPIC, SHARE: SHARE_STATE_TOPIC}
"""By key type."""

NO_NODE: Final = -1


@api(ApiKey.FIND_COORDINATOR, versions=(0, 6), services=MetadataServices)
def handle(
    message: FindCoordinatorRequest, context: RequestContext, services: MetadataServices
) -> Outcome | Awaitable[Outcome]:
    is_known = message.key_type in TOPICS and (
        message.key_type != SHARE or context.api_version >= SHARE_SINCE
    )
    if not is_known:
        return in_slices(_refused(message, context, ErrorCode.INVALID_REQUEST))
    if context.api_version < 4:
        denial = _denial(message, context, services, message.key)
        if denial:
            return in_slices(_refused(message, context, denial))
    return in_slices(_answer(message, context, services))


def _answer(
    message: FindCoordinatorRequest, context: RequestContext, services: MetadataServices
) -> Slices[Outcome | Awaitable[Outcome]]:
    is_available = _is_available(message, services)
    if not is_available and (yield from _may_create(message, context, services)):
        return _make_topic(message, context, services)
    return (yield from _coordinators(message, context, services, cacheable=is_available))


def _may_create(
    message: FindCoordinatorRequest, context: RequestContext, services: MetadataServices
) -> Slices[bool]:
    """Return whether the client may describe one of the keys; a request for others creates no topic."""
    if context.api_version < 4:
        return True  # `handle` has checked its key.
    for key in message.coordinator_keys:
        if not _denial(message, context, services, key, logs=False):
            return True
        yield None
    return False


def _denial(
    message: FindCoordinatorRequest,
    context: RequestContext,
    services: MetadataServices,
    key: str,
    *,
    logs: bool = True,
) -> ErrorCode:
    """Return the error if the client may not know the coordinator of the key, or NONE."""
    if message.key_type == SHARE:
        if not services.security.is_broker(context):
            return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return ErrorCode.NONE if is_coordinator_key(key) else ErrorCode.INVALID_REQUEST
    kind, denial = ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED
    if message.key_type == TRANSACTION:
        kind, denial = ResourceType.TRANSACTIONAL_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    is_allowed = services.security.allows(context, Operation.DESCRIBE, kind, key, logs=logs)
    return ErrorCode.NONE if is_allowed else denial


def _is_available(message: FindCoordinatorRequest, services: MetadataServices) -> bool:
    if message.key_type == SHARE:
        return SHARE_STATE_TOPIC in services.partitions.by_name
    coordinator = services.transactions if message.key_type == TRANSACTION else services.groups
    return coordinator.is_available


async def _make_topic(
    message: FindCoordinatorRequest, context: RequestContext, services: MetadataServices
) -> Outcome:
    topic = automatic_topic(TOPICS[message.key_type], services.control.config)
    await services.control.apply(
        CreateTopics((topic,), charge=services.mutations.automatic_charge(context)), BROKER_ITSELF
    )
    # Of two concurrent requests, the second finds that the topic exists, and both succeed.
    if _is_available(message, services):
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

    def coordinator(key: str) -> Coordinator:
        denial = _denial(message, context, services, key)
        if denial:
            return Coordinator(key, NO_NODE, "", -1, denial)
        return Coordinator(key, node, endpoint.host, endpoint.port)

    coordinators = yield from mapped(coordinator, message.coordinator_keys)
    return Response(FindCoordinatorResponse(coordinators=coordinators), cacheable=cacheable)


def _refused(message: FindCoordinatorRequest, context: RequestContext, error: ErrorCode) -> Slices[Outcome]:
    if context.api_version < 4:
        return Response(FindCoordinatorResponse(0, error, None, NO_NODE, "", -1))
    coordinators = yield from mapped(
        lambda key: Coordinator(key, NO_NODE, "", -1, error), message.coordinator_keys
    )
    return Response(FindCoordinatorResponse(coordinators=coordinators))
