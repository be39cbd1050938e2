"""Broker registration, API key 62. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import ZERO_UUID, Field, Message, Struct


class Listener(Struct):
    __slots__ = ("name", "host", "port", "security_protocol")
    FIELDS = (
        Field("name", "string", 0, 4),
        Field("host", "string", 0, 4),
        Field("port", "uint16", 0, 4),
        Field("security_protocol", "int16", 0, 4),
    )

    def __init__(self, name: str = "", host: str = "", port: int = 0, security_protocol: int = 0) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.security_protocol = security_protocol


class Feature(Struct):
    __slots__ = ("name", "min_supported_version", "max_supported_version")
    FIELDS = (
        Field("name", "string", 0, 4),
        Field("min_supported_version", "int16", 0, 4),
        Field("max_supported_version", "int16", 0, 4),
    )

    def __init__(
        self, name: str = "", min_supported_version: int = 0, max_supported_version: int = 0
    ) -> None:
        self.name = name
        self.min_supported_version = min_supported_version
        self.max_supported_version = max_supported_version


class BrokerRegistrationRequest(Message):
    __slots__ = (
        "broker_id",
        "cluster_id",
        "incarnation_id",
        "listeners",
        "features",
        "rack",
        "is_migrating_zk_broker",
        "log_dirs",
        "previous_broker_epoch",
    )
    API_KEY = 62
    VERSIONS = (0, 4)
    FLEXIBLE = 0
    FIELDS = (
        Field("broker_id", "int32", 0, 4),
        Field("cluster_id", "string", 0, 4),
        Field("incarnation_id", "uuid", 0, 4),
        Field("listeners", Listener, 0, 4, array=True),
        Field("features", Feature, 0, 4, array=True),
        Field("rack", "string", 0, 4, nullable=0),
        Field("is_migrating_zk_broker", "bool", 1, 4),
        Field("log_dirs", "uuid", 2, 4, array=True),
        Field("previous_broker_epoch", "int64", 3, 4, default=-1),
    )

    def __init__(
        self,
        broker_id: int = 0,
        cluster_id: str = "",
        incarnation_id: bytes = ZERO_UUID,
        listeners: list[Listener] | None = None,
        features: list[Feature] | None = None,
        rack: str | None = None,
        is_migrating_zk_broker: bool = False,
        log_dirs: list[bytes] | None = None,
        previous_broker_epoch: int = -1,
    ) -> None:
        self.broker_id = broker_id
        self.cluster_id = cluster_id
        self.incarnation_id = incarnation_id
        self.listeners = [] if listeners is None else listeners
        self.features = [] if features is None else features
        self.rack = rack
        self.is_migrating_zk_broker = is_migrating_zk_broker
        self.log_dirs = [] if log_dirs is None else log_dirs
        self.previous_broker_epoch = previous_broker_epoch


class BrokerRegistrationResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "broker_epoch")
    API_KEY = 62
    VERSIONS = (0, 4)
    FLEXIBLE = 0
    FIELDS = (
        Field("throttle_time_ms", "int32", 0, 4),
        Field("error_code", "int16", 0, 4),
        Field("broker_epoch", "int64", 0, 4, default=-1),
    )

    def __init__(self, throttle_time_ms: int = 0, error_code: int = 0, broker_epoch: int = -1) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.broker_epoch = broker_epoch
