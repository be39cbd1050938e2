"""Plans IncrementalAlterConfigs on topics, brokers, their loggers and client metrics; converts AlterConfigs
to it. (KIP-339, KIP-714; Kafka: ConfigAdminManager, ConfigurationControlManager and
ControllerConfigurationValidator)

All ops of one resource succeed or fail together. The error code INVALID_REQUEST for a broker is
INVALID_CONFIG for a topic, as in Kafka (KAFKA-13609).

A dynamic setting can name key stores and trust stores in some folders only. A client that sets a location
makes the broker read a file and report errors about it. A location outside these folders is therefore refused
before the file is accessed, with the message for a missing file. The configuration file is not restricted.
(Kafka reads any path; its config providers have `allowed.paths`, KIP-993.)

A client can give a broker a setting with an unknown key, as in Kafka, whose plug-ins have keys of their own.
Nothing reads it here, so `dynamic_config` warns of it. Its value may be a password, so it is treated as one.
The console and the REST API, where such a key is more likely a mistake, only change or delete what is set.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from broker.common.errors import ApiError, ConfigError, ErrorCode
from broker.common.slices import Steps
from broker.config.group_settings import GROUP_SETTINGS, check_group_configs
from broker.config.kinds import ConfigType
from broker.config.sections.tls import ALLOWED_STORE
from broker.config.sections.topics import default_text
from broker.config.setting import Setting, split_listener
from broker.config.table import read_value, setting_of
from broker.controller.commands import (
    ConfigAlteration,
    ConfigOp,
    ConfigResource,
    IncrementalAlterConfigs,
    OpType,
    ResourceOutcome,
    ResourceType,
)
from broker.controller.loggers import plan_levels
from broker.controller.plan import Effect, Plan, Situation, repeated, repeated_in_steps
from broker.controller.topics import (
    check_topic_version,
    invalid_value,
    read_topic_config,
    topic_setting,
    validate_topic_name,
)
from broker.metadata.actor import ChangeOrigin, Role
from broker.metadata.changes import Change, ChangeKind
from broker.quotas.small_rates import ALGORITHM, small_rate_warnings
from broker.telemetry.subscription import read_subscription, subscription_setting

_LOCATIONS: Final = frozenset({"ssl.keystore.location", "ssl.truststore.location"})
_CONSOLE: Final = "console."

LONGEST_VALUE: Final = 32_767
"""Characters of a value, also of one that items were appended to: the longest string of most requests."""

MAX_ITEMS: Final = 2_000
"""Items of a list that a client sets; ours. An item takes 1.5 microseconds. The file has no such limit."""

MAX_SETTINGS: Final = 1_000
"""Dynamic settings of a broker, unknown keys included; ours."""

ROLES: Final[Mapping[int, tuple[Role, ErrorCode]]] = {
    ResourceType.TOPIC: (Role.EDITOR, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ResourceType.BROKER: (Role.ADMIN, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    ResourceType.BROKER_LOGGER: (Role.ADMIN, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    ResourceType.CLIENT_METRICS: (Role.EDITOR, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    ResourceType.GROUP: (Role.EDITOR, ErrorCode.GROUP_AUTHORIZATION_FAILED),
}
"""The role that a change of each resource needs, and the error of an actor without it."""


def plan_alter_configs(command: IncrementalAlterConfigs, at: Situation) -> Steps[Plan[list[ResourceOutcome]]]:
    duplicates = yield from repeated_in_steps(each.resource for each in command.resources)
    brokers = dict(at.image.broker_configs)
    outcomes: list[ResourceOutcome] = []
    changes: list[Change] = []
    effects: list[Effect] = []
    for alteration in command.resources:
        if outcomes:
            yield
        resource = alteration.resource
        try:
            if resource in duplicates:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            if resource.type == ResourceType.BROKER_LOGGER and not command.replaces:
                at.require(*ROLES[resource.type])
                _check_ops(alteration.ops)
                _check_node_id(resource.name or "''", at.node_id)
                effects.extend(plan_levels(alteration.ops, at.actor.name))
            else:
                changes += yield from _changes(alteration, brokers, at, replaces=command.replaces)
        except ApiError as error:
            outcomes.append(ResourceOutcome(error.code, error.message, resource))
        else:
            outcomes.append(ResourceOutcome(resource=resource, warnings=_warnings(alteration, at)))
    is_refused = command.all_or_none and not all(outcome.ok for outcome in outcomes)
    if command.validate_only or is_refused:
        return Plan(outcomes)
    return Plan(outcomes, tuple(changes), tuple(effects))


def _warnings(alteration: ConfigAlteration, at: Situation) -> tuple[str, ...]:
    set_ops = [op for op in alteration.ops if op.op is OpType.SET]
    values = {op.key: op.value or "" for op in set_ops}
    algorithm = values.get(ALGORITHM, at.config.quotas.bandwidth_algorithm)
    rates = ((key, float(value)) for key, value in values.items() if value.isdecimal())
    return small_rate_warnings(rates, algorithm)


def _changes(
    alteration: ConfigAlteration, brokers: dict[str, Mapping[str, str]], at: Situation, *, replaces: bool
) -> Steps[list[Change]]:
    """Return the changes of one resource; `brokers` are the brokers' settings after the previous resources.
    Yields after each value that was read.
    """
    resource = alteration.resource
    match resource.type:
        case ResourceType.TOPIC:
            at.require(*ROLES[resource.type])
            _check_ops(alteration.ops)
            current = _topic_configs(alteration, at)
            wanted = yield from _apply_to_topic(_ops(alteration, current, replaces=replaces), current, at)
            kind = ChangeKind.TOPIC_CONFIG
        case ResourceType.BROKER:
            at.require(*ROLES[resource.type])
            _check_ops(alteration.ops)
            _check_node_id(resource.name, at.node_id)
            _check_broker_version(alteration, at)
            current = brokers.get(resource.name, {})
            ops = _ops(alteration, current, replaces=replaces)
            wanted = yield from _apply_to_broker(ops, resource, brokers, at)
            brokers[resource.name] = wanted
            kind = ChangeKind.BROKER_CONFIG
        case ResourceType.CLIENT_METRICS:
            at.require(*ROLES[resource.type])
            _check_ops(alteration.ops)
            current = _current_subscription(alteration, at)
            ops = _ops(alteration, current, replaces=replaces)
            wanted = yield from _apply_to_subscription(replace(alteration, ops=ops), current)
            kind = ChangeKind.CLIENT_METRICS
        case ResourceType.GROUP:
            at.require(*ROLES[resource.type])
            _check_ops(alteration.ops)
            if not resource.name:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
            current = at.image.group_configs.get(resource.name, {})
            wanted = _apply_to_group(_ops(alteration, current, replaces=replaces), current, at)
            kind = ChangeKind.GROUP_CONFIG
        case _:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {int(resource.type)}")
    return [
        Change(kind, resource.name, key, wanted.get(key))
        for key in dict.fromkeys([*current, *wanted])
        if wanted.get(key) != current.get(key)
    ]


def _ops(alteration: ConfigAlteration, current: Mapping[str, str], *, replaces: bool) -> tuple[ConfigOp, ...]:
    """Return the requested ops, and with `replaces` a deletion of each setting that they do not name."""
    named = {op.key for op in alteration.ops}
    deletions = [ConfigOp(key, OpType.DELETE) for key in current if replaces and key not in named]
    return (*alteration.ops, *deletions)


def _check_broker_version(alteration: ConfigAlteration, at: Situation) -> None:
    version = at.image.broker_config_version(alteration.resource.name)
    if alteration.expected_version not in (None, version):
        raise ApiError(
            ErrorCode.INVALID_UPDATE_VERSION, f"The broker's settings were changed (version {version})"
        )


def _topic_configs(alteration: ConfigAlteration, at: Situation) -> Mapping[str, str]:
    resource = alteration.resource
    if not resource.name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    validate_topic_name(resource.name)
    topic = at.image.topics.get(resource.name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{resource.name}' does not exist.")
    check_topic_version(topic, alteration.expected_version)
    return topic.configs


def _apply_to_topic(
    ops: tuple[ConfigOp, ...], current: Mapping[str, str], at: Situation
) -> Steps[dict[str, str]]:
    wanted = dict(current)
    for op in ops:
        setting = topic_setting(op.key)
        base = wanted.get(op.key, default_text(at.config.topic_settings, op.key) or "")
        _apply_op(op, setting, base, wanted)
        if op.key in wanted:
            read_topic_config(op.key, wanted[op.key])
            yield
    return wanted


def _apply_to_group(ops: tuple[ConfigOp, ...], current: Mapping[str, str], at: Situation) -> dict[str, str]:
    wanted = dict(current)
    for op in ops:
        setting = GROUP_SETTINGS.get(op.key)
        if setting is None:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {op.key}")
        _apply_op(op, setting, wanted.get(op.key, ""), wanted)
    try:
        check_group_configs(
            wanted,
            at.config.consumer_groups,
            at.config.share_groups,
            at.config.share_partitions,
            at.config.streams_groups,
        )
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, invalid_value(error)) from error
    return wanted


def _apply_to_broker(
    ops: tuple[ConfigOp, ...],
    resource: ConfigResource,
    brokers: Mapping[str, Mapping[str, str]],
    at: Situation,
) -> Steps[dict[str, str]]:
    settings = {op.key: setting_of(op.key) for op in ops}
    wanted = dict(brokers.get(resource.name, {}))
    by_client = at.actor.origin is ChangeOrigin.WIRE
    _refuse_keys(
        (
            key
            for key, setting in settings.items()
            if not (setting.changes(key) if setting is not None else by_client or key in wanted)
        ),
        "Cannot update these configs dynamically",
    )
    if not resource.name:
        _refuse_keys(
            (op.key for op in ops if _is_per_broker(op, settings[op.key])),
            "Cannot update these configs at default cluster level, broker id must be specified",
        )
    for op in ops:
        setting = settings[op.key]
        _apply_op(op, setting, _effective(op.key, setting, wanted, brokers, at), wanted)
        yield
    if len(wanted) > max(MAX_SETTINGS, len(brokers.get(resource.name, {}))):
        problem = f"At most {MAX_SETTINGS} settings of a broker can be dynamic."
        raise ApiError(ErrorCode.INVALID_REQUEST, problem)
    levels = {**brokers, resource.name: wanted}
    try:
        for op in ops:
            if op.key in wanted and settings[op.key] is not None:
                # Also if another level hides the value: that level can be deleted first.
                read_value(op.key, wanted[op.key])
                _check_location(
                    op.key,
                    wanted[op.key],
                    at.config.tls.store_allowed_directories,
                    at.configuration.static,
                )
                yield
        dynamic = {**levels.get("", {}), **levels.get(str(at.node_id), {})}
        yield from at.check_config((yield from at.configuration.with_dynamic_in_steps(dynamic)))
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, invalid_value(error)) from error
    return wanted


def _effective(
    key: str,
    setting: Setting | None,
    wanted: Mapping[str, str],
    brokers: Mapping[str, Mapping[str, str]],
    at: Situation,
) -> str:
    """Return the text in force, set at any level or the default."""
    for level in (wanted, brokers.get("", {}), at.configuration.static):
        if key in level:
            return level[key]
    return "" if setting is None else setting.write(setting.default) or ""


def _is_per_broker(op: ConfigOp, setting: Setting | None) -> bool:
    """Return whether the op is possible for one broker only; an unknown key can always be deleted."""
    if setting is not None:
        return setting.per_broker
    return op.op != OpType.DELETE and split_listener(op.key)[0] is not None


def _refuse_keys(keys: Iterable[str], problem: str) -> None:
    named = sorted(keys)
    if named:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{problem}: [{', '.join(named)}]")


def _check_ops(ops: tuple[ConfigOp, ...]) -> None:
    """Raise ApiError INVALID_REQUEST for a duplicate key, a null value or an unknown op."""
    if repeated(op.key for op in ops):
        raise ApiError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [op.key for op in ops if op.value is None and op.op != OpType.DELETE]
    if nulls:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")
    for op in ops:
        if op.op not in list(OpType):
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown operation type {op.op}.")


def _check_node_id(name: str, node_id: int) -> None:
    """Check that the name is this broker's id, or empty for all brokers. Raises ApiError INVALID_REQUEST."""
    if name in ("", str(node_id)):
        return
    if not (name.isascii() and name.isdigit()):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    raise ApiError(
        ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {node_id}, but received {name}"
    )


def _apply_op(op: ConfigOp, setting: Setting | None, base: str, wanted: dict[str, str]) -> None:
    """Apply the op to `wanted`; APPEND and SUBTRACT start from `base`, the effective value, set or
    default, as in Kafka. Raises ApiError INVALID_CONFIG if the setting is not a list, or unknown (Kafka:
    UNKNOWN_SERVER_ERROR), or the value too long.
    """
    value = op.value or ""
    if op.op == OpType.DELETE:
        wanted.pop(op.key, None)
        return
    _check_size(op.key, setting, value)
    if op.op == OpType.SET:
        wanted[op.key] = value
        return
    if setting is None or setting.kind.type is not ConfigType.LIST:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Can't {OpType(op.op).name} to key {op.key} because its type is not LIST.",
        )
    named = dict.fromkeys(item.strip() for item in value.split(","))
    items = [item for item in base.split(",") if item and not (op.op == OpType.SUBTRACT and item in named)]
    if op.op == OpType.APPEND:
        there = set(items)
        items += [item for item in named if item not in there]
    wanted[op.key] = ",".join(items)
    if op.op == OpType.APPEND:
        _check_size(op.key, setting, wanted[op.key])


def _check_size(key: str, setting: Setting | None, value: str) -> None:
    """Refuse a value that would take long to read, before it is read. Raises ApiError INVALID_CONFIG."""
    if len(value) > LONGEST_VALUE:
        problem = f"The value of {key} has more than {LONGEST_VALUE} characters."
        raise ApiError(ErrorCode.INVALID_CONFIG, problem)
    separator = "" if setting is None else setting.kind.separator
    if separator and value.count(separator) >= MAX_ITEMS:
        problem = f"The value of {key} has more than {MAX_ITEMS} items."
        raise ApiError(ErrorCode.INVALID_CONFIG, problem)


def _current_subscription(alteration: ConfigAlteration, at: Situation) -> Mapping[str, str]:
    """Return its current settings. Raises ApiError INVALID_UPDATE_VERSION for a stale edit."""
    name, expected = alteration.resource.name, alteration.expected_version
    entry = at.image.client_metrics.get(name)
    version = 0 if entry is None else entry.version
    if expected not in (None, version):
        problem = (
            f"is now version {version}"
            if entry is None
            else f"was changed by {entry.changed_by} (version {version})"
        )
        raise ApiError(ErrorCode.INVALID_UPDATE_VERSION, f"The subscription {name} {problem}")
    return {} if entry is None else entry.configs


def _apply_to_subscription(alteration: ConfigAlteration, current: Mapping[str, str]) -> Steps[dict[str, str]]:
    """Return its settings with the ops applied. Raises ApiError as `read_subscription` does.

    A subscription exists while it has a setting: the first setting creates it, and removing the last deletes
    it.
    """
    wanted = dict(current)
    for op in alteration.ops:
        setting = subscription_setting(op.key)
        _apply_op(op, setting, wanted.get(op.key, setting.write(setting.default) or ""), wanted)
    yield from read_subscription(alteration.resource.name, wanted)
    return wanted


def _check_location(key: str, text: str, directories: tuple[str, ...], static: Mapping[str, str]) -> None:
    """Check a location against `directories`; if empty, against the folders of the stores that `static`
    names.

    Raises ConfigError.
    """
    if not text or not _is_location(key):
        return
    allowed = directories or tuple(_directories_of(static))
    if os.pardir in text.split(os.sep) or not any(_is_within(text, each) for each in allowed):
        raise ConfigError(key, text, ALLOWED_STORE)


def _is_location(key: str) -> bool:
    return split_listener(key)[1].removeprefix(_CONSOLE) in _LOCATIONS


def _directories_of(static: Mapping[str, str]) -> Iterator[str]:
    return (
        os.path.dirname(os.path.abspath(text)) for key, text in static.items() if text and _is_location(key)
    )


def _is_within(text: str, directory: str) -> bool:
    """Compare by name only; links in such a folder are trusted."""
    folder, path = os.path.abspath(directory), os.path.abspath(text)
    return os.path.commonpath([folder, path]) == folder and path != folder
