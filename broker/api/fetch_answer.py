"""Builds Fetch responses from read partitions. Called by the fetch modules only."""

from broker.api.pacing import pieces
from broker.errors import ErrorCode
from broker.protocol import codec
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from broker.records.slices import Slices
from broker.services.fetching import Found


def reply_for(found: list[Found], session_id: int) -> FetchResponse:
    """Return one entry per partition; consecutive partitions of a topic share one topic entry."""
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


def reply_in_slices(found: list[Found], session_id: int) -> Slices[FetchResponse]:
    """Build `reply_for` for many partitions, in slices."""
    whole = FetchResponse(0, ErrorCode.NONE, session_id, [])
    for some in pieces(found):
        responses = reply_for(list(some), session_id).responses
        last = whole.responses[-1] if whole.responses else None
        first = responses[0] if responses else None
        if last and first and last.topic == first.topic and last.topic_id == first.topic_id:
            last.partitions += responses.pop(0).partitions
        whole.responses += responses
        yield None
    return whole


def size_in_slices(reply: FetchResponse, version: int) -> Slices[int]:
    """Compute `size_of` for many partitions, in slices."""
    size = 0
    for some in pieces((yield from codec.encode_response_in_slices(ApiKey.FETCH, version)(reply, 0))):
        size += sum(map(len, some))
        yield None
    return size


def empty_reply(throttle_ms: int, session_id: int) -> FetchResponse:
    """Return the response of a throttled fetch, without partitions."""
    return FetchResponse(throttle_ms, ErrorCode.NONE, session_id, [])


def size_of(reply: FetchResponse, version: int) -> int:
    """Return the size of the whole frame in bytes, which the fetch quota records."""
    return sum(len(part) for part in codec.encode_response(ApiKey.FETCH, version)(reply, 0))
