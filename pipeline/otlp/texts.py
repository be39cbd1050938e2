"""Attributes of OTLP as pairs of texts. For `points`, which calls this once for each different set."""

import json
from base64 import b64encode
from typing import Any

from opentelemetry.proto.common.v1.common_pb2 import AnyValue

Attributes = tuple[tuple[str, str], ...]


def attributes_of(attributes: Any) -> Attributes:
    """Return attributes in order of their names, the last of duplicates. Values are text, lists are JSON."""
    if len(attributes) < 2:
        return tuple([(each.key, _text(each.value)) for each in attributes])
    return tuple(sorted({each.key: _text(each.value) for each in attributes}.items()))


def _text(value: AnyValue) -> str:
    kind = value.WhichOneof("value")
    if kind == "string_value":
        return value.string_value
    if kind == "int_value":
        return str(value.int_value)
    plain = _plain(value)
    if plain is None or isinstance(plain, str):
        return plain or ""
    return json.dumps(plain, ensure_ascii=False)


def _plain(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "array_value":
        return [_plain(each) for each in value.array_value.values]
    if kind == "kvlist_value":
        return {each.key: _plain(each.value) for each in value.kvlist_value.values}
    found = getattr(value, kind)
    return b64encode(found).decode() if isinstance(found, bytes) else found
