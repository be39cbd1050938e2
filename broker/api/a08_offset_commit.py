"""OffsetCommit: how far a group has come.

Versions 2-9. Each partition is accepted or refused by itself; one that does not exist is
UNKNOWN_TOPIC_OR_PARTITION. The retention of versions 2 to 4 is kept with the offset; the leader epoch comes
with 6, static members (KIP-345) with 7; from 9 on a group that does not exist is GROUP_ID_NOT_FOUND.
Left out: topic ids (version 10).
"""

from broker.api.broker import Broker
from broker.api.context import RequestContext
from broker.api.group_answers import LONGEST_NAME, Asked, conclude, now_of
from broker.api.outcome import Answered, Outcome
from broker.api.registry import api
from broker.errors import ErrorCode
from broker.groups.replies import CommitReply
from broker.groups.requests import CommitRequest, OffsetToCommit
from broker.metadata.image import Image
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)


@api(ApiKey.OFFSET_COMMIT, versions=(2, 9))
def handle(message: OffsetCommitRequest, context: RequestContext, broker: Broker) -> Outcome:
    topics, offsets, accepted = _sort(message, broker.control.image)
    reply = OffsetCommitResponse(topics=topics)
    if not broker.groups.is_available:
        return _refused(reply, accepted, ErrorCode.NOT_COORDINATOR)
    if len(message.group_id) > LONGEST_NAME:
        return _refused(reply, accepted, ErrorCode.INVALID_GROUP_ID)
    if not offsets:
        return Answered(reply)

    def answer(committed: CommitReply, _version: int) -> OffsetCommitResponse:
        for partition, error in zip(accepted, committed.errors, strict=True):
            partition.error_code = error
        return reply

    request = CommitRequest(
        message.group_id,
        message.generation_id_or_member_epoch,
        message.member_id,
        message.group_instance_id,
        offsets,
        message.retention_time_ms,
        knows_missing_groups=context.api_version >= 9,
    )
    asked = Asked(context, answer)
    return conclude(broker.groups.coordinator.commit(request, asked, now_of(context)), asked, broker)


def _sort(
    message: OffsetCommitRequest, image: Image
) -> tuple[list[OffsetCommitResponseTopic], list[OffsetToCommit], list[OffsetCommitResponsePartition]]:
    """The answer with an entry for every partition, the offsets of those that exist, and their entries."""
    topics = []
    offsets = []
    accepted = []
    for topic in message.topics:
        known = image.topics.get(topic.name)
        count = 0 if known is None else known.partitions
        entries = []
        for each in topic.partitions:
            index = each.partition_index
            entry = OffsetCommitResponsePartition(index, ErrorCode.NONE)
            entries.append(entry)
            if not 0 <= index < count:
                entry.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            accepted.append(entry)
            offsets.append(
                OffsetToCommit(
                    topic.name,
                    index,
                    each.committed_offset,
                    each.committed_leader_epoch,
                    each.committed_metadata,
                )
            )
        topics.append(OffsetCommitResponseTopic(topic.name, partitions=entries))
    return topics, offsets, accepted


def _refused(
    reply: OffsetCommitResponse, accepted: list[OffsetCommitResponsePartition], error: ErrorCode
) -> Outcome:
    for partition in accepted:
        partition.error_code = error
    return Answered(reply)
