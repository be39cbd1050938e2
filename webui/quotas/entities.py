"""Quota entities and keys in REST format, and their order in lists.

Used by webui.rest.client_quotas and this package. `{"user": "alice", "client-id": null}` in JSON is
`(("user", "alice"), ("client-id", None))` to control; null is the default entity.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from broker.control.commands import EntityPairs

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


def in_words(pairs: EntityPairs) -> str:
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
