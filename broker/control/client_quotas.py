"""Plans AlterClientQuotas: which limits of which entities change. (Kafka: ClientQuotaControlManager, KIP-546)

What an entity and a limit may be is broker.quotas' to say; here they meet the image. A removal of what is
not there and a limit that is already so change nothing and are fine. The mark of shadow mode, which Kafka
does not know, goes with the entity's last limit.
"""

from collections.abc import Collection
from typing import Final
from unicodedata import category

from broker.control.commands import AlterClientQuotas, QuotaAlteration, QuotaOutcome
from broker.control.plan import Plan, Situation
from broker.control.replicas import repeated
from broker.errors import ApiError, ErrorCode
from broker.metadata.actor import Role
from broker.metadata.changes import SHADOW, Change, Kind, write_number, write_pairs
from broker.metadata.image import Image, QuotaEntry
from broker.quotas.alteration import validate_alteration
from broker.quotas.entity import Entity

LONGEST_NAME: Final = 1_024
"""Kafka has no bound; ours keeps a page and a log line readable."""


def plan_client_quotas(command: AlterClientQuotas, at: Situation) -> Plan[list[QuotaOutcome]]:
    refusal = at.refusal(Role.EDITOR, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if refusal is not None:
        return Plan([QuotaOutcome(refusal.error, refusal.message, each.entity) for each in command.entries])
    outcomes: list[QuotaOutcome] = []
    changes: list[Change] = []
    twice = repeated(frozenset(each.entity) for each in command.entries)
    for alteration in command.entries:
        try:
            entity = _validated(alteration, twice)
            _check_version(alteration, entity, at.image)
            planned = _changes(alteration, entity, at.image.quotas.get(entity.pairs))
        except ApiError as error:
            outcomes.append(QuotaOutcome(error.code, error.message, alteration.entity))
            continue
        outcomes.append(QuotaOutcome(entity=alteration.entity))
        changes.extend(planned)
    return Plan(outcomes, () if command.validate_only else tuple(changes))


def _validated(alteration: QuotaAlteration, twice: Collection[frozenset[tuple[str, str | None]]]) -> Entity:
    entity = validate_alteration(alteration.entity, [(op.key, op.value) for op in alteration.ops])
    for kind, name in alteration.entity:
        _check_name(kind, name or "")
    # Kafka carries out the first and answers with this; so nobody could tell what holds.
    if frozenset(alteration.entity) in twice:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Ignoring duplicate entity {entity}")
    return entity


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
        words = (
            f"is now version {version}"
            if entry is None
            else f"was changed by {entry.changed_by} (version {version})"
        )
        raise ApiError(ErrorCode.INVALID_UPDATE_VERSION, f"The quota of {entity} {words}")


def _changes(alteration: QuotaAlteration, entity: Entity, entry: QuotaEntry | None) -> list[Change]:
    """The mark before the limits: undoing the removal of a limit looks for it there."""
    current = {} if entry is None else {key: limit.value for key, limit in entry.limits.items()}
    ops = [op for op in alteration.ops if op.value != current.get(op.key)]
    is_shadow = entry is not None and entry.shadow
    will_be = is_shadow if alteration.shadow is None else alteration.shadow
    if not {
        key for key, value in {**current, **{op.key: op.value for op in ops}}.items() if value is not None
    }:
        if alteration.shadow:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"There is no limit of {entity} to measure in shadow")
        will_be = False
    if will_be and entity.ip is not None:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Limits of an address cannot be in shadow")
    text = write_pairs(entity.pairs)
    mark = [Change(Kind.CLIENT_QUOTA, text, SHADOW, "true" if will_be else None)]
    return (mark if will_be is not is_shadow else []) + [
        Change(Kind.CLIENT_QUOTA, text, op.key, None if op.value is None else write_number(float(op.value)))
        for op in ops
    ]
