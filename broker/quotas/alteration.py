"""What AlterClientQuotas may ask for, with Kafka's words for what it may not. (Kafka:
ClientQuotaControlManager, KIP-546)

Called by control for every door before anything is written. Whether a removal finds something to remove is
control's to see.
"""

from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final, NoReturn

from broker.errors import ApiError, ErrorCode
from broker.quotas.connection_rates import WHOLE_ADDRESS, canonical_address, counted_address
from broker.quotas.entity import CLIENT_ID, IP, USER, Entity, EntityPairs
from broker.quotas.kinds import CLIENT_KEYS, IP_KEYS, QuotaKey, ValueType

FRACTION: Final = 1e-6
"""How far from whole a value of an integral key may be."""

TOO_LARGE: Final = {ValueType.INT: 2.0**31, ValueType.LONG: 2.0**63, ValueType.DOUBLE: float("inf")}
"""The smallest value that a type cannot hold."""


def validate_alteration(
    pairs: EntityPairs, ops: Iterable[tuple[str, float | None]], ipv6_prefix: int = WHOLE_ADDRESS
) -> Entity:
    """The entity that `ops`, pairs of key and value (None removes), may be applied to. `ipv6_prefix` is how
    addresses are counted; a limit is written for the one that stands for the others.

    Raises ApiError INVALID_REQUEST with a message that names what is wrong; nothing of the entry is to be
    applied then.
    """
    entity = validate_entity(pairs)
    keys = CLIENT_KEYS if entity.ip is None else IP_KEYS
    seen: set[str] = set()
    for key, value in ops:
        if key in seen:
            _refuse(f"Duplicate quota key {key} not updating quota for this entity {entity}")
        seen.add(key)
        # Kafka lets a removal of any key pass: there is nothing of that name, so nothing to remove.
        if value is not None:
            if isinstance(entity.ip, str):
                _validate_spelling(entity.ip, ipv6_prefix)
            if key not in keys:
                _refuse(f"Invalid configuration key {key}")
            _validate_value(keys[key], value)
    return entity


def validate_entity(pairs: EntityPairs) -> Entity:
    """The entity that the pairs name. Raises ApiError INVALID_REQUEST."""
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
    """An address, or the default. Kafka also takes host names and resolves them; here nothing is resolved."""
    if name is not None:
        try:
            ip_address(name)
        except ValueError:
            _refuse(f"{name} is not a valid IP or resolvable host.")


def _validate_spelling(address: str, ipv6_prefix: int) -> None:
    """Of two spellings of one address, each with a limit, nobody could tell which holds; Kafka takes both."""
    whole = canonical_address(address)
    written = counted_address(whole, ipv6_prefix)
    if address == written:
        return
    why = f", as all addresses of its /{ipv6_prefix} are one" if written != whole else ""
    _refuse(f"The ip {address} has to be written {written}{why}")


def _validate_value(key: QuotaKey, value: float) -> None:
    # Written so that NaN, which is neither above nor below anything, is refused.
    if not value > 0:
        _refuse(f"Quota {key.name} must be greater than 0")
    if value >= TOO_LARGE[key.type]:
        article = "an" if key.type is ValueType.INT else "a"
        _refuse(f"Proposed value for {key.name} is too large for {article} {key.type.value}.")
    # Kafka lets a millionth pass, which as a whole number is 0.
    if key.type is not ValueType.DOUBLE and (value < 1 or value % 1.0 > FRACTION):
        _refuse(f"{key.name} cannot be a fractional value.")


def _refuse(message: str) -> NoReturn:
    raise ApiError(ErrorCode.INVALID_REQUEST, message)
