"""Client quotas independent of HTTP: entities, and the command equivalent to an edit.

Used by webui.rest. `{"user": "alice", "client-id": null}` in JSON is `(("user", "alice"), ("client-id",
None))` to control; null is the default entity.

The console shows the command (kafka-configs.sh, and `weir quotas` for shadow mode) beside every edit, so
that a change can be scripted, reviewed or repeated on another cluster. This module only builds its text and
runs nothing.
"""

import shlex
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from broker.controller.commands import EntityPairs, QuotaAlteration, QuotaOp
from broker.controller.rows.client_endpoint import ClientEndpoint

ENTITY_TYPES: Final = ("user", "client-id", "ip")
LIMIT_KEYS: Final = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
)
ALL_KEYS: Final = (*LIMIT_KEYS, "connection_creation_rate")


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


def shell_command(endpoint: ClientEndpoint, edit: QuotaAlteration) -> str:
    """Return the command for all of `edit`: limits with Kafka's tool, shadow mode with Weir's."""
    commands = [kafka_configs(endpoint, edit.entity, edit.ops)]
    if edit.shadow is not None:
        words = ["weir", "quotas", "set"]
        for kind, name in edit.entity:
            words += [f"--{kind}-default"] if name is None else [f"--{kind}", name]
        commands.append(shlex.join([*words, "--shadow" if edit.shadow else "--enforce"]))
    return " && ".join(command for command in commands if command)


def plain(value: float) -> str:
    """Format without exponent and without a zero fraction: the tool accepts 1048576, not 1e6."""
    return str(int(value)) if value == int(value) else f"{value:.12f}".rstrip("0")
