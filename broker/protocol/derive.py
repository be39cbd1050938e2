"""Generates the modules in messages/ from kio's schemas: `python -m broker.protocol.derive [--check]`.

Run by a developer after a kio upgrade; tests/protocol/test_derive.py compares the result with the committed
files. The only module of the broker that imports kio; derive_text.py writes the text.

Differences from kio: one class per struct instead of one per struct and version; timedelta and datetime
fields become plain milliseconds and regain the `_ms` of their Kafka name; error codes become int, UUIDs 16
raw bytes; two structs of one API with the same name but different layouts get the prefix `Request` or
`Response`.
"""

import argparse
import dataclasses
import datetime
import enum
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import kio
from kio.schema.index import api_key_map, schema_name_map
from kio.serial._introspect import classify_field, is_optional

from broker.protocol.derive_text import UNSET, Schema, Seen, render_index, render_module

MESSAGES = Path(__file__).parent / "messages"
HEADER = "Derived from kio {version} by `python -m broker.protocol.derive`; edits are lost."
MILLISECONDS = {"timedelta_i32": "int32", "timedelta_i64": "int64", "datetime_i64": "int64"}
WIRE_TYPES = MILLISECONDS | {"error_code": "int16"}
KINDS = ("request", "response", "data")
SERVED = frozenset(
    (
        "produce",
        "fetch",
        "list_offsets",
        "metadata",
        "offset_commit",
        "offset_fetch",
        "find_coordinator",
        "join_group",
        "heartbeat",
        "leave_group",
        "sync_group",
        "describe_groups",
        "list_groups",
        "sasl_handshake",
        "api_versions",
        "create_topics",
        "delete_topics",
        "delete_records",
        "init_producer_id",
        "offset_for_leader_epoch",
        "describe_configs",
        "alter_configs",
        "alter_replica_log_dirs",
        "describe_log_dirs",
        "sasl_authenticate",
        "create_partitions",
        "delete_groups",
        "incremental_alter_configs",
        "alter_partition_reassignments",
        "list_partition_reassignments",
        "offset_delete",
        "describe_client_quotas",
        "alter_client_quotas",
        "describe_user_scram_credentials",
        "alter_user_scram_credentials",
        "describe_cluster",
        "describe_producers",
        "get_telemetry_subscriptions",
        "push_telemetry",
        "list_config_resources",
        "describe_topic_partitions",
        "consumer_protocol_assignment",
        "consumer_protocol_subscription",
    )
)
"""The schemas with a module: the served APIs in key order, and the payloads of JoinGroup and SyncGroup.

To add an API, name it here and derive its module.
"""
EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m broker.protocol.derive", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 if a file would change")
    check = parser.parse_args(arguments).check
    derived = derive()
    stale = [name for name, text in derived.items() if _read(MESSAGES / name) != text]
    orphans = sorted({path.name for path in MESSAGES.glob("*.py")} - derived.keys())
    for name in stale:
        if not check:
            (MESSAGES / name).write_text(derived[name], encoding="utf-8")
        sys.stdout.write(f"{'differs' if check else 'written'}: {name}\n")
    for name in orphans:
        if not check:
            (MESSAGES / name).unlink()
        sys.stdout.write(f"{'does not belong' if check else 'removed'}: {name}\n")
    return 1 if check and (stale or orphans) else 0


def derive() -> dict[str, str]:
    """Return the text of every file in messages/, by file name."""
    header = HEADER.format(version=kio.__version__)
    keys = {name: key for key, name in api_key_map.items()}
    files: dict[str, str] = {}
    apis: list[str] = []
    data: list[str] = []
    for module, versions in sorted(
        schema_name_map.items(), key=lambda item: (keys.get(item[0], 999), item[0])
    ):
        if module not in SERVED:
            continue
        schemas = {kind: schema for kind in KINDS if (schema := _read_schema(versions, kind))}
        if "request" in schemas:
            apis.append(f'{keys[module]}: ("{module}", "{schemas["request"].name.removesuffix("Request")}"),')
            _separate_names(schemas["request"], schemas["response"])
        else:
            data.append(f'"{module}": "{schemas["data"].name}",')
        files[f"{module}.py"] = render_module(module, keys.get(module), schemas, header)
    files["__init__.py"] = render_index(apis, data, header)
    return files


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


def _read_schema(versions: Mapping[int, Mapping[Any, str]], kind: str) -> Schema | None:
    structs: dict[str, dict[int, dict[str, Seen]]] = {}
    name = ""
    flexible: list[int] = []
    for version in sorted(versions):
        for entity_type, path in versions[version].items():
            if entity_type.name == kind:
                module, _, name = path.partition(":")
                entity = getattr(import_module(module), name)
                _collect(entity, version, structs)
                if entity.__flexible__:
                    flexible.append(version)
    if not structs:
        return None
    return Schema(name, min(flexible, default=None), structs)


def _collect(entity: Any, version: int, structs: dict[str, dict[int, dict[str, Seen]]]) -> None:
    fields: dict[str, Seen] = {}
    for field in dataclasses.fields(entity):
        found = classify_field(field)
        kafka_type: str | None = field.metadata.get("kafka_type")
        if kafka_type is None:
            _collect(found.type_, version, structs)
        name = f"{field.name}_ms" if kafka_type in MILLISECONDS else field.name
        # kio has None for the zero UUID and for time -1; neither is null on the wire.
        nullable = is_optional(field) and kafka_type != "datetime_i64"
        fields[name] = Seen(
            WIRE_TYPES.get(kafka_type, kafka_type) if kafka_type else found.type_.__name__,
            found.is_array,
            nullable and (kafka_type != "uuid" or (found.is_array and _array_is_optional(field))),
            field.metadata.get("tag"),
            _plain_default(field, kafka_type, is_optional(field)),
        )
    structs.setdefault(entity.__name__, {})[version] = fields


def _array_is_optional(field: Any) -> bool:
    return type(None) in getattr(field.type, "__args__", ())


def _plain_default(field: Any, kafka_type: str | None, optional: bool) -> object:
    default = field.default
    if kafka_type == "datetime_i64" and (default is None or (default is UNSET and optional)):
        return -1
    if isinstance(default, datetime.datetime):
        default -= EPOCH
    if isinstance(default, datetime.timedelta):
        return default // datetime.timedelta(milliseconds=1)
    if isinstance(default, enum.Enum):
        return default.value
    if kafka_type == "uuid" and default is None:
        return UNSET
    return None if dataclasses.is_dataclass(default) else default


def _separate_names(request: Schema, response: Schema) -> None:
    """Rename, in both schemas, structs with one name but two layouts, and their nested structs."""
    shared = request.structs.keys() & response.structs.keys()
    differing = {name for name in shared if request.structs[name] != response.structs[name]}
    while True:
        holders = {
            name
            for name in shared - differing
            if any(
                field.type in differing
                for fields in request.structs[name].values()
                for field in fields.values()
            )
        }
        if not holders:
            break
        differing |= holders
    for schema, prefix in ((request, "Request"), (response, "Response")):
        renamed = {
            prefix + name if name in differing else name: {
                version: {
                    field: seen._replace(type=prefix + seen.type) if seen.type in differing else seen
                    for field, seen in fields.items()
                }
                for version, fields in versions.items()
            }
            for name, versions in schema.structs.items()
        }
        schema.structs.clear()
        schema.structs.update(renamed)


if __name__ == "__main__":
    sys.exit(main())
