"""The most expensive requests of every API: each array of each request as long as the codec takes it.

Made from the schemas, so that an API that is added is attacked too. Used by the hostile-latency suite.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from broker.api.registry import Api
from broker.protocol import codec
from broker.protocol.compile_decode import in_version
from broker.protocol.schema import FIXED, Field, Struct

KNOWN: Final = {
    **dict.fromkeys(("topic", "topic_name", "name", "key", "resource_name", "topics"), "events"),
    "entity_type": "client-id",
    "protocol_type": "consumer",
    "group_id": "group",
    "mechanism": "PLAIN",
}
"""Texts that mean something to the broker."""

NUMBERS: Final = {
    "resource_type": 2,
    "session_timeout_ms": 10_000,
    "rebalance_timeout_ms": 10_000,
    "acks": -1,
    "timeout_ms": 1_000,
    "max_bytes": 1 << 20,
    "partition_max_bytes": 1 << 20,
    "num_partitions": 1,
    "replication_factor": 1,
    "iterations": 4096,
    "current_leader_epoch": -1,
    "session_epoch": -1,
    "replica_id": -1,
    "generation_id": -1,
    "generation_id_or_member_epoch": -1,
    "component_type": 2,
    "match_type": 0,
    "timestamp": -1,
}


class Worst(NamedTuple):
    """`body` says which array is long and what its elements name."""

    api: Api
    version: int
    body: str
    message: Any


def worst_requests(api: Api, most: int) -> Iterator[Worst]:
    """With `most` elements in all arrays together."""
    version = api.max_version
    kind = codec.request_class(api.key)
    for path in _arrays(kind, version):
        for style in ("known", "unknown"):
            maker = _Maker(version, path, style == "unknown")
            maker.count = max(1, most // maker.weight(kind))
            yield Worst(api, version, f"{maker.count:,} {style} {'.'.join(path)}", maker.make(kind))


def _arrays(kind: type[Struct], version: int, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for field in in_version(kind, version):
        path = (*above, field.name)
        if field.array:
            yield path
        if not isinstance(field.type, str):
            yield from _arrays(field.type, version, path)


class _Maker:
    """Structs whose arrays have one element each, but for the one at `path`."""

    def __init__(self, version: int, path: tuple[str, ...], distinct: bool) -> None:
        self.count = 1
        self._version = version
        self._path = path
        self._distinct = distinct
        self._made = 0

    def weight(self, kind: type[Struct]) -> int:
        """How many elements one element of the long array has in it, itself and its tagged fields counted,
        because the codec counts them too.
        """
        for name in self._path:
            field = next(field for field in kind.FIELDS if field.name == name)
            if isinstance(field.type, str):
                return 1
            kind = field.type
        return 1 + self._inner(kind)

    def _inner(self, kind: type[Struct]) -> int:
        return sum(
            int(field.array)
            + int(field.tag is not None)
            + (0 if isinstance(field.type, str) else self._inner(field.type))
            for field in in_version(kind, self._version)
        )

    def make(self, kind: type[Struct], above: tuple[str, ...] = ()) -> Any:
        made = kind()
        for field in in_version(kind, self._version):
            path = (*above, field.name)
            if field.array:
                count = self.count if path == self._path else 1
                value: Any = [self._value(field, path) for _ in range(count)]
            elif field.nullable is not None and not isinstance(field.type, str) and not self._leads_to(path):
                value = None
            else:
                value = self._value(field, path)
            setattr(made, field.name, value)
        return made

    def _leads_to(self, path: tuple[str, ...]) -> bool:
        return self._path[: len(path)] == path

    def _value(self, field: Field, path: tuple[str, ...]) -> Any:
        if not isinstance(field.type, str):
            return self.make(field.type, path)
        self._made += 1
        if field.type == "string":
            known = KNOWN.get(field.name, "1")
            return f"{known}-{self._made}" if self._distinct and field.name != "entity_type" else known
        if field.type == "uuid":
            return self._made.to_bytes(16, "big") if self._distinct else bytes(16)
        if field.type in ("bytes", "records"):
            return b"\0" * 8
        if field.type == "bool":
            return False
        if field.type == "float64":
            return 1e6
        if field.name in NUMBERS:
            return NUMBERS[field.name]
        return self._made % 1000 if self._distinct and FIXED[field.type] == "i" else 0
