"""OffsetFetch: how far groups have come.

Versions 1-9. A null topic list (2 on) asks for every committed offset. Where nothing is committed the offset
is -1 without an error. Version 1 has no place for the group's own error and says it for each partition; from
8 on several groups are asked for at once, each with an error of its own. Member id and epoch (9) matter to
the new group protocol only.
Left out: topic ids (version 10); `require_stable`, as there are no transactions to wait for.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from broker.api.broker import Broker
from broker.api.context import RequestContext
from broker.api.outcome import Answered, Outcome
from broker.api.registry import api
from broker.errors import ErrorCode
from broker.groups.committed import CommittedOffset
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

NOTHING_COMMITTED: Final = CommittedOffset(-1, -1, "", -1)

Topics = Sequence[OffsetFetchRequestTopic] | Sequence[OffsetFetchRequestTopics] | None
Found = Iterator[tuple[str, list[tuple[int, CommittedOffset]]]]


@api(ApiKey.OFFSET_FETCH, versions=(1, 9))
def handle(message: OffsetFetchRequest, context: RequestContext, broker: Broker) -> Outcome:
    error = ErrorCode.NONE if broker.groups.is_available else ErrorCode.NOT_COORDINATOR
    if context.api_version >= 8:
        return Answered(
            OffsetFetchResponse(groups=[_group(group, error, broker) for group in message.groups])
        )
    found = _find(message.group_id, message.topics, broker) if not error else iter(())
    if context.api_version < 2 and error:
        found = _unanswered(message.topics)
    topics = [
        OffsetFetchResponseTopic(
            name,
            [
                OffsetFetchResponsePartition(
                    index, each.offset, each.leader_epoch, each.metadata, error_code=error
                )
                for index, each in partitions
            ],
        )
        for name, partitions in found
    ]
    return Answered(OffsetFetchResponse(topics=topics, error_code=error))


def _group(asked: OffsetFetchRequestGroup, error: ErrorCode, broker: Broker) -> OffsetFetchResponseGroup:
    if error:
        return OffsetFetchResponseGroup(asked.group_id, error_code=error)
    topics = [
        OffsetFetchResponseTopics(
            name,
            partitions=[
                OffsetFetchResponsePartitions(index, each.offset, each.leader_epoch, each.metadata)
                for index, each in partitions
            ],
        )
        for name, partitions in _find(asked.group_id, asked.topics, broker)
    ]
    return OffsetFetchResponseGroup(asked.group_id, topics)


def _find(group_id: str, topics: Topics, broker: Broker) -> Found:
    committed = broker.groups.coordinator.committed(group_id)
    if topics is None:
        for name, offsets in committed.items():
            yield name, list(offsets.items())
        return
    for topic in topics:
        of_topic = committed.get(topic.name, {})
        yield (
            topic.name,
            [(index, of_topic.get(index, NOTHING_COMMITTED)) for index in topic.partition_indexes],
        )


def _unanswered(topics: Iterable[OffsetFetchRequestTopic] | None) -> Found:
    for topic in topics or ():
        yield topic.name, [(index, NOTHING_COMMITTED) for index in topic.partition_indexes]
