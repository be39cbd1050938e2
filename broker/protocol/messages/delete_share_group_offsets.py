"""Delete share group offsets, API key 92. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class DeleteShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = field("string", 0, 0)


class DeleteShareGroupOffsetsRequest(Message, api_key=92, versions=(0, 0), flexible=0):
    group_id: str = field("string", 0, 0)
    topics: list[DeleteShareGroupOffsetsRequestTopic] = field(
        DeleteShareGroupOffsetsRequestTopic, 0, 0, array=True
    )


class DeleteShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = field("string", 0, 0)
    topic_id: bytes = field("uuid", 0, 0)
    error_code: int = field("int16", 0, 0)
    error_message: str | None = field("string", 0, 0, nullable=0)


class DeleteShareGroupOffsetsResponse(Message, api_key=92, versions=(0, 0), flexible=0):
    throttle_time_ms: int = field("int32", 0, 0)
    error_code: int = field("int16", 0, 0)
    error_message: str | None = field("string", 0, 0, nullable=0)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = field(
        DeleteShareGroupOffsetsResponseTopic, 0, 0, array=True
    )
