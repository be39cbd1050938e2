"""Reads and writes a file of quotas as YAML.

    quotas:
      - entity: {user: alice, client-id: null}      # null is the default of its type
        limits: {producer_byte_rate: 1000000}
        shadow: true                                # measured, not enforced

Used by the command line. Reads only YAML 1.2's plain values: `yes`, `010` and `2026-01-01` are names as
written. Refuses a duplicate key, where YAML libraries take the last one. The broker validates the quotas.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, cast

import yaml


class NoQuotasError(ValueError):
    """The file is not readable as quotas; the message names the file, the place and the reason."""


def read(file: Path) -> dict[str, Any]:
    """Return the file as JSON values. Raises NoQuotasError."""
    try:
        document = yaml.load(file.read_bytes(), _Loader)  # noqa: S506 - derived from SafeLoader and stricter
    except OSError as error:
        raise NoQuotasError(f"{file} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise NoQuotasError(f"{file} is not YAML: {error}") from error
    except RecursionError as error:
        raise NoQuotasError(f"{file} is nested too deeply") from error
    if not isinstance(document, dict) or "quotas" not in document:
        raise NoQuotasError(f"{file} has no list `quotas`")
    return document


def write(document: Mapping[str, Any]) -> str:
    """Return YAML with the quotes that every YAML reader needs to read names as text."""
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)


class _Loader(yaml.SafeLoader):
    """Reads null, true, false and JSON's numbers; everything else is text. Each key may occur once."""

    yaml_constructors: ClassVar[dict[str | None, Any]] = {
        tag: constructor
        for tag, constructor in yaml.SafeLoader.yaml_constructors.items()
        if tag is None or tag.rpartition(":")[2] in ("null", "bool", "int", "float", "str", "seq", "map")
    }

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.MarkedYAMLError(
                problem="found an alias; aliases are not supported",
                problem_mark=cast(Any, self).peek_event().start_mark,
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag != "tag:yaml.org,2002:str":
                raise yaml.MarkedYAMLError(
                    problem="found a key that is not text", problem_mark=key.start_mark
                )
            if key.value in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"found the key {key.value} a second time", problem_mark=key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {}
_NUMBER: Final = r"-?(?:0|[1-9][0-9]*)"
for _tag, _pattern, _first in (
    ("null", r"(?:~|null|Null|NULL|)", ["~", "n", "N", ""]),
    ("bool", r"(?:true|True|TRUE|false|False|FALSE)", list("tTfF")),
    ("int", _NUMBER, list("-0123456789")),
    ("float", rf"{_NUMBER}(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?", list("-0123456789")),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"{_pattern}\Z"), _first)
