"""Turns one row of the audit trail into the command that puts its old value back.

That command is then planned and checked as if somebody had typed it, roles included.
"""

from collections.abc import Sequence
from typing import Any, Final

from broker.control.commands import (
    AlterClientQuotas,
    Command,
    ConfigAlteration,
    ConfigOp,
    ConfigResource,
    IncrementalAlterConfigs,
    OpType,
    QuotaAlteration,
    QuotaOp,
    ResourceType,
)
from broker.errors import ApiError, ErrorCode
from broker.metadata.audit import AuditFilter, AuditRow
from broker.metadata.changes import SHADOW, Kind, read_pairs
from broker.metadata.image import Image
from broker.metadata.sealing import Unreadable

LARGEST_ENTITY: Final = 8
"""Rows of one entity that one change can have: its limits, and the mark of shadow mode."""


def beside(row: AuditRow) -> AuditFilter:
    """The rows that `inverse_of` wants to see as well: those of the same entity just before."""
    return AuditFilter(row.kind, row.entity, before_seq=row.seq, limit=LARGEST_ENTITY)


def inverse_of(
    row: AuditRow, before: Sequence[AuditRow], image: Image, *, validate_only: bool = False
) -> Command[Any]:
    """Raises ApiError: INVALID_REQUEST for what cannot be undone, INVALID_UPDATE_VERSION where it has changed
    since.
    """
    match row.kind:
        case Kind.CLIENT_QUOTA:
            return _quota_command(row, before, image, validate_only)
        case Kind.TOPIC_CONFIG:
            topic = image.topics.get(row.entity)
            if topic is None:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic is gone")
            _check(topic.configs.get(row.key), row.new)
            return _config_command(ResourceType.TOPIC, row, validate_only)
        case Kind.BROKER_CONFIG:
            _check(image.broker_configs.get(row.entity, {}).get(row.key), row.new)
            return _config_command(ResourceType.BROKER, row, validate_only)
        case Kind.CLIENT_METRICS:
            subscription = image.client_metrics.get(row.entity)
            _check(None if subscription is None else subscription.configs.get(row.key), row.new)
            return _config_command(ResourceType.CLIENT_METRICS, row, validate_only)
    raise ApiError(ErrorCode.INVALID_REQUEST, f"A change of kind {row.kind} cannot be undone")


def _quota_command(
    row: AuditRow, before: Sequence[AuditRow], image: Image, validate_only: bool
) -> AlterClientQuotas:
    pairs = read_pairs(row.entity)
    entry = image.quotas.get(pairs)
    if row.key == SHADOW:
        _check(entry is not None and entry.shadow, row.new is not None)
        return AlterClientQuotas((QuotaAlteration(pairs, (), shadow=row.old is not None),), validate_only)
    limit = None if entry is None else entry.limits.get(row.key)
    _check(None if limit is None else limit.value, None if row.new is None else float(row.new))
    op = QuotaOp(row.key, None if row.old is None else float(row.old))
    # A limit that was only measured went together with its mark, and is not to be enforced when it is back.
    went_too = entry is None and any(
        each.batch == row.batch and each.key == SHADOW and each.new is None for each in before
    )
    return AlterClientQuotas(
        (QuotaAlteration(pairs, (op,), shadow=True if went_too else None),), validate_only
    )


def _check(current: object, written: object) -> None:
    if current != written:
        raise ApiError(ErrorCode.INVALID_UPDATE_VERSION, "This has been changed again since")


def _config_command(kind: ResourceType, row: AuditRow, validate_only: bool) -> IncrementalAlterConfigs:
    if isinstance(row.old, Unreadable):
        raise ApiError(ErrorCode.INVALID_REQUEST, "The key that the old value was encrypted with is not here")
    op = ConfigOp(row.key, OpType.DELETE if row.old is None else OpType.SET, row.old)
    alteration = ConfigAlteration(ConfigResource(kind, row.entity), (op,))
    return IncrementalAlterConfigs((alteration,), validate_only)
