"""Quota entities and keys as the REST API writes them, and the order in which they are listed.

Used by webui.rest.client_quotas and its neighbours here. `{"user": "alice", "client-id": null}` in JSON is
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
    """In the order of ENTITY_TYPES, whatever order was sent."""
    return tuple((kind, entity[kind]) for kind in ENTITY_TYPES if kind in entity)


def json_of(pairs: EntityPairs) -> dict[str, str | None]:
    return dict(pairs)


def in_words(pairs: EntityPairs) -> str:
    """user alice, default client-id"""
    return ", ".join(f"default {kind}" if name is None else f"{kind} {name}" for kind, name in pairs)


@lru_cache(16_384)
def order_of(pairs: EntityPairs) -> tuple[tuple[int, bool, str], ...]:
    """Users before client ids before addresses; names in order, the default after them. Cached, as every look
    at ten thousand rules asks it of each.
    """
    return tuple((ENTITY_TYPES.index(kind), name is None, (name or "").casefold()) for kind, name in pairs)


def shape_of(pairs: EntityPairs) -> str:
    """Which kind of rule it is: "user", "client-id", "user+client-id" or "ip"."""
    return "+".join(kind for kind, _ in pairs)
