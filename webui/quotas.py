"""Client quotas independent of HTTP: entities, their ids, and the command equivalent to an edit.

Used by webui.rest. `{"user": "alice", "client-id": null}` in JSON is `(("user", "alice"), ("client-id",
None))` to control; null is the default entity.

The id of a rule in a path is `user=alice`, `user=alice,client-id` or `ip=10.0.0.7`. It is derived from the
entity, so a tool knows the id of a rule before it creates it. A component without `=` is the default entity.
Bytes that a path could not hold as they are, and the escape itself, are `~` and two hexadecimal digits, so
that an id is the same with and without percent-encoding.

The console shows the command (kafka-configs.sh, and `weir quotas` for shadow mode and temporary limits)
beside every edit, so that a change can be scripted, reviewed or repeated on another cluster. This module only
builds its text and runs nothing.
"""

import shlex
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from msgspec.structs import replace

from broker.common.temporary_limits import TemporaryLimit, times_of
from broker.controller.commands import EntityPairs, QuotaAlteration, QuotaOp
from broker.controller.rows.broker import ServerInfo
from broker.controller.rows.client_endpoint import ClientEndpoint
from webui.path_names import escaped, unescaped
from webui.schema import Record, Text

ENTITY_TYPES: Final = ("user", "client-id", "ip")
LIMIT_KEYS: Final = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
)
ALL_KEYS: Final = (*LIMIT_KEYS, "connection_creation_rate")

LONGEST_NAME: Final = 1_024
"""Maximum length of a quota entity's name in characters; control rejects longer names from any origin."""

ENTITY: Final = Record(
    {kind: Text(max_length=LONGEST_NAME, nullable=True) for kind in ENTITY_TYPES},
    optional=frozenset(ENTITY_TYPES),
    min_properties=1,
    title="Entity",
)

ANY_ENTITY: Final = Record(ENTITY.fields, optional=ENTITY.optional)
"""An entity, or {} where a quota callback decides."""


def pairs_of(entity: Mapping[str, str | None]) -> EntityPairs:
    """Convert an entity from JSON; sorts its parts by ENTITY_TYPES."""
    return tuple((kind, entity[kind]) for kind in ENTITY_TYPES if kind in entity)


def json_of(pairs: EntityPairs) -> dict[str, str | None]:
    return dict(pairs)


def entity_text(pairs: EntityPairs) -> str:
    """Format an entity as text: "user alice, default client-id"."""
    return ", ".join(f"default {kind}" if name is None else f"{kind} {name}" for kind, name in pairs)


@lru_cache(16_384)
def order_of(pairs: EntityPairs) -> tuple[tuple[int, bool, str], ...]:
    """Return the sort key: users before client ids before addresses; names in order, then the default.
    Cached, because each listing of ten thousand rules calls it for every rule.
    """
    return tuple((ENTITY_TYPES.index(kind), name is None, (name or "").casefold()) for kind, name in pairs)


def shape_of(pairs: EntityPairs) -> str:
    """Return the kind of rule: "user", "client-id", "user+client-id" or "ip"."""
    return "+".join(kind for kind, _ in pairs)


LONGEST_ID: Final = 16_384
"""The address of a request cannot be longer. Only two names of about a thousand characters that are escaped
have a longer id.
"""

_PLAIN: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._:@")


class BadId(ValueError):  # noqa: N818 - describes the input
    """Not the id of any entity. The message is for the client."""


def id_of(entity: EntityPairs) -> str:
    """Return the id of an entity; its parts must be in the order of ENTITY_TYPES."""
    return ",".join(kind if name is None else f"{kind}={_escaped(name)}" for kind, name in entity)


def entity_of(text: str) -> EntityPairs:
    """Return the entity of an id. Raises BadId, also for a spelling that `id_of` does not use."""
    entity: EntityPairs = tuple(_component(part) for part in text.split(","))
    kinds = [kind for kind, _ in entity]
    if any(kind not in ENTITY_TYPES for kind in kinds) or len(set(kinds)) < len(kinds):
        raise BadId(
            f"must name each of {', '.join(ENTITY_TYPES)} at most once, as in user=alice,client-id=app"
        )
    if id_of(entity) != text or kinds != sorted(kinds, key=ENTITY_TYPES.index):
        raise BadId(
            "must be the `id` of a rule: user before client-id, and other characters as ~ and two hex digits"
        )
    return entity


def _component(part: str) -> tuple[str, str | None]:
    kind, equals, name = part.partition("=")
    if not equals:
        return kind, None
    if not name:
        raise BadId("must not have an empty name; without `=` a component is the default")
    try:
        return kind, unescaped(name)
    except ValueError:
        raise BadId("must have names in UTF-8") from None


def _escaped(name: str) -> str:
    return "".join(each if each in _PLAIN else escaped(each) for each in name)


LONG_MAX: Final = 2**63 - 1

TOOL_TYPES: Final = {"user": "users", "client-id": "clients", "ip": "ips"}


def kafka_configs(endpoint: ClientEndpoint, entity: EntityPairs, ops: Iterable[QuotaOp]) -> str:
    """Return one line for a POSIX shell, quoted where necessary; empty if there are no operations."""
    set_ops = [(op.key, op.value) for op in ops if op.value is not None]
    removed = [op.key for op in ops if op.value is None]
    if not set_ops and not removed:
        return ""
    words = [*endpoint.tool("kafka-configs.sh"), "--alter"]
    if set_ops:
        words += ["--add-config", ",".join(f"{key}={plain(value)}" for key, value in set_ops)]
    if removed:
        words += ["--delete-config", ",".join(removed)]
    for kind, name in entity:
        words += ["--entity-type", TOOL_TYPES[kind]]
        words += ["--entity-default"] if name is None else ["--entity-name", name]
    return shlex.join(words)


def limit_in_json(value: float) -> float:
    """Return a limit as requests may give it: a whole number as int, so that JSON shows no fraction, and
    Long.MAX_VALUE for 2^63, which is that value as a double.
    """
    if value == 2.0**63:
        return LONG_MAX
    return int(value) if float(value).is_integer() else value


def shell_command(info: ServerInfo, edit: QuotaAlteration) -> str:
    """Return the command for all of `edit`: limits with Kafka's tool, shadow mode and temporary limits with
    Weir's.
    """
    commands = [kafka_configs(info.endpoint, edit.entity, edit.ops)]
    if edit.shadow is not None:
        commands.append(_weir_quotas(info, "set", edit.entity, ["--shadow" if edit.shadow else "--enforce"]))
    ended = [op.key for op in edit.temporary if op.limit is None]
    if ended:
        commands.append(_weir_quotas(info, "remove", edit.entity, ["--temporary", *ended]))
    by_times: dict[TemporaryLimit, list[str]] = {}
    for op in edit.temporary:
        if op.limit is not None:
            times = replace(op.limit, value=0.0)
            by_times.setdefault(times, []).append(f"{op.key}={plain(op.limit.value)}")
    for times, values in by_times.items():
        commands.append(_weir_quotas(info, "set", edit.entity, [*values, *_time_options(times)]))
    return " && ".join(command for command in commands if command)


def _weir_quotas(info: ServerInfo, verb: str, entity: EntityPairs, more: Iterable[str]) -> str:
    """The console is always named: the shell's WEIR_CONSOLE may be another broker's."""
    where = ["--console", info.console.rstrip("/")] if info.console else []
    words = ["weir", "quotas", *where, verb]
    for kind, name in entity:
        words += [f"--{kind}-default"] if name is None else [f"--{kind}", name]
    return shlex.join([*words, *more])


def _time_options(limit: TemporaryLimit) -> list[str]:
    times = times_of(limit)
    words = [word for name in ("from", "until") if name in times for word in (f"--{name}", times[name])]
    zone = f" {times['zone']}" if times.get("zone", "UTC") != "UTC" else ""
    return words + [word for window in times.get("windows", ()) for word in ("--weekly", f"{window}{zone}")]


def plain(value: float) -> str:
    """Format without exponent and without a zero fraction: the tool accepts 1048576, not 1e6."""
    return str(int(value)) if value == int(value) else f"{value:.12f}".rstrip("0")
