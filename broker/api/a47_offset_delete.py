"""OffsetDelete: deletes committed offsets of partitions that a group no longer reads. (KIP-496)

Version 0. The whole request fails if the group does not exist, or has members and is not a consumer group; a
partition fails if its topic does not exist or the group subscribes to it. Requires the editor role, or ACLs
for DELETE of the group and READ of the topics.
"""

from collections.abc import Sequence
from functools import partial
from itertools import repeat

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.group_replies import DividedGroupRequest, now_of
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.pacing import consumed
from broker.api.requests.services import GroupServices
from broker.common.errors import ErrorCode
from broker.common.slices import Slices
from broker.coordinator.group.messages import Effects, OffsetDeleteReply, Token
from broker.coordinator.group.offsets import SubscribedTopics
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from broker.security.acl.acl import Operation


@api(ApiKey.OFFSET_DELETE, versions=(0, 0), services=GroupServices)
def handle(message: OffsetDeleteRequest, context: RequestContext, services: GroupServices) -> Slices[Outcome]:
    security = services.security
    allowed = security.allows_group(context, Operation.DELETE, message.group_id)
    if not security.permits(context, authorized=allowed):
        return Response(OffsetDeleteResponse(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    if not services.groups.is_available:
        return Response(OffsetDeleteResponse(ErrorCode.NOT_COORDINATOR))
    group_id = message.group_id
    if refusal := services.groups.coordinator.offsets.check_delete(group_id):
        return Response(OffsetDeleteResponse(refusal))
    response = OffsetDeleteResponse()
    wanted = []
    entries = []
    for topic in message.topics:
        known = services.control.image.topics.get(topic.name)
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not security.allows_topic(context, Operation.READ, topic.name):
            known, error = None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
        of_topic = []
        for each in topic.partitions:
            index = each.partition_index
            entry = OffsetDeleteResponsePartition(index, error)
            of_topic.append(entry)
            if known is not None and 0 <= index < known.partitions:
                entries.append(entry)
                wanted.append((topic.name, index))
            yield None
        response.topics.append(OffsetDeleteResponseTopic(topic.name, of_topic))
        yield None
    remaining = consumed(entries)
    coordinator, image = services.groups.coordinator, services.control.image
    subscribed: SubscribedTopics | None = None

    def read_subscribed() -> Slices[None]:
        nonlocal subscribed
        subscribed = yield from coordinator.offsets.subscribed_topics(group_id, image.topics, subscribed)

    def on_reply(reply: OffsetDeleteReply) -> None:
        some = next(remaining)
        for entry, error in zip(some, reply.errors or repeat(reply.error), strict=False):
            entry.error_code = error  # the whole-request error if the group is deleted between two turns

    def delete(some: Sequence[tuple[str, int]], token: Token) -> Effects:
        assert subscribed is not None
        return coordinator.offsets.delete(group_id, some, subscribed, token, now_of(context))

    calls = (partial(delete, some) for some in consumed(wanted))
    request = DividedGroupRequest(
        context, calls, on_reply, response, services, wanted, entries, prepare=read_subscribed
    )
    yield from read_subscribed()
    return (yield from request.begin())
