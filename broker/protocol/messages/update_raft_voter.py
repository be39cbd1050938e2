"""Update raft voter, API key 82. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import ZERO_UUID, Field, Message, Struct


class Listener(Struct):
    __slots__ = ("name", "host", "port")
    FIELDS = (
        Field("name", "string", 0, 0),
        Field("host", "string", 0, 0),
        Field("port", "uint16", 0, 0),
    )

    def __init__(self, name: str = "", host: str = "", port: int = 0) -> None:
        self.name = name
        self.host = host
        self.port = port


class KRaftVersionFeature(Struct):
    __slots__ = ("min_supported_version", "max_supported_version")
    FIELDS = (
        Field("min_supported_version", "int16", 0, 0),
        Field("max_supported_version", "int16", 0, 0),
    )

    def __init__(self, min_supported_version: int = 0, max_supported_version: int = 0) -> None:
        self.min_supported_version = min_supported_version
        self.max_supported_version = max_supported_version


class UpdateRaftVoterRequest(Message):
    __slots__ = (
        "cluster_id",
        "current_leader_epoch",
        "voter_id",
        "voter_directory_id",
        "listeners",
        "k_raft_version_feature",
    )
    API_KEY = 82
    VERSIONS = (0, 0)
    FLEXIBLE = 0
    FIELDS = (
        Field("cluster_id", "string", 0, 0, nullable=0),
        Field("current_leader_epoch", "int32", 0, 0),
        Field("voter_id", "int32", 0, 0),
        Field("voter_directory_id", "uuid", 0, 0),
        Field("listeners", Listener, 0, 0, array=True),
        Field("k_raft_version_feature", KRaftVersionFeature, 0, 0),
    )

    def __init__(
        self,
        cluster_id: str | None = None,
        current_leader_epoch: int = 0,
        voter_id: int = 0,
        voter_directory_id: bytes = ZERO_UUID,
        listeners: list[Listener] | None = None,
        k_raft_version_feature: KRaftVersionFeature | None = None,
    ) -> None:
        self.cluster_id = cluster_id
        self.current_leader_epoch = current_leader_epoch
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
        self.listeners = [] if listeners is None else listeners
        self.k_raft_version_feature = (
            KRaftVersionFeature() if k_raft_version_feature is None else k_raft_version_feature
        )


class CurrentLeader(Struct):
    __slots__ = ("leader_id", "leader_epoch", "host", "port")
    FIELDS = (
        Field("leader_id", "int32", 0, 0, default=-1),
        Field("leader_epoch", "int32", 0, 0, default=-1),
        Field("host", "string", 0, 0),
        Field("port", "int32", 0, 0),
    )

    def __init__(self, leader_id: int = -1, leader_epoch: int = -1, host: str = "", port: int = 0) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.host = host
        self.port = port


class UpdateRaftVoterResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "current_leader")
    API_KEY = 82
    VERSIONS = (0, 0)
    FLEXIBLE = 0
    FIELDS = (
        Field("throttle_time_ms", "int32", 0, 0),
        Field("error_code", "int16", 0, 0),
        Field("current_leader", CurrentLeader, 0, 0, tag=0),
    )

    def __init__(
        self, throttle_time_ms: int = 0, error_code: int = 0, current_leader: CurrentLeader | None = None
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.current_leader = current_leader
