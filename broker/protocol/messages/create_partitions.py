"""Create partitions, API key 37. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Field, Message, Struct


class CreatePartitionsAssignment(Struct):
    __slots__ = ("broker_ids",)
    FIELDS = (Field("broker_ids", "int32", 0, 3, array=True),)

    def __init__(self, broker_ids: list[int] | None = None) -> None:
        self.broker_ids = [] if broker_ids is None else broker_ids


class CreatePartitionsTopic(Struct):
    __slots__ = ("name", "count", "assignments")
    FIELDS = (
        Field("name", "string", 0, 3),
        Field("count", "int32", 0, 3),
        Field("assignments", CreatePartitionsAssignment, 0, 3, array=True, nullable=0),
    )

    def __init__(
        self, name: str = "", count: int = 0, assignments: list[CreatePartitionsAssignment] | None = None
    ) -> None:
        self.name = name
        self.count = count
        self.assignments = assignments


class CreatePartitionsRequest(Message):
    __slots__ = ("topics", "timeout_ms", "validate_only")
    API_KEY = 37
    VERSIONS = (0, 3)
    FLEXIBLE = 2
    FIELDS = (
        Field("topics", CreatePartitionsTopic, 0, 3, array=True),
        Field("timeout_ms", "int32", 0, 3),
        Field("validate_only", "bool", 0, 3),
    )

    def __init__(
        self,
        topics: list[CreatePartitionsTopic] | None = None,
        timeout_ms: int = 0,
        validate_only: bool = False,
    ) -> None:
        self.topics = [] if topics is None else topics
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only


class CreatePartitionsTopicResult(Struct):
    __slots__ = ("name", "error_code", "error_message")
    FIELDS = (
        Field("name", "string", 0, 3),
        Field("error_code", "int16", 0, 3),
        Field("error_message", "string", 0, 3, nullable=0),
    )

    def __init__(self, name: str = "", error_code: int = 0, error_message: str | None = None) -> None:
        self.name = name
        self.error_code = error_code
        self.error_message = error_message


class CreatePartitionsResponse(Message):
    __slots__ = ("throttle_time_ms", "results")
    API_KEY = 37
    VERSIONS = (0, 3)
    FLEXIBLE = 2
    FIELDS = (
        Field("throttle_time_ms", "int32", 0, 3),
        Field("results", CreatePartitionsTopicResult, 0, 3, array=True),
    )

    def __init__(
        self, throttle_time_ms: int = 0, results: list[CreatePartitionsTopicResult] | None = None
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is None else results
