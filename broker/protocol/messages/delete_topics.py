"""Delete topics, API key 20. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import ZERO_UUID, Field, Message, Struct


class DeleteTopicState(Struct):
    __slots__ = ("name", "topic_id")
    FIELDS = (
        Field("name", "string", 6, 6, nullable=6),
        Field("topic_id", "uuid", 6, 6),
    )

    def __init__(self, name: str | None = None, topic_id: bytes = ZERO_UUID) -> None:
        self.name = name
        self.topic_id = topic_id


class DeleteTopicsRequest(Message):
    __slots__ = ("topic_names", "topics", "timeout_ms")
    API_KEY = 20
    VERSIONS = (1, 6)
    FLEXIBLE = 4
    FIELDS = (
        Field("topic_names", "string", 1, 5, array=True),
        Field("topics", DeleteTopicState, 6, 6, array=True),
        Field("timeout_ms", "int32", 1, 6),
    )

    def __init__(
        self,
        topic_names: list[str] | None = None,
        topics: list[DeleteTopicState] | None = None,
        timeout_ms: int = 0,
    ) -> None:
        self.topic_names = [] if topic_names is None else topic_names
        self.topics = [] if topics is None else topics
        self.timeout_ms = timeout_ms


class DeletableTopicResult(Struct):
    __slots__ = ("name", "topic_id", "error_code", "error_message")
    FIELDS = (
        Field("name", "string", 1, 6, nullable=6),
        Field("topic_id", "uuid", 6, 6),
        Field("error_code", "int16", 1, 6),
        Field("error_message", "string", 5, 6, nullable=5),
    )

    def __init__(
        self,
        name: str | None = None,
        topic_id: bytes = ZERO_UUID,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message


class DeleteTopicsResponse(Message):
    __slots__ = ("throttle_time_ms", "responses")
    API_KEY = 20
    VERSIONS = (1, 6)
    FLEXIBLE = 4
    FIELDS = (
        Field("throttle_time_ms", "int32", 1, 6),
        Field("responses", DeletableTopicResult, 1, 6, array=True),
    )

    def __init__(
        self, throttle_time_ms: int = 0, responses: list[DeletableTopicResult] | None = None
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses = [] if responses is None else responses
