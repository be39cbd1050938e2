"""ConsumerGroupHeartbeat: a member of a consumer group joins, receives partitions, or leaves. (KIP-848)

Versions 0-1. Version 1 adds regular expressions (RE2, matched against whole names) and requires the client to
make its member id. The assignors are uniform and range. A request may subscribe to 10,000 topics by name. The
group's READ operation is required, and DESCRIBE of each named topic; a regular expression selects only topics
that the client may describe. Left out: racks have no effect on the assignment, as in Kafka.
"""

from functools import partial
from typing import Final

from msgspec.structs import replace

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.group_replies import GroupRequest, conclude, now_of
from broker.api.requests.group_requests import check_heartbeat, heartbeat_response
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.pacing import pieces
from broker.api.requests.services import GroupServices
from broker.common.errors import ApiError
from broker.common.slices import Slices
from broker.coordinator.group.consumer.regular_expressions import compile_expression, matching_topics
from broker.coordinator.group.messages import ConsumerHeartbeatRequest
from broker.coordinator.group.modern_group import MAX_TOPICS as MAX_TOPICS
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from broker.security.acl.acl import Operation

MEMBER_ID_SINCE: Final = 1

NO_PARTITION: Final = -1
"""What partitions that a topic does not have count as: no member has it."""

DELETED_PARTITIONS: Final = 1_024
DELETED_TOPICS: Final = 128
"""Partitions of a deleted topic, and topics with those, that a member may still state; our own limits."""

NO_TOPIC: Final = bytes(16)
"""The topic id of further partitions that do not exist."""

RESPONSE: Final = (ConsumerGroupHeartbeatResponse, Assignment, TopicPartitions)


@api(ApiKey.CONSUMER_GROUP_HEARTBEAT, versions=(0, 1), services=GroupServices)
def handle(
    message: ConsumerGroupHeartbeatRequest, context: RequestContext, services: GroupServices
) -> Slices[Outcome]:
    try:
        names = (message.member_id, message.instance_id, message.rack_id, message.server_assignor)
        yield from check_heartbeat(message, names, context, services)
        owned = yield from _owned(message, services)
        request = ConsumerHeartbeatRequest(
            message.group_id,
            message.member_id,
            message.member_epoch,
            message.instance_id,
            message.rack_id,
            message.rebalance_timeout_ms,
            None if message.subscribed_topic_names is None else tuple(message.subscribed_topic_names),
            message.subscribed_topic_regex,
            message.server_assignor,
            owned,
            context.client_id or "",
            f"/{context.connection.address}",
            requires_member_id=context.api_version >= MEMBER_ID_SINCE,
        )
        resolved = yield from _resolved(request, context, services)
    except ApiError as error:
        return Response(ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message))
    if resolved:
        request = replace(request, resolved=resolved)
    group_request = GroupRequest(context, partial(heartbeat_response, RESPONSE))
    coordinator, now = services.groups.coordinator, now_of(context)
    effects = yield from coordinator.consumer.heartbeat(request, group_request, now)
    outcome = conclude(effects, group_request, services)
    return services.linger.delayed(outcome, context)


def _owned(
    message: ConsumerGroupHeartbeatRequest, services: GroupServices
) -> Slices[dict[bytes, frozenset[int]] | None]:
    """Return the partitions that the member states to use, None if it states nothing.

    Partitions that a topic does not have count as one, and so do topics that do not exist after the first
    few, so that the result is no larger than the topics.
    """
    if message.topic_partitions is None:
        return None
    owned: dict[bytes, set[int]] = {}
    topics = services.control.image.topics_by_id
    for each in message.topic_partitions:
        topic_id, topic = each.topic_id, topics.get(each.topic_id)
        count = DELETED_PARTITIONS if topic is None else topic.partitions
        if topic is None and len(owned) >= DELETED_TOPICS and topic_id not in owned:
            topic_id, count = NO_TOPIC, 0
        for some in pieces(each.partitions):
            if some:
                existing = (index if 0 <= index < count else NO_PARTITION for index in some)
                owned.setdefault(topic_id, set()).update(existing)
            yield None
    stated: dict[bytes, frozenset[int]] = {}
    for topic_id, indexes in owned.items():
        stated[topic_id] = frozenset(indexes)
        yield None
    return stated


def _resolved(
    request: ConsumerHeartbeatRequest, context: RequestContext, services: GroupServices
) -> Slices[dict[str, frozenset[str]]]:
    """Look up the topics of the regular expressions that are due. Raises ApiError for an invalid one."""
    resolved: dict[str, frozenset[str]] = {}
    security = services.security

    def is_allowed(name: str) -> bool:
        return security.allows_topic(context, Operation.DESCRIBE, name, logs=False)

    for regex in services.groups.coordinator.consumer.outdated_expressions(request, now_of(context)):
        try:
            pattern = compile_expression(regex)
        except ApiError:
            if regex == request.regex:
                raise
            resolved[regex] = frozenset()  # another member's, from a broker with other limits
            continue
        resolved[regex] = yield from matching_topics(pattern, services.control.image.topics, is_allowed)
    return resolved
