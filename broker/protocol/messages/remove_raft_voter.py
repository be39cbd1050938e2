"""Remove raft voter, API key 81. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import ZERO_UUID, Field, Message


class RemoveRaftVoterRequest(Message):
    __slots__ = ("cluster_id", "voter_id", "voter_directory_id")
    API_KEY = 81
    VERSIONS = (0, 0)
    FLEXIBLE = 0
    FIELDS = (
        Field("cluster_id", "string", 0, 0, nullable=0),
        Field("voter_id", "int32", 0, 0),
        Field("voter_directory_id", "uuid", 0, 0),
    )

    def __init__(
        self, cluster_id: str | None = None, voter_id: int = 0, voter_directory_id: bytes = ZERO_UUID
    ) -> None:
        self.cluster_id = cluster_id
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id


class RemoveRaftVoterResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message")
    API_KEY = 81
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
