"""Add raft voter, API key 80. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import ZERO_UUID, Field, Message, Struct


class Listener(Struct):
    __slots__ = ("name", "host", "port")
    FIELDS = (
        Field("name", "string", 0, 1),
        Field("host", "string", 0, 1),
        Field("port", "uint16", 0, 1),
    )

    def __init__(self, name: str = "", host: str = "", port: int = 0) -> None:
        self.name = name
        self.host = host
        self.port = port


class AddRaftVoterRequest(Message):
    __slots__ = (
        "cluster_id",
        "timeout_ms",
        "voter_id",
        "voter_directory_id",
        "listeners",
        "ack_when_committed",
    )
    API_KEY = 80
    VERSIONS = (0, 1)
    FLEXIBLE = 0
    FIELDS = (
        Field("cluster_id", "string", 0, 1, nullable=0),
        Field("timeout_ms", "int32", 0, 1),
        Field("voter_id", "int32", 0, 1),
        Field("voter_directory_id", "uuid", 0, 1),
        Field("listeners", Listener, 0, 1, array=True),
        Field("ack_when_committed", "bool", 1, 1, default=True),
    )

    def __init__(
        self,
        cluster_id: str | None = None,
        timeout_ms: int = 0,
        voter_id: int = 0,
        voter_directory_id: bytes = ZERO_UUID,
        listeners: list[Listener] | None = None,
        ack_when_committed: bool = True,
    ) -> None:
        self.cluster_id = cluster_id
        self.timeout_ms = timeout_ms
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
        self.listeners = [] if listeners is None else listeners
        self.ack_when_committed = ack_when_committed


class AddRaftVoterResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message")
    API_KEY = 80
    VERSIONS = (0, 1)
    FLEXIBLE = 0
    FIELDS = (
        Field("throttle_time_ms", "int32", 0, 1),
        Field("error_code", "int16", 0, 1),
        Field("error_message", "string", 0, 1, nullable=0),
    )

    def __init__(
        self, throttle_time_ms: int = 0, error_code: int = 0, error_message: str | None = None
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
