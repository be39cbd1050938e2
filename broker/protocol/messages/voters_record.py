"""Voters record. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import ZERO_UUID, Field, Message, Struct


class Endpoint(Struct):
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


class Voter(Struct):
    __slots__ = ("voter_id", "voter_directory_id", "endpoints", "k_raft_version_feature")
    FIELDS = (
        Field("voter_id", "int32", 0, 0),
        Field("voter_directory_id", "uuid", 0, 0),
        Field("endpoints", Endpoint, 0, 0, array=True),
        Field("k_raft_version_feature", KRaftVersionFeature, 0, 0),
    )

    def __init__(
        self,
        voter_id: int = 0,
        voter_directory_id: bytes = ZERO_UUID,
        endpoints: list[Endpoint] | None = None,
        k_raft_version_feature: KRaftVersionFeature | None = None,
    ) -> None:
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
        self.endpoints = [] if endpoints is None else endpoints
        self.k_raft_version_feature = (
            KRaftVersionFeature() if k_raft_version_feature is None else k_raft_version_feature
        )


class VotersRecord(Message):
    __slots__ = ("version", "voters")
    VERSIONS = (0, 0)
    FLEXIBLE = 0
    FIELDS = (
        Field("version", "int16", 0, 0),
        Field("voters", Voter, 0, 0, array=True),
    )

    def __init__(self, version: int = 0, voters: list[Voter] | None = None) -> None:
        self.version = version
        self.voters = [] if voters is None else voters
