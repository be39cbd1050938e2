"""Find coordinator, API key 10. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Field, Message, Struct


class FindCoordinatorRequest(Message):
    __slots__ = ("key", "key_type", "coordinator_keys")
    API_KEY = 10
    VERSIONS = (0, 6)
    FLEXIBLE = 3
    FIELDS = (
        Field("key", "string", 0, 3),
        Field("key_type", "int8", 1, 6),
        Field("coordinator_keys", "string", 4, 6, array=True),
    )

    def __init__(self, key: str = "", key_type: int = 0, coordinator_keys: list[str] | None = None) -> None:
        self.key = key
        self.key_type = key_type
        self.coordinator_keys = [] if coordinator_keys is None else coordinator_keys


class Coordinator(Struct):
    __slots__ = ("key", "node_id", "host", "port", "error_code", "error_message")
    FIELDS = (
        Field("key", "string", 4, 6),
        Field("node_id", "int32", 4, 6),
        Field("host", "string", 4, 6),
        Field("port", "int32", 4, 6),
        Field("error_code", "int16", 4, 6),
        Field("error_message", "string", 4, 6, nullable=4),
    )

    def __init__(
        self,
        key: str = "",
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.key = key
        self.node_id = node_id
        self.host = host
        self.port = port
        self.error_code = error_code
        self.error_message = error_message


class FindCoordinatorResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "node_id", "host", "port", "coordinators")
    API_KEY = 10
    VERSIONS = (0, 6)
    FLEXIBLE = 3
    FIELDS = (
        Field("throttle_time_ms", "int32", 1, 6),
        Field("error_code", "int16", 0, 3),
        Field("error_message", "string", 1, 3, nullable=1),
        Field("node_id", "int32", 0, 3),
        Field("host", "string", 0, 3),
        Field("port", "int32", 0, 3),
        Field("coordinators", Coordinator, 4, 6, array=True),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        coordinators: list[Coordinator] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.node_id = node_id
        self.host = host
        self.port = port
        self.coordinators = [] if coordinators is None else coordinators
