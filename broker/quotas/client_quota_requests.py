"""AlterClientQuotas and DescribeClientQuotas: validation, warnings and filters, with Kafka's error messages.
(Kafka: ClientQuotaControlManager, ClientQuotasImage, KIP-546)

Called by control for every interface, for an alteration before anything is written. Control itself checks
that a removed key exists.
"""

from collections.abc import Iterable
from enum import IntEnum
from ipaddress import ip_address
from math import isfinite
from sys import float_info
from typing import Final, NoReturn

import msgspec

from broker.common.errors import ApiError, ErrorCode
from broker.quotas.connection_rates import WHOLE_ADDRESS, canonical_address, counted_address
from broker.quotas.entity import CLIENT_ID, IP, USER, Entity, EntityPairs
from broker.quotas.kinds import CLIENT_KEYS, IP_KEYS, QuotaKey, ValueType

FRACTION: Final = 1e-6
"""Largest fractional part of a value of an integral key."""

LARGEST: Final = {ValueType.INT: 2.0**31 - 1, ValueType.LONG: 2.0**63, ValueType.DOUBLE: float_info.max}
"""The largest value of a type. That of LONG is what Long.MAX_VALUE is as a double, as clients send it."""


def validate_alteration(
    pairs: EntityPairs, ops: Iterable[tuple[str, float | None]], ipv6_prefix: int = WHOLE_ADDRESS
) -> Entity:
    """Return the entity that `ops`, pairs of key and value (None removes), apply to.

    `ipv6_prefix` is the prefix length by which addresses are counted; a limit names the prefix's first
    address. Raises ApiError INVALID_REQUEST; no part of the entry may be applied then.
    """
    entity = validate_entity(pairs)
    keys = CLIENT_KEYS if entity.ip is None else IP_KEYS
    seen: set[str] = set()
    for key, value in ops:
        if key in seen:
            _refuse(f"Duplicate quota key {key} not updating quota for this entity {entity}")
        seen.add(key)
        # Kafka accepts a removal of any key: an unknown key has no value to remove.
        if value is not None:
            if isinstance(entity.ip, str):
                _validate_spelling(entity.ip, ipv6_prefix)
            if key not in keys:
                _refuse(f"Invalid configuration key {key}{_REJECTED.get(key, '')}")
            _validate_value(keys[key], value)
    return entity


_REJECTED: Final = dict.fromkeys(
    ("max.connection.creation.rate.per.ip", "max.connection.creation.rate.per.ip.overrides"),
    " (KIP-612 rejected this key: set connection_creation_rate of an ip entity)",
)
"""What to add for keys that documents name and no Kafka has."""


def validate_entity(pairs: EntityPairs) -> Entity:
    """Return the entity that `pairs` name. Raises ApiError INVALID_REQUEST."""
    if not pairs:
        _refuse("Invalid empty client quota entity")
    parts: dict[str, str | None] = {}
    for kind, name in pairs:
        if kind in parts:
            _refuse(f"Invalid client quota entity, duplicate entity entry {kind}")
        if kind not in (USER, CLIENT_ID, IP):
            _refuse(f"Unhandled client quota entity type: {kind}")
        if name == "":
            _refuse(f"Empty {kind} not supported")
        parts[kind] = name
    if IP in parts:
        if len(parts) > 1:
            _refuse(
                "Invalid quota entity combination, IP entity should not be combined with User or ClientId"
            )
        _validate_address(parts[IP])
    return Entity.of(pairs)


def _validate_address(name: str | None) -> None:
    """Refuse host names, which Kafka resolves. None is the default entity."""
    if name is not None:
        try:
            ip_address(name)
        except ValueError:
            _refuse(f"{name} is not a valid IP or resolvable host.")


def _validate_spelling(address: str, ipv6_prefix: int) -> None:
    """Refuse other spellings of an address: two limits for one address would conflict. Kafka accepts them."""
    whole = canonical_address(address)
    written = counted_address(whole, ipv6_prefix)
    if address == written:
        return
    why = f" (all addresses of its /{ipv6_prefix} count as one)" if written != whole else ""
    _refuse(f"Invalid ip {address}, expected {written}{why}")


def _validate_value(key: QuotaKey, value: float) -> None:
    if not isfinite(value):
        _refuse(f"Quota {key.name} must be a finite number")
    if value <= 0:
        _refuse(f"Quota {key.name} must be greater than 0")
    if value > LARGEST[key.type]:
        article = "an" if key.type is ValueType.INT else "a"
        _refuse(f"Proposed value for {key.name} is too large for {article} {key.type.value}.")
    # Kafka accepts 0.000001, which is 0 as an integer.
    if key.type is not ValueType.DOUBLE and (value < 1 or value % 1.0 > FRACTION):
        _refuse(f"{key.name} cannot be a fractional value.")


WHOLE_THREAD: Final = 100.0
"""request_percentage of the whole time of the broker's one thread. In Kafka each network and handler thread
adds 100.
"""


def warnings_about(
    limits: Iterable[tuple[str, float | None]], gateways: int | None = None
) -> tuple[str, ...]:
    """Return a warning for each (key, value) that takes no effect. A removal (None) causes none. `gateways`
    is the number of those that hold the limits together; None for a server that holds them alone.
    """
    most = WHOLE_THREAD * (gateways or 1)
    if gateways is None:
        why = f"never takes effect: one thread serves all requests, so no client can use more than {most:g}"
    else:
        present = "there is one gateway" if gateways == 1 else f"there are {gateways} gateways"
        why = f"takes no effect while {present}: each has one thread, so no client can use more than {most:g}"
    return tuple(
        f"request_percentage={value:g} {why}"
        for key, value in limits
        if key == "request_percentage" and value is not None and value > most
    )


class MatchType(IntEnum):
    """The match of one part of an entity. Values are those of the wire protocol."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


class Component(msgspec.Struct, frozen=True):
    """One part of a filter. `match_type` may be any number; `name` only with EXACT."""

    entity_type: str
    match_type: int
    name: str | None = None


class EntityFilter:
    """A filter all of whose components must match. A strict filter refuses entities with other parts."""

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
