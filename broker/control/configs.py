"""Plans IncrementalAlterConfigs on topics, brokers, their loggers and client metrics; converts AlterConfigs
to it. (KIP-339; Kafka: ConfigAdminManager, ConfigurationControlManager)

All ops of one resource succeed or fail together. The error code INVALID_REQUEST for a broker is
INVALID_CONFIG for a topic, as in Kafka (KAFKA-13609).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from broker.config.sections.topics import default_text
from broker.config.table import read_value, setting_of
from broker.control.client_metrics import apply_to_subscription, current_subscription
from broker.control.commands import (
    ConfigAlteration,
    ConfigOp,
    ConfigResource,
    IncrementalAlterConfigs,
    OpType,
    ResourceOutcome,
    ResourceType,
)
from broker.control.config_ops import apply_op, check_node_id, check_ops
from broker.control.loggers import plan_levels
from broker.control.plan import PLANNED_AT_ONCE, Effect, Plan, Situation, repeated_in_steps
from broker.control.store_locations import check_location
from broker.control.topics import invalid_value, read_topic_config, topic_setting, validate_topic_name
from broker.errors import ApiError, ConfigError, ErrorCode
from broker.metadata.actor import Role
from broker.metadata.changes import Change, Kind
from broker.steps import Steps


def plan_alter_configs(command: IncrementalAlterConfigs, at: Situation) -> Steps[Plan[list[ResourceOutcome]]]:
    twice = yield from repeated_in_steps(each.resource for each in command.resources)
    brokers = dict(at.image.broker_configs)
    outcomes: list[ResourceOutcome] = []
    changes: list[Change] = []
    effects: list[Effect] = []
    for alteration in command.resources:
        if outcomes and len(outcomes) % PLANNED_AT_ONCE == 0:
            yield
        resource = alteration.resource
        try:
            if resource in twice:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            if resource.type == ResourceType.BROKER_LOGGER and not command.replaces:
                _require_role(Role.ADMIN, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, at)
                effects.extend(plan_levels(alteration, at))
            else:
                changes.extend(list(_changes(alteration, brokers, at, replaces=command.replaces)))
        except ApiError as error:
            outcomes.append(ResourceOutcome(error.code, error.message, resource))
        else:
            outcomes.append(ResourceOutcome(resource=resource))
    return Plan(outcomes) if command.validate_only else Plan(outcomes, tuple(changes), tuple(effects))


def _changes(
    alteration: ConfigAlteration, brokers: dict[str, Mapping[str, str]], at: Situation, *, replaces: bool
) -> Iterator[Change]:
    """Yield the changes of one resource; `brokers` are the brokers' settings after the previous resources."""
    resource = alteration.resource
    match resource.type:
        case ResourceType.TOPIC:
            _require_role(Role.EDITOR, ErrorCode.TOPIC_AUTHORIZATION_FAILED, at)
            check_ops(alteration.ops)
            current = _topic_configs(resource, at)
            wanted = _apply_to_topic(_ops(alteration, current, replaces=replaces), current, at)
            kind = Kind.TOPIC_CONFIG
        case ResourceType.BROKER:
            _require_role(Role.ADMIN, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, at)
            check_ops(alteration.ops)
            check_node_id(resource.name, at.node_id)
            _check_broker_version(alteration, at)
            current = brokers.get(resource.name, {})
            wanted = _apply_to_broker(_ops(alteration, current, replaces=replaces), resource, brokers, at)
            brokers[resource.name] = wanted
            kind = Kind.BROKER_CONFIG
        case ResourceType.CLIENT_METRICS:
            _require_role(Role.EDITOR, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, at)
            check_ops(alteration.ops)
            current = current_subscription(alteration, at)
            ops = _ops(alteration, current, replaces=replaces)
            wanted = apply_to_subscription(replace(alteration, ops=ops), current)
            kind = Kind.CLIENT_METRICS
        case ResourceType.GROUP:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Group configurations are not supported.")
        case _:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {int(resource.type)}")
    return (
        Change(kind, resource.name, key, wanted.get(key))
        for key in dict.fromkeys([*current, *wanted])
        if wanted.get(key) != current.get(key)
    )


def _ops(alteration: ConfigAlteration, current: Mapping[str, str], *, replaces: bool) -> tuple[ConfigOp, ...]:
    """Return the requested ops, and with `replaces` a deletion of each setting that they do not name."""
    named = {op.key for op in alteration.ops}
    gone = [ConfigOp(key, OpType.DELETE) for key in current if replaces and key not in named]
    return (*alteration.ops, *gone)


def _require_role(role: Role, code: ErrorCode, at: Situation) -> None:
    refusal = at.refusal(role, code)
    if refusal is not None:
        raise ApiError(refusal.error, refusal.message)


def _check_broker_version(alteration: ConfigAlteration, at: Situation) -> None:
    version = at.image.broker_config_version(alteration.resource.name)
    if alteration.expected_version not in (None, version):
        raise ApiError(
            ErrorCode.INVALID_UPDATE_VERSION, f"The broker's settings were changed (version {version})"
        )


def _topic_configs(resource: ConfigResource, at: Situation) -> Mapping[str, str]:
    if not resource.name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    validate_topic_name(resource.name)
    topic = at.image.topics.get(resource.name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{resource.name}' does not exist.")
    return topic.configs


def _apply_to_topic(ops: tuple[ConfigOp, ...], current: Mapping[str, str], at: Situation) -> dict[str, str]:
    wanted = dict(current)
    for op in ops:
        setting = topic_setting(op.key)
        base = wanted.get(op.key, default_text(at.config.topic_settings, op.key) or "")
        apply_op(op, setting, base, wanted)
        if op.key in wanted:
            read_topic_config(op.key, wanted[op.key])
    return wanted


def _apply_to_broker(
    ops: tuple[ConfigOp, ...],
    resource: ConfigResource,
    brokers: Mapping[str, Mapping[str, str]],
    at: Situation,
) -> dict[str, str]:
    settings = {op.key: setting_of(op.key) for op in ops}
    _refuse_keys(
        (key for key, setting in settings.items() if setting is None or not setting.dynamic),
        "Cannot update these configs dynamically",
    )
    if not resource.name:
        _refuse_keys(
            (key for key, setting in settings.items() if setting is not None and setting.per_broker),
            "Cannot update these configs at default cluster level, broker id must be specified",
        )
    wanted = dict(brokers.get(resource.name, {}))
    for op in ops:
        setting = settings[op.key]
        assert setting is not None
        held = {**at.configuration.static, **brokers.get("", {}), **wanted}
        apply_op(op, setting, held.get(op.key, setting.write(setting.default) or ""), wanted)
    levels = {**brokers, resource.name: wanted}
    try:
        for op in ops:
            if op.key in wanted:
                # Also if another level hides the value: that level can be deleted first.
                read_value(op.key, wanted[op.key])
                check_location(
                    op.key,
                    wanted[op.key],
                    at.config.tls.store_allowed_directories,
                    at.configuration.static,
                )
        at.check_config(
            at.configuration.with_dynamic({**levels.get("", {}), **levels.get(str(at.node_id), {})})
        )
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, invalid_value(error)) from error
    return wanted


def _refuse_keys(keys: Iterable[str], words: str) -> None:
    named = sorted(keys)
    if named:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{words}: {', '.join(named)}")
