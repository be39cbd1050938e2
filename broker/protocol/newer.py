"""The versions and APIs of Kafka 4.4 that kio does not know: `derive` adds them to kio's schemas.

Remove a line when kio has its version: `derive` raises ValueError for a version that exists.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple


class FieldVersion(NamedTuple):
    """A field in one version of a schema. `default` is None if the type's own default applies."""

    type: str
    array: bool = False
    nullable: bool = False
    tag: int | None = None
    default: object = None


class Change(NamedTuple):
    """What a version changes in a struct of the version before: the field `name` is put in behind the field
    `after`, or instead of `replaces`.
    """

    struct: str
    name: str
    field: FieldVersion
    after: str = ""
    replaces: str = ""


Structs = Mapping[str, Mapping[str, FieldVersion]]
"""The fields of each struct by its name, the top-level struct last."""

_STRING: Final = FieldVersion("string")
_NULLABLE: Final = FieldVersion("string", nullable=True)
_STRINGS: Final = FieldVersion("string", array=True)
_BOOL: Final = FieldVersion("bool")
_INT8: Final = FieldVersion("int8")
_INT16: Final = FieldVersion("int16")
_INT32: Final = FieldVersion("int32")
_UUID: Final = FieldVersion("uuid")

VERSIONS: Final[Mapping[str, tuple[int, tuple[Change, ...]]]] = {
    "api_versions": (
        5,
        (
            Change("ApiVersionsRequest", "cluster_id", _NULLABLE, after="client_software_version"),
            Change("ApiVersionsRequest", "node_id", FieldVersion("int32", default=-1), after="cluster_id"),
        ),
    ),
    "streams_group_heartbeat": (
        1,
        (
            Change(
                "StreamsGroupHeartbeatResponse",
                "acceptable_recovery_lag",
                FieldVersion("int64", default=-1),
                after="task_offset_interval_ms",
            ),
            Change(
                "StreamsGroupHeartbeatResponse", "topology_description_required", _BOOL, after="warmup_tasks"
            ),
        ),
    ),
    "streams_group_describe": (
        1,
        (
            Change(
                "StreamsGroupDescribeRequest",
                "include_topology_description",
                _BOOL,
                after="include_authorized_operations",
            ),
            Change(
                "DescribedGroup",
                "topology_description",
                FieldVersion("TopologyDescription", nullable=True),
                after="authorized_operations",
            ),
            Change("DescribedGroup", "topology_description_status", _INT8, after="topology_description"),
            Change("DescribedGroup", "assignor_name", _NULLABLE, after="topology_description_status"),
        ),
    ),
    "delete_groups": (3, (Change("DeletableGroupResult", "error_message", _NULLABLE, after="error_code"),)),
    "txn_offset_commit": (
        6,
        (
            Change("TxnOffsetCommitRequestTopic", "topic_id", _UUID, replaces="name"),
            Change("TxnOffsetCommitResponseTopic", "topic_id", _UUID, replaces="name"),
        ),
    ),
}
"""By API: the version that follows kio's last one, and what it changes. (KIP-1242, KIP-1319, KIP-1331,
KIP-1357)
"""

_DESCRIPTION: Final[Structs] = {
    "TopologyDescriptionNode": {
        "name": _STRING,
        "node_type": _INT8,
        "source_topics": _STRINGS,
        "sink_topic": _NULLABLE,
        "stores": _STRINGS,
        "successors": _STRINGS,
    },
    "TopologyDescriptionSubtopology": {
        "subtopology_id": _STRING,
        "nodes": FieldVersion("TopologyDescriptionNode", array=True),
    },
    "TopologyDescriptionGlobalStore": {
        "source": FieldVersion("TopologyDescriptionNode"),
        "processor": FieldVersion("TopologyDescriptionNode"),
    },
    "TopologyDescription": {
        "subtopologies": FieldVersion("TopologyDescriptionSubtopology", array=True),
        "global_stores": FieldVersion("TopologyDescriptionGlobalStore", array=True),
    },
}

ADDED: Final[Mapping[str, Mapping[str, Structs]]] = {"streams_group_describe": {"response": _DESCRIPTION}}
"""By API and kind of message: the structs that a version of VERSIONS adds."""

RENAMED: Final[Mapping[tuple[str, str], str]] = {
    ("StreamsGroupHeartbeatResponse", "acceptable_recovery_lag"): "acceptable_recovery_lag_legacy"
}
"""By struct and kio's name: the name of a field that ends with kio's last version, because a version of
VERSIONS has another field of the name.
"""

APIS: Final[Mapping[int, tuple[str, Mapping[str, Structs]]]] = {
    93: (
        "streams_group_topology_description_update",
        {
            "request": {
                **_DESCRIPTION,
                "StreamsGroupTopologyDescriptionUpdateRequest": {
                    "group_id": _STRING,
                    "member_id": _STRING,
                    "topology_epoch": _INT32,
                    "topology_description": FieldVersion("TopologyDescription"),
                },
            },
            "response": {
                "StreamsGroupTopologyDescriptionUpdateResponse": {
                    "throttle_time_ms": _INT32,
                    "error_code": _INT16,
                    "error_message": _NULLABLE,
                }
            },
        },
    ),
    94: (
        "unregister_controller",
        {
            "request": {"UnregisterControllerRequest": {"controller_id": _INT32}},
            "response": {
                "UnregisterControllerResponse": {
                    "throttle_time_ms": _INT32,
                    "error_code": _INT16,
                    "error_message": _NULLABLE,
                }
            },
        },
    ),
}
"""By key: the name of an API, and version 0 of its requests and responses, which is flexible."""


def changed(
    struct: str, fields: Mapping[str, FieldVersion], changes: tuple[Change, ...]
) -> dict[str, FieldVersion]:
    """Return the fields of a struct in the version that makes these changes."""
    ended = {new for (of, _), new in RENAMED.items() if of == struct}
    changed_fields = [(name, field) for name, field in fields.items() if name not in ended]
    for change in changes:
        if change.struct == struct:
            names = [name for name, _ in changed_fields]
            at = names.index(change.after or change.replaces)
            changed_fields[at + bool(change.after) : at + 1] = [(change.name, change.field)]
    return dict(changed_fields)
