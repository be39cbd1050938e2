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
    "delete_groups": (3, (Change("DeletableGroupResult", "error_message", _NULLABLE, after="error_code"),)),
    "txn_offset_commit": (
        6,
        (
            Change("TxnOffsetCommitRequestTopic", "topic_id", _UUID, replaces="name"),
            Change("TxnOffsetCommitResponseTopic", "topic_id", _UUID, replaces="name"),
        ),
    ),
}
"""By API: the version that follows kio's last one, and what it changes. (KIP-1242, KIP-1319)"""

APIS: Final[Mapping[int, tuple[str, Mapping[str, Structs]]]] = {
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
    changed_fields = list(fields.items())
    for change in changes:
        if change.struct == struct:
            names = [name for name, _ in changed_fields]
            at = names.index(change.after or change.replaces)
            changed_fields[at + bool(change.after) : at + 1] = [(change.name, change.field)]
    return dict(changed_fields)
