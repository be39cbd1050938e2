"""ConsumerGroupHeartbeat: a member of a consumer group joins, receives partitions, or leaves. (KIP-848)

Versions 0-1. Version 1 adds regular expressions (RE2, matched against whole names) and requires the client to
make its member id. The assignors are uniform and range. A request may subscribe to 10,000 topics by name. The
group's READ operation is required, and DESCRIBE of each named topic; a regular expression selects only topics
that the client may describe. Left out: racks have no effect on the assignment, as in Kafka.
"""

from typing import Final

from msgspec.structs import replace

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.group_replies import LONGEST_NAME, LargeGroupRequest, conclude, now_of
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.pacing import pieces
from broker.api.requests.services import GroupServices
from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Slices, Steps
from broker.coordinator.group.consumer.regular_expressions import compile_expression, matching_topics
from broker.coordinator.group.messages import ConsumerHeartbeatRequest, ModernHeartbeatReply
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


@api(ApiKey.CONSUMER_GROUP_HEARTBEAT, versions=(0, 1), services=GroupServices)
def handle(
    message: ConsumerGroupHeartbeatRequest, context: RequestContext, services: GroupServices
) -> Slices[Outcome]:
    try:
        _check(message, context, services)
        yield from _check_topics(message, context, services)
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
    group_request = LargeGroupRequest(context, _response)
    coordinator, now = services.groups.coordinator, now_of(context)
    effects = yield from coordinator.consumer.heartbeat(request, group_request, now)
    outcome = conclude(effects, group_request, services)
    return services.linger.delayed(outcome, context)


def _check(message: ConsumerGroupHeartbeatRequest, context: RequestContext, services: GroupServices) -> None:
    """Check what needs no group. Raises ApiError."""
    if not services.security.allows_group(context, Operation.READ, message.group_id):
        raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not services.groups.is_available:
        raise ApiError(ErrorCode.NOT_COORDINATOR)
    if len(message.group_id) > LONGEST_NAME:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
    names = (message.member_id, message.instance_id, message.rack_id, message.server_assignor)
    if any(len(name or "") > LONGEST_NAME for name in (*names, context.client_id)):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"A name has more than {LONGEST_NAME} characters.")
    if len(message.subscribed_topic_names or ()) > MAX_TOPICS:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"SubscribedTopicNames has more than {MAX_TOPICS} names.")


def _check_topics(
    message: ConsumerGroupHeartbeatRequest, context: RequestContext, services: GroupServices
) -> Slices[None]:
    """Raises ApiError if the client may not describe a named topic."""
    security = services.security
    for name in message.subscribed_topic_names or ():
        if not security.allows_topic(context, Operation.DESCRIBE, name):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        yield None


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


def _response(reply: ModernHeartbeatReply) -> Steps[ConsumerGroupHeartbeatResponse]:
    assignment = None
    if reply.assignment is not None:
        assignment = Assignment()
        for topic_id, indexes in reply.assignment.items():
            assignment.topic_partitions.append(TopicPartitions(topic_id, sorted(indexes)))
            yield None
    return ConsumerGroupHeartbeatResponse(
        error_code=reply.error,
        error_message=reply.message,
        member_id=reply.member_id,
        member_epoch=reply.epoch,
        heartbeat_interval_ms=reply.interval_ms,
        assignment=assignment,
    )
