"""Plans AlterClientQuotas: which limits of which entities change. (Kafka: ClientQuotaControlManager, KIP-546)

broker.quotas validates entities and limits; this module applies them to the image. Removing a missing limit
or setting an equal one succeeds and changes nothing. Removing an entity's last limit also removes its shadow
mode mark, which Kafka does not have. Temporary limits, which Kafka does not have either, leave the permanent
ones alone, and these leave them alone.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple
from unicodedata import category

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Steps
from broker.common.temporary_limits import BadTimes, check_times, write_temporary
from broker.controller.commands import AlterClientQuotas, EntityPairs, QuotaAlteration, QuotaOutcome
from broker.controller.plan import Plan, Situation, repeated_in_steps
from broker.metadata.actor import Role
from broker.metadata.changes import SHADOW, Change, ChangeKind, write_number, write_pairs
from broker.metadata.image import Image, QuotaEntry
from broker.quotas.client_quota_requests import validate_alteration, warnings_about
from broker.quotas.entity import Entity
from broker.quotas.small_rates import small_rate_warnings

Named = frozenset[tuple[str, str | None]]
"""An entity, regardless of the order of its parts."""

LONGEST_NAME: Final = 1_024
"""Characters. Kafka has no limit; ours keeps pages and log lines readable."""


def plan_client_quotas(
    command: AlterClientQuotas, at: Situation, gateways: int | None = None
) -> Steps[Plan[list[QuotaOutcome]]]:
    """`gateways` is the number of those that hold the limits together, None for a server on its own."""
    refusal = at.refusal(Role.EDITOR, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    outcomes: list[QuotaOutcome] = []
    changes: list[Change] = []
    duplicates = yield from repeated_in_steps(_named(command.entries))
    for alteration in command.entries:
        yield
        if refusal is not None:
            outcomes.append(QuotaOutcome(refusal.error, refusal.message, alteration.entity))
            continue
        try:
            entity = _validated(alteration, duplicates, at.config.connections.ipv6_prefix_length)
            _check_version(alteration, entity, at.image)
            _check_temporary(alteration, at.wall_ms)
            planned = _changes(alteration, entity, at.image.quotas.get(entity.pairs))
        except ApiError as error:
            outcomes.append(QuotaOutcome(error.code, error.message, alteration.entity))
            continue
        temporary = ((op.key, None if op.limit is None else op.limit.value) for op in alteration.temporary)
        ops = ((op.key, op.value) for op in alteration.ops)
        limits = [*ops, *temporary]
        algorithm = at.config.quotas.bandwidth_algorithm
        warnings = warnings_about(limits, gateways) + small_rate_warnings(limits, algorithm)
        outcomes.append(QuotaOutcome(entity=alteration.entity, warnings=warnings))
        if not command.validate_only:
            changes.extend(planned)
    if command.all_or_none and not all(outcome.ok for outcome in outcomes):
        return Plan(outcomes)
    return Plan(outcomes, tuple(changes))


def _named(alterations: Iterable[QuotaAlteration]) -> Iterator[Named]:
    return (frozenset(each.entity) for each in alterations)


def _validated(alteration: QuotaAlteration, duplicates: Collection[Named], ipv6_prefix: int) -> Entity:
    ops = [(op.key, op.value) for op in alteration.ops]
    entity = validate_alteration(alteration.entity, ops, ipv6_prefix)
    if alteration.temporary:
        times = [(op.key, None if op.limit is None else op.limit.value) for op in alteration.temporary]
        validate_alteration(alteration.entity, times, ipv6_prefix)
    for kind, name in alteration.entity:
        _check_name(kind, name or "")
    # Kafka applies the first and returns this error, which leaves the result unclear.
    if frozenset(alteration.entity) in duplicates:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Ignoring duplicate entity {entity}")
    return entity


def _check_temporary(alteration: QuotaAlteration, wall_ms: int) -> None:
    for op in alteration.temporary:
        if op.limit is not None:
            try:
                check_times(op.limit, wall_ms)
            except BadTimes as error:
                raise ApiError(ErrorCode.INVALID_REQUEST, f"{op.key}: {error}") from None


def _check_name(kind: str, name: str) -> None:
    if len(name) > LONGEST_NAME:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"A {kind} longer than {LONGEST_NAME} characters is not supported"
        )
    for character in name:
        match category(character):
            case "Cs":
                raise ApiError(ErrorCode.INVALID_REQUEST, f"The {kind} is not valid Unicode")
            case "Cc":
                raise ApiError(
                    ErrorCode.INVALID_REQUEST, f"The {kind} has the control character {character!r}"
                )


def _check_version(alteration: QuotaAlteration, entity: Entity, image: Image) -> None:
    if alteration.expected_version is None:
        return
    entry = image.quotas.get(entity.pairs)
    version = 0 if entry is None else entry.version
    if version != alteration.expected_version:
        problem = (
            f"is now version {version}"
            if entry is None
            else f"was changed by {entry.changed_by} (version {version})"
        )
        raise ApiError(ErrorCode.INVALID_UPDATE_VERSION, f"The quota of {entity} {problem}")


class Altered(NamedTuple):
    """The limits of an entity after an alteration, by key, and whether it is in shadow mode."""

    limits: Mapping[str, float]
    shadow: bool


def proposed(
    alterations: Sequence[QuotaAlteration], image: Image, ipv6_prefix: int
) -> Steps[dict[EntityPairs, Altered]]:
    """Return the result of `alterations` for their entities without applying it. New temporary limits count
    as if they applied already.

    Raises ApiError for the first alteration that would be refused.
    """
    duplicates = yield from repeated_in_steps(_named(alterations))
    found: dict[EntityPairs, Altered] = {}
    for alteration in alterations:
        entity = _validated(alteration, duplicates, ipv6_prefix)
        entry = image.quotas.get(entity.pairs)
        permanent, shadow = _altered(alteration, entity, entry)
        found[entity.pairs] = Altered({**permanent, **_temporary_values(alteration, entry)}, shadow)
        yield
    return found


def _temporary_values(alteration: QuotaAlteration, entry: QuotaEntry | None) -> dict[str, float]:
    temporary = {} if entry is None else entry.temporary
    values = {key: each.limit.value for key, each in temporary.items() if each.is_active}
    for op in alteration.temporary:
        if op.limit is None:
            values.pop(op.key, None)
        else:
            values[op.key] = op.limit.value
    return values


def _altered(alteration: QuotaAlteration, entity: Entity, entry: QuotaEntry | None) -> Altered:
    """Return the permanent limits after the alteration."""
    limits = {} if entry is None else {key: limit.value for key, limit in entry.permanent.items()}
    for op in alteration.ops:
        if op.value is None:
            limits.pop(op.key, None)
        else:
            limits[op.key] = float(op.value)
    if not limits and alteration.shadow:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{entity} has no limit to put in shadow mode")
    was_shadow = entry is not None and entry.shadow
    shadow = bool(limits) and (was_shadow if alteration.shadow is None else alteration.shadow)
    if shadow and entity.ip is not None:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Shadow mode does not apply to limits of an address")
    return Altered(limits, shadow)


def _changes(alteration: QuotaAlteration, entity: Entity, entry: QuotaEntry | None) -> list[Change]:
    """Return the changes, the mark before the limits: undoing a removal looks for the mark there."""
    after = _altered(alteration, entity, entry)
    before = {} if entry is None else {key: limit.value for key, limit in entry.permanent.items()}
    text = write_pairs(entity.pairs)
    changes = []
    if after.shadow is not (entry is not None and entry.shadow):
        changes.append(Change(ChangeKind.CLIENT_QUOTA, text, SHADOW, "true" if after.shadow else None))
    for op in alteration.ops:
        value = after.limits.get(op.key)
        if value != before.get(op.key):
            new = None if value is None else write_number(value)
            changes.append(Change(ChangeKind.CLIENT_QUOTA, text, op.key, new))
    for each in alteration.temporary:
        known = None if entry is None else entry.temporary.get(each.key)
        if each.limit != (None if known is None else known.limit):
            new = None if each.limit is None else write_temporary(each.limit)
            changes.append(Change(ChangeKind.TEMPORARY_QUOTA, text, each.key, new))
    return changes
