"""Converts an audit row into the command that restores its old value.

The command is planned and checked like any other, including roles.
"""

from collections.abc import Sequence
from typing import Any, Final

from broker.common.errors import ApiError, ErrorCode
from broker.common.temporary_limits import read_temporary
from broker.controller.alerts import RemoveAlertRule, RemoveAlertSilence, SetAlertRule, SetAlertSilence
from broker.controller.commands import (
    AlterClientQuotas,
    Command,
    ConfigAlteration,
    ConfigOp,
    ConfigResource,
    CreateAcls,
    DeleteAcls,
    IncrementalAlterConfigs,
    OpType,
    QuotaAlteration,
    QuotaOp,
    ResourceType,
    TemporaryOp,
)
from broker.metadata.alerts import read_rule, read_silence
from broker.metadata.changes import SHADOW, AuditFilter, AuditRow, ChangeKind, Unreadable, read_pairs
from broker.metadata.image import Image
from broker.security.acl.acl import filter_of, read_acl

LARGEST_ENTITY: Final = 8
"""Maximum rows of one entity in one change: its limits and the shadow mode mark."""


def preceding_rows(row: AuditRow) -> AuditFilter:
    """Return a filter for the rows that `inverse_of` also needs: those of the same entity just before."""
    return AuditFilter(row.kind, row.entity, before_seq=row.seq, limit=LARGEST_ENTITY)


def inverse_of(
    row: AuditRow, before: Sequence[AuditRow], image: Image, wall_ms: int, *, validate_only: bool = False
) -> Command[Any]:
    """Return the inverse command at this time of the wall clock. Raises ApiError INVALID_REQUEST if the
    change cannot be undone, and INVALID_UPDATE_VERSION if the value has changed since.
    """
    match row.kind:
        case ChangeKind.CLIENT_QUOTA:
            return _quota_command(row, before, image, validate_only)
        case ChangeKind.TEMPORARY_QUOTA:
            return _temporary_command(row, image, validate_only, wall_ms)
        case ChangeKind.TOPIC_CONFIG:
            topic = image.topics.get(row.entity)
            if topic is None:
                raise ApiError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic {row.entity} no longer exists"
                )
            _check(topic.configs.get(row.key), row.new)
            return _config_command(ResourceType.TOPIC, row, validate_only)
        case ChangeKind.BROKER_CONFIG:
            _check(image.broker_configs.get(row.entity, {}).get(row.key), row.new)
            return _config_command(ResourceType.BROKER, row, validate_only)
        case ChangeKind.CLIENT_METRICS:
            subscription = image.client_metrics.get(row.entity)
            _check(None if subscription is None else subscription.configs.get(row.key), row.new)
            return _config_command(ResourceType.CLIENT_METRICS, row, validate_only)
        case ChangeKind.GROUP_CONFIG:
            _check(image.group_configs.get(row.entity, {}).get(row.key), row.new)
            return _config_command(ResourceType.GROUP, row, validate_only)
        case ChangeKind.ACL:
            acl = read_acl(row.entity, row.key)
            _check(acl in image.acls, row.new is not None)
            if row.old is None:
                return DeleteAcls((filter_of(acl),), validate_only)
            return CreateAcls((acl,), validate_only)
        case ChangeKind.ALERT_RULE:
            rule = image.alert_rules.get(row.entity)
            _check(None if rule is None else rule.rule, None if row.new is None else read_rule(row.new))
            version = 0 if rule is None else rule.version
            if row.old is None:
                return RemoveAlertRule(row.entity, version, validate_only=validate_only)
            return SetAlertRule(row.entity, read_rule(row.old), version, validate_only=validate_only)
        case ChangeKind.ALERT_SILENCE:
            silence = image.alert_silences.get(row.entity)
            known = None if silence is None else silence.silence
            _check(known, None if row.new is None else read_silence(row.new))
            version = 0 if silence is None else silence.version
            if row.old is None:
                return RemoveAlertSilence(row.entity, version, validate_only=validate_only)
            return SetAlertSilence(row.entity, read_silence(row.old), version, validate_only=validate_only)
    raise ApiError(ErrorCode.INVALID_REQUEST, f"A change of kind {row.kind} cannot be undone")


def _quota_command(
    row: AuditRow, before: Sequence[AuditRow], image: Image, validate_only: bool
) -> AlterClientQuotas:
    pairs = read_pairs(row.entity)
    entry = image.quotas.get(pairs)
    if row.key == SHADOW:
        _check(entry is not None and entry.shadow, row.new is not None)
        return AlterClientQuotas((QuotaAlteration(pairs, (), shadow=row.old is not None),), validate_only)
    limit = None if entry is None else entry.permanent.get(row.key)
    _check(None if limit is None else limit.value, None if row.new is None else float(row.new))
    op = QuotaOp(row.key, None if row.old is None else float(row.old))
    # The removed limit was in shadow mode; restore its mark too, so that it is not enforced.
    removed_with_mark = (entry is None or not entry.permanent) and any(
        each.batch == row.batch and each.key == SHADOW and each.new is None for each in before
    )
    return AlterClientQuotas(
        (QuotaAlteration(pairs, (op,), shadow=True if removed_with_mark else None),), validate_only
    )


def _temporary_command(row: AuditRow, image: Image, validate_only: bool, wall_ms: int) -> AlterClientQuotas:
    """Restore the earlier temporary limit if it still applies at some time, and the permanent one if not."""
    pairs = read_pairs(row.entity)
    entry = image.quotas.get(pairs)
    known = None if entry is None else entry.temporary.get(row.key)
    new, old = (None if text is None else read_temporary(text) for text in (row.new, row.old))
    _check(None if known is None else known.limit, new)
    if old is not None and old.has_ended(wall_ms):
        if new is None:
            raise ApiError(ErrorCode.INVALID_REQUEST, "This temporary limit has ended")
        old = None
    return AlterClientQuotas(
        (QuotaAlteration(pairs, (), temporary=(TemporaryOp(row.key, old),)),), validate_only
    )


def _check(current: object, written: object) -> None:
    if current != written:
        raise ApiError(ErrorCode.INVALID_UPDATE_VERSION, "The value has been changed since")


def _config_command(kind: ResourceType, row: AuditRow, validate_only: bool) -> IncrementalAlterConfigs:
    if isinstance(row.old, Unreadable):
        raise ApiError(ErrorCode.INVALID_REQUEST, "The encryption key of the old value is not available")
    op = ConfigOp(row.key, OpType.DELETE if row.old is None else OpType.SET, row.old)
    alteration = ConfigAlteration(ConfigResource(kind, row.entity), (op,))
    return IncrementalAlterConfigs((alteration,), validate_only)
