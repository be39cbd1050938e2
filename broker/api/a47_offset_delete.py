"""OffsetDelete: removes committed offsets of partitions that a group no longer reads. (KIP-496)

Version 0. The whole is refused where the group does not exist, or has members and is no consumer group; a
partition where its topic does not exist, or the group is subscribed to it. Needs the role editor.
"""

from broker.api.broker import Broker
from broker.api.context import RequestContext
from broker.api.group_answers import Asked, conclude, now_of
from broker.api.outcome import Answered, Outcome
from broker.api.registry import api
from broker.api.wire_actor import wire_actor
from broker.errors import ErrorCode
from broker.groups.replies import OffsetDeleteReply
from broker.metadata.actor import Role
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


@api(ApiKey.OFFSET_DELETE, versions=(0, 0))
def handle(message: OffsetDeleteRequest, context: RequestContext, broker: Broker) -> Outcome:
    if wire_actor(context, broker).role < Role.EDITOR:
        return Answered(OffsetDeleteResponse(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    if not broker.groups.is_available:
        return Answered(OffsetDeleteResponse(ErrorCode.NOT_COORDINATOR))
    topics = []
    wanted = []
    entries = []
    for topic in message.topics:
        known = broker.control.image.topics.get(topic.name)
        of_topic = []
        for each in topic.partitions:
            index = each.partition_index
            entry = OffsetDeleteResponsePartition(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            of_topic.append(entry)
            if known is not None and 0 <= index < known.partitions:
                entries.append(entry)
                wanted.append((topic.name, index))
        topics.append(OffsetDeleteResponseTopic(topic.name, of_topic))

    def answer(reply: OffsetDeleteReply, _version: int) -> OffsetDeleteResponse:
        if reply.error:
            return OffsetDeleteResponse(reply.error)
        for entry, error in zip(entries, reply.errors, strict=True):
            entry.error_code = error
        return OffsetDeleteResponse(topics=topics)

    asked = Asked(context, answer)
    effects = broker.groups.coordinator.delete_offsets(message.group_id, wanted, asked, now_of(context))
    return conclude(effects, asked, broker)
