"""Quota entities: a user, a client id, both, an address, or the default of any of these. (Kafka:
ClientQuotaEntity)

Built from the pairs of the wire protocol, the REST API and the metadata image. The default is a distinct
value, so a client named "<default>" does not match it.
"""

from collections.abc import Iterable
from enum import Enum
from typing import Final

import msgspec

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"


class Default(Enum):
    """The default entity: all users, client ids or addresses without a rule of their own."""

    DEFAULT = "<default>"

    def __repr__(self) -> str:
        return "DEFAULT"


DEFAULT: Final = Default.DEFAULT

Name = str | Default | None
"""One part of an entity: a name, the default, or None where the entity has no such part."""

EntityPairs = tuple[tuple[str, str | None], ...]
"""An entity as (type, name) pairs; the name None is the default. `broker.metadata.changes` has the same type.
"""


class Entity(msgspec.Struct, frozen=True):
    """An entity with at least one part. `client_quota_requests` refuses `ip` together with another part."""

    user: Name = None
    client_id: Name = None
    ip: Name = None

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str | None]]) -> "Entity":
        """Return the entity of valid, distinct pairs. Raises KeyError otherwise."""
        parts: dict[str, Name] = {USER: None, CLIENT_ID: None, IP: None}
        for kind, name in pairs:
            if parts[kind] is not None:
                raise KeyError(kind)
            parts[kind] = DEFAULT if name is None else name
        return cls(parts[USER], parts[CLIENT_ID], parts[IP])

    @property
    def pairs(self) -> EntityPairs:
        """Return the (type, name) pairs in the order user, client-id, ip."""
        parts = ((USER, self.user), (CLIENT_ID, self.client_id), (IP, self.ip))
        return tuple((kind, None if name is DEFAULT else name) for kind, name in parts if name is not None)

    def __str__(self) -> str:
        return " ".join(f"default {kind}" if name is None else f"{kind} {name}" for kind, name in self.pairs)


class TagGroup(msgspec.Struct, frozen=True):
    """All clients for which a quota callback returns the same tags (`pairs`); see `callback_usage`."""

    pairs: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return " ".join(f"{name} {value}" for name, value in self.pairs)


class BrokerWide(msgspec.Struct, frozen=True):
    """All clients of the broker: `key` is the configuration key of the limit, `what` its description."""

    key: str
    what: str

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        return (("broker quota", self.what),)

    def __str__(self) -> str:
        return f"broker quota: {self.what}"


Governing = Entity | TagGroup | BrokerWide
"""The entity that a sensor's limit applies to: the matching rule, the callback's group, or the whole broker.
"""
