"""Delete share group offsets, API key 92. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import ZERO_UUID, Field, Message, Struct


class DeleteShareGroupOffsetsRequestTopic(Struct):
    __slots__ = ("topic_name",)
    FIELDS = (Field("topic_name", "string", 0, 0),)

    def __init__(self, topic_name: str = "") -> None:
        self.topic_name = topic_name


class DeleteShareGroupOffsetsRequest(Message):
    __slots__ = ("group_id", "topics")
    API_KEY = 92
    VERSIONS = (0, 0)
    FLEXIBLE = 0
    FIELDS = (
        Field("group_id", "string", 0, 0),
        Field("topics", DeleteShareGroupOffsetsRequestTopic, 0, 0, array=True),
    )

    def __init__(
        self, group_id: str = "", topics: list[DeleteShareGroupOffsetsRequestTopic] | None = None
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is None else topics


class DeleteShareGroupOffsetsResponseTopic(Struct):
    __slots__ = ("topic_name", "topic_id", "error_code", "error_message")
    FIELDS = (
        Field("topic_name", "string", 0, 0),
        Field("topic_id", "uuid", 0, 0),
        Field("error_code", "int16", 0, 0),
        Field("error_message", "string", 0, 0, nullable=0),
    )

    def __init__(
        self,
        topic_name: str = "",
        topic_id: bytes = ZERO_UUID,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.topic_name = topic_name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message


class DeleteShareGroupOffsetsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "responses")
    API_KEY = 92
    VERSIONS = (0, 0)
    FLEXIBLE = 0
    FIELDS = (
        Field("throttle_time_ms", "int32", 0, 0),
        Field("error_code", "int16", 0, 0),
        Field("error_message", "string", 0, 0, nullable=0),
        Field("responses", DeleteShareGroupOffsetsResponseTopic, 0, 0, array=True),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        responses: list[DeleteShareGroupOffsetsResponseTopic] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.responses = [] if responses is None else responses
