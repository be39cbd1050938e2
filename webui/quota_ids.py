"""The id of a quota rule in a path: `user=alice`, `user=alice,client-id`, `ip=10.0.0.7`.

It is derived from the entity, so a tool knows the id of a rule before it creates it. A component without `=`
is the default entity. Bytes that a path could not hold as they are, and the escape itself, are `~` and two
hexadecimal digits, so that an id is the same with and without percent-encoding.
"""

from typing import Final

from broker.controller.commands import EntityPairs
from webui.path_names import escaped, unescaped
from webui.quotas import ENTITY_TYPES

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
