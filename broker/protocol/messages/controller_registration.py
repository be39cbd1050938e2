"""Controller registration, API key 70. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import ZERO_UUID, Field, Message, Struct


class Listener(Struct):
    __slots__ = ("name", "host", "port", "security_protocol")
    FIELDS = (
        Field("name", "string", 0, 0),
        Field("host", "string", 0, 0),
        Field("port", "uint16", 0, 0),
        Field("security_protocol", "int16", 0, 0),
    )

    def __init__(self, name: str = "", host: str = "", port: int = 0, security_protocol: int = 0) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.security_protocol = security_protocol


class Feature(Struct):
    __slots__ = ("name", "min_supported_version", "max_supported_version")
    FIELDS = (
        Field("name", "string", 0, 0),
        Field("min_supported_version", "int16", 0, 0),
        Field("max_supported_version", "int16", 0, 0),
    )

    def __init__(
        self, name: str = "", min_supported_version: int = 0, max_supported_version: int = 0
    ) -> None:
        self.name = name
        self.min_supported_version = min_supported_version
        self.max_supported_version = max_supported_version


class ControllerRegistrationRequest(Message):
    __slots__ = ("controller_id", "incarnation_id", "zk_migration_ready", "listeners", "features")
    API_KEY = 70
    VERSIONS = (0, 0)
    FLEXIBLE = 0
    FIELDS = (
        Field("controller_id", "int32", 0, 0),
        Field("incarnation_id", "uuid", 0, 0),
        Field("zk_migration_ready", "bool", 0, 0),
        Field("listeners", Listener, 0, 0, array=True),
        Field("features", Feature, 0, 0, array=True),
    )

    def __init__(
        self,
        controller_id: int = 0,
        incarnation_id: bytes = ZERO_UUID,
        zk_migration_ready: bool = False,
        listeners: list[Listener] | None = None,
        features: list[Feature] | None = None,
    ) -> None:
        self.controller_id = controller_id
        self.incarnation_id = incarnation_id
        self.zk_migration_ready = zk_migration_ready
        self.listeners = [] if listeners is None else listeners
        self.features = [] if features is None else features


class ControllerRegistrationResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message")
    API_KEY = 70
    VERSIONS = (0, 0)
    FLEXIBLE = 0
    FIELDS = (
        Field("throttle_time_ms", "int32", 0, 0),
        Field("error_code", "int16", 0, 0),
        Field("error_message", "string", 0, 0, nullable=0),
    )

    def __init__(
        self, throttle_time_ms: int = 0, error_code: int = 0, error_message: str | None = None
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
