"""Whom a quota is for: a user, a client-id, both, an address, or the default of any of these. (Kafka:
ClientQuotaEntity)

Built from the pairs of the wire, the REST API and the metadata image. The default is a value of its own, so a
client that calls itself "<default>" is only that client.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"


class Default(Enum):
    """Stands for everybody who has no rule of their own."""

    DEFAULT = "<default>"

    def __repr__(self) -> str:
        return "DEFAULT"


DEFAULT: Final = Default.DEFAULT

Name = str | Default | None
"""One part of an entity: a name, the default, or None where the entity has no such part."""

EntityPairs = tuple[tuple[str, str | None], ...]
"""An entity as (type, name) pairs, where the name None is the default. The same shape as control's."""


@dataclass(frozen=True, slots=True)
class Entity:
    """At least one part is given; `ip` never together with the others (`alteration` sees to that)."""

    user: Name = None
    client_id: Name = None
    ip: Name = None

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str | None]]) -> "Entity":
        """From pairs whose types are known to be valid and distinct; KeyError otherwise."""
        parts: dict[str, Name] = {USER: None, CLIENT_ID: None, IP: None}
        for kind, name in pairs:
            if parts[kind] is not None:
                raise KeyError(kind)
            parts[kind] = DEFAULT if name is None else name
        return cls(parts[USER], parts[CLIENT_ID], parts[IP])

    @property
    def pairs(self) -> EntityPairs:
        """As pairs, in the order user, client-id, ip."""
        parts = ((USER, self.user), (CLIENT_ID, self.client_id), (IP, self.ip))
        return tuple((kind, None if name is DEFAULT else name) for kind, name in parts if name is not None)

    def __str__(self) -> str:
        return " ".join(f"default {kind}" if name is None else f"{kind} {name}" for kind, name in self.pairs)


@dataclass(frozen=True, slots=True)
class TagGroup:
    """Everybody for whom a quota callback answers the same tags, which are `pairs`; see `custom`."""

    pairs: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return " ".join(f"{name} {value}" for name, value in self.pairs)


@dataclass(frozen=True, slots=True)
class BrokerWide:
    """All clients of the broker together: `key` is the configuration key that limits them, `what` it in
    words.
    """

    key: str
    what: str

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        return (("broker quota", self.what),)

    def __str__(self) -> str:
        return f"broker quota: {self.what}"


Governing = Entity | TagGroup | BrokerWide
"""Whom the limit of a sensor is for: the rule that matched, the callback's group, or the whole broker."""
