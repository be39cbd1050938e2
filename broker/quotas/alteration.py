"""Validation of AlterClientQuotas, with Kafka's error messages. (Kafka: ClientQuotaControlManager, KIP-546)

Called by control for every interface before anything is written. Control itself checks that a removed key
exists.
"""

from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final, NoReturn

from broker.errors import ApiError, ErrorCode
from broker.quotas.connection_rates import WHOLE_ADDRESS, canonical_address, counted_address
from broker.quotas.entity import CLIENT_ID, IP, USER, Entity, EntityPairs
from broker.quotas.kinds import CLIENT_KEYS, IP_KEYS, QuotaKey, ValueType

FRACTION: Final = 1e-6
"""Largest fractional part of a value of an integral key."""

TOO_LARGE: Final = {ValueType.INT: 2.0**31, ValueType.LONG: 2.0**63, ValueType.DOUBLE: float("inf")}
"""The smallest value that does not fit the type."""


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
                _refuse(f"Invalid configuration key {key}")
            _validate_value(keys[key], value)
    return entity


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
    # `not value > 0` also refuses NaN.
    if not value > 0:
        _refuse(f"Quota {key.name} must be greater than 0")
    if value >= TOO_LARGE[key.type]:
        article = "an" if key.type is ValueType.INT else "a"
        _refuse(f"Proposed value for {key.name} is too large for {article} {key.type.value}.")
    # Kafka accepts 0.000001, which is 0 as an integer.
    if key.type is not ValueType.DOUBLE and (value < 1 or value % 1.0 > FRACTION):
        _refuse(f"{key.name} cannot be a fractional value.")


def _refuse(message: str) -> NoReturn:
    raise ApiError(ErrorCode.INVALID_REQUEST, message)
