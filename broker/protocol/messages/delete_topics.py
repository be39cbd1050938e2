"""Delete topics, API key 20. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class DeleteTopicState(Struct):
    name: str | None = field("string", 6, 6, nullable=6)
    topic_id: bytes = field("uuid", 6, 6)


class DeleteTopicsRequest(Message, api_key=20, versions=(1, 6), flexible=4):
    topic_names: list[str] = field("string", 1, 5, array=True)
    topics: list[DeleteTopicState] = field(DeleteTopicState, 6, 6, array=True)
    timeout_ms: int = field("int32", 1, 6)


class DeletableTopicResult(Struct):
    name: str | None = field("string", 1, 6, nullable=6)
    topic_id: bytes = field("uuid", 6, 6)
    error_code: int = field("int16", 1, 6)
    error_message: str | None = field("string", 5, 6, nullable=5)


class DeleteTopicsResponse(Message, api_key=20, versions=(1, 6), flexible=4):
    throttle_time_ms: int = field("int32", 1, 6)
    responses: list[DeletableTopicResult] = field(DeletableTopicResult, 1, 6, array=True)
