"""Filters of DescribeClientQuotas, with Kafka's error messages. (Kafka: ClientQuotasImage)

Called by control for every interface. Matches entities; independent of their limits.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import NoReturn

from broker.errors import ApiError, ErrorCode
from broker.quotas.entity import CLIENT_ID, IP, USER, Entity


class MatchType(IntEnum):
    """How to match one part of an entity. Values are those of the wire protocol."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


@dataclass(frozen=True, slots=True)
class Component:
    """One part of a filter. `match_type` may be any number; `name` only with EXACT."""

    entity_type: str
    match_type: int
    name: str | None = None


class EntityFilter:
    """A filter all of whose components must match. A strict filter refuses entities with other parts."""

    __slots__ = ("_named", "_strict", "_types")

    def __init__(self, components: Iterable[Component], *, strict: bool) -> None:
        """Raises ApiError: UNSUPPORTED_VERSION for an unknown type, else INVALID_REQUEST."""
        self._strict = strict
        self._named: dict[str, str | None] = {}
        self._types: set[str] = set()
        for component in components:
            self._take(component)
        types = self._types | self._named.keys()
        if IP in types and len(types) > 1:
            _refuse(
                "Invalid entity filter component combination. IP filter component should not be used with "
                "user or clientId filter component."
            )

    def matches(self, entity: Entity) -> bool:
        parts = dict(entity.pairs)
        if self._strict and len(parts) != len(self._named) + len(self._types):
            return False
        return self._types <= parts.keys() and all(
            kind in parts and parts[kind] == name for kind, name in self._named.items()
        )

    def _take(self, component: Component) -> None:
        kind, name = component.entity_type, component.name
        if not kind:
            _refuse("Invalid empty entity type.")
        if kind in self._named or kind in self._types:
            _refuse(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in (USER, CLIENT_ID, IP):
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        match component.match_type:
            case MatchType.EXACT:
                if name is None:
                    _refuse("Request specified MATCH_TYPE_EXACT, but set match string to null.")
                self._named[kind] = name
            case MatchType.DEFAULT:
                if name is not None:
                    _refuse("Request specified MATCH_TYPE_DEFAULT, but also specified a match string.")
                self._named[kind] = None
            case MatchType.SPECIFIED:
                if name is not None:
                    _refuse("Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.")
                self._types.add(kind)
            case unknown:
                _refuse(f"Unknown match type {unknown}")


def _refuse(message: str) -> NoReturn:
    raise ApiError(ErrorCode.INVALID_REQUEST, message)
