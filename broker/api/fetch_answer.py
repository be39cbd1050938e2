"""The wire form of what a fetch found. Called by `api.a01_fetch` only."""

from broker.errors import ErrorCode
from broker.protocol import codec
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from broker.services.fetching import Found


def reply_for(found: list[Found], session_id: int) -> FetchResponse:
    """One entry per partition, neighbours of the same topic under one topic entry."""
    responses: list[FetchableTopicResponse] = []
    last: FetchableTopicResponse | None = None
    for each in found:
        wanted = each.wanted
        if last is None or last.topic != wanted.topic or last.topic_id != wanted.topic_id:
            last = FetchableTopicResponse(wanted.topic, wanted.topic_id, [])
            responses.append(last)
        last.partitions.append(
            PartitionData(
                wanted.partition,
                each.error,
                each.high_watermark,
                each.high_watermark,
                each.log_start_offset,
                records=each.records,
            )
        )
    return FetchResponse(0, ErrorCode.NONE, session_id, responses)


def empty_reply(throttle_ms: int, session_id: int) -> FetchResponse:
    """What a throttled fetch gets: no partitions at all."""
    return FetchResponse(throttle_ms, ErrorCode.NONE, session_id, [])


def size_of(reply: FetchResponse, version: int) -> int:
    """The bytes of the whole frame, as the fetch quota counts them."""
    return sum(len(part) for part in codec.encode_response(ApiKey.FETCH, version)(reply, 0))
