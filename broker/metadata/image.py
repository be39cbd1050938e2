"""The metadata image: the state that operators can change, immutable and replaced at each commit.

broker.api reads it on every request, broker.controller for planning; broker.partitions applies its changes.
Built from the latest row of each key in the metadata log; independent of SQLite. Its maps are plain dicts
typed as `Mapping` and never modified.
"""

import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from broker.common.errors import BrokerBug
from broker.common.temporary_limits import TemporaryLimit, read_temporary
from broker.metadata import alerts
from broker.metadata.actor import Role
from broker.metadata.alerts import DestinationEntry, RuleEntry, SilenceEntry
from broker.metadata.changes import NOTES, SHADOW, ChangeKind, EntityPairs, Unreadable, read_pairs
from broker.security.acl.acl import Acl, read_acl
from broker.security.passwords import Cost, StoredPassword

INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__share_group_state", "__transaction_state"})
OUR_TOPICS: Final = "__weir_"
"""The prefix of the topics for the broker's own events."""

MAX_NAME_LENGTH: Final = 249
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+\Z")

_K = TypeVar("_K")
_V = TypeVar("_V")


def is_internal(topic: str) -> bool:
    """Whether the broker stores its own data in a topic of this name, so that clients cannot write to it."""
    return topic in INTERNAL_TOPICS or topic.startswith(OUR_TOPICS)


def is_reserved(topic: str) -> bool:
    """Return whether Weir alone creates a topic of this name: its own ones, and those that would collide with
    them, as Kafka takes periods and underscores for equal.
    """
    return topic.replace(".", "_").startswith(OUR_TOPICS)


def name_problem(name: str) -> str | None:
    """Return why no topic can have this name, or None. (Kafka: Topic.validate)"""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > MAX_NAME_LENGTH:
        limit = MAX_NAME_LENGTH
        return f"the length of '{name[:limit]}...' is longer than the max allowed length {limit}"
    if not _LEGAL.match(name):
        return f"{name!a} contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


class Stamp(NamedTuple):
    """The latest row of one key: value (None: removed), time and actor."""

    value: str | None
    seq: int
    time_ms: int
    actor: str


_PART_OF: Final[Mapping[str, str]] = {
    ChangeKind.TOPIC_CONFIG: ChangeKind.TOPIC,
    ChangeKind.TEMPORARY_QUOTA: ChangeKind.CLIENT_QUOTA,
}
"""The kinds whose entities are those of another kind."""

State = dict[tuple[str, str], dict[str, Stamp]]
"""(kind, entity) -> key -> latest row. Removed keys stay, because an entity's version outlives its values."""


class Topic(msgspec.Struct, frozen=True):
    """`topic_id` has 16 bytes; a topic that is deleted and created again gets a new one. `configs` are its
    own settings only. `version` increases with each change of the topic or of its settings.
    """

    name: str
    topic_id: bytes
    partitions: int
    configs: Mapping[str, str]
    version: int = 0

    @property
    def internal(self) -> bool:
        """Whether the broker stores its own data in it."""
        return is_internal(self.name)


class Limit(msgspec.Struct, frozen=True):
    value: float
    changed_at_ms: int
    changed_by: str


class Temporary(msgspec.Struct, frozen=True):
    """A temporary limit and the `permanent` one below it, if any. `is_active`, and `changes_at_ms`, when it
    begins or ends next, are as broker.controller.quotas_in_force last found them.
    """

    limit: TemporaryLimit
    changed_at_ms: int
    changed_by: str
    permanent: Limit | None
    is_active: bool = False
    changes_at_ms: int | None = None


_NO_TEMPORARIES: Final[Mapping[str, Temporary]] = {}


class QuotaEntry(msgspec.Struct, frozen=True):
    """One entity with at least one limit. `version` increases with each change of its limits, including
    removals. `shadow`: its limits are measured, not enforced.

    `limits` are those in force at a server (`Control.image`), and the permanent ones in what the metadata
    store returns. `temporary` limits have keys of their own or those of `limits`.
    """

    entity: EntityPairs
    limits: Mapping[str, Limit]
    version: int
    changed_at_ms: int
    changed_by: str
    shadow: bool = False
    temporary: Mapping[str, Temporary] = _NO_TEMPORARIES

    @property
    def permanent(self) -> Mapping[str, Limit]:
        """Return the limits that apply without the temporary ones."""
        if not self.temporary:
            return self.limits
        below = {key: each.permanent for key, each in self.temporary.items()}
        return {key: limit for key, limit in {**self.limits, **below}.items() if limit is not None}


class SubscriptionEntry(msgspec.Struct, frozen=True):
    """One client metrics subscription (KIP-714) with at least one setting; `version` as a quota's."""

    name: str
    configs: Mapping[str, str]
    version: int
    changed_at_ms: int
    changed_by: str


@dataclass(frozen=True, slots=True)
class AdminToken:
    """`digest` is of `salt` and the secret, as broker.controller.tokens creates it; the secret itself is not
    stored.

    `expires_at_ms` is wall-clock, None: never. `version` is the `seq` of the last change of the token or of
    its password, which was set at `password_at_ms`.
    """

    name: str
    role: Role
    salt: bytes
    digest: bytes
    changed_at_ms: int
    changed_by: str
    version: int
    expires_at_ms: int | None = None
    password: StoredPassword | None = field(default=None, repr=False)
    password_at_ms: int | None = None


class ScramCredential(NamedTuple):
    """The stored form of a user's password for one mechanism, as broker.security.scram creates it. `version`
    is the `seq` of its last change.
    """

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes
    version: int
    changed_at_ms: int
    changed_by: str


class DelegationToken(NamedTuple):
    """A delegation token by its id. Principals are texts such as "User:ann"; times are wall-clock.

    Its HMAC is not stored. `version` is the `seq` of its last change.
    """

    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    max_ms: int
    expires_ms: int
    version: int
    changed_at_ms: int
    changed_by: str

    @property
    def parties(self) -> tuple[str, ...]:
        """Return the principals that may see the token."""
        return (self.owner, self.requester, *self.renewers)

    def is_expired(self, now_ms: int) -> bool:
        """Return whether the token has expired. It is still valid in its last millisecond."""
        return self.expires_ms < now_ms


class AclEntry(NamedTuple):
    """When an ACL was created, and by whom. `version` is the `seq` of its creation."""

    version: int
    changed_at_ms: int
    changed_by: str


class Image(msgspec.Struct, frozen=True):
    """`version` is the `seq` of the last change. `broker_configs` is by node id as text, "" for all brokers;
    `broker_config_changes` contains the `seq` of the last change of each. `client_metrics` is by subscription
    name; `scram` by user, then by mechanism; `delegation_tokens` by id; `group_configs` by group id.
    """

    version: int = 0
    cluster_id: str = ""
    topics: Mapping[str, Topic] = msgspec.field(default_factory=dict)
    topics_by_id: Mapping[bytes, Topic] = msgspec.field(default_factory=dict)
    quotas: Mapping[EntityPairs, QuotaEntry] = msgspec.field(default_factory=dict)
    broker_configs: Mapping[str, Mapping[str, str]] = msgspec.field(default_factory=dict)
    broker_config_changes: Mapping[str, int] = msgspec.field(default_factory=dict)
    client_metrics: Mapping[str, SubscriptionEntry] = msgspec.field(default_factory=dict)
    next_producer_id: int = 0
    tokens: Mapping[str, AdminToken] = msgspec.field(default_factory=dict)
    scram: Mapping[str, Mapping[str, ScramCredential]] = msgspec.field(default_factory=dict)
    delegation_tokens: Mapping[str, DelegationToken] = msgspec.field(default_factory=dict)
    acls: Mapping[Acl, AclEntry] = msgspec.field(default_factory=dict)
    group_configs: Mapping[str, Mapping[str, str]] = msgspec.field(default_factory=dict)
    alert_rules: Mapping[str, RuleEntry] = msgspec.field(default_factory=dict)
    alert_destinations: Mapping[str, DestinationEntry] = msgspec.field(default_factory=dict)
    alert_silences: Mapping[str, SilenceEntry] = msgspec.field(default_factory=dict)

    def dynamic_configs(self, node_id: int) -> dict[str, str]:
        """Return the effective dynamic settings of one broker: its own over those of all brokers."""
        return {**self.broker_configs.get("", {}), **self.broker_configs.get(str(node_id), {})}

    def broker_config_version(self, name: str) -> int:
        """Return the version of the effective settings of the broker with this node id, "" for all brokers.

        It increases with each change of the broker's own settings or those of all. 0: never set.
        """
        return max(self.broker_config_changes.get(level, 0) for level in {name, ""})


def project(base: Image, state: State, touched: Iterable[tuple[str, str]], version: int) -> Image:
    """Return `base` with the touched entities as in `state`. Copies only the maps that change."""
    names: dict[str, list[str]] = {}
    for kind, entity in touched:
        names.setdefault(_PART_OF.get(kind, kind), []).append(entity)
    image = replace(base, version=version)
    for kind, entities in names.items():
        stamps = ((entity, state[kind, entity]) for entity in entities)
        match kind:
            case ChangeKind.CLUSTER:
                image = replace(image, cluster_id=_value(state, kind, "", "id") or "")
            case ChangeKind.PRODUCER_IDS:
                image = replace(image, next_producer_id=int(_value(state, kind, "", "next") or 0))
            case ChangeKind.TOPIC:
                image = _with_topics(image, state, entities)
            case ChangeKind.CLIENT_QUOTA:
                quotas = dict(image.quotas)
                for entity in entities:
                    _put(quotas, read_pairs(entity), _quota_entry(entity, state))
                image = replace(image, quotas=quotas)
            case ChangeKind.BROKER_CONFIG:
                last = dict(image.broker_config_changes)
                for entity in entities:
                    last[entity] = max(stamp.seq for stamp in state[kind, entity].values())
                configs = _with(image.broker_configs, stamps, _settings)
                image = replace(image, broker_configs=configs, broker_config_changes=last)
            case ChangeKind.CLIENT_METRICS:
                subscriptions = _with(image.client_metrics, stamps, _subscription)
                image = replace(image, client_metrics=subscriptions)
            case ChangeKind.GROUP_CONFIG:
                image = replace(image, group_configs=_with(image.group_configs, stamps, _settings))
            case ChangeKind.ADMIN_TOKEN:
                image = replace(image, tokens=_with(image.tokens, stamps, _token))
            case ChangeKind.USER_SCRAM:
                image = replace(image, scram=_with(image.scram, stamps, _scram_credentials))
            case ChangeKind.DELEGATION_TOKEN:
                delegated = _with(image.delegation_tokens, stamps, _delegation_token)
                image = replace(image, delegation_tokens=delegated)
            case ChangeKind.ACL:
                acls = dict(image.acls)
                for entity in entities:
                    for key, stamp in state[kind, entity].items():
                        _put(acls, read_acl(entity, key), _acl_entry(stamp))
                image = replace(image, acls=acls)
            case ChangeKind.ALERT_RULE:
                image = replace(image, alert_rules=_with(image.alert_rules, stamps, _alert_rule))
            case ChangeKind.ALERT_DESTINATION:
                destinations = _with(image.alert_destinations, stamps, _alert_destination)
                image = replace(image, alert_destinations=destinations)
            case ChangeKind.ALERT_SILENCE:
                silences = _with(image.alert_silences, stamps, _alert_silence)
                image = replace(image, alert_silences=silences)
            case note if note in NOTES:
                pass
            case _:
                raise BrokerBug(f"unknown kind of change {kind!r}")
    return image


def _with_topics(image: Image, state: State, names: Iterable[str]) -> Image:
    topics, by_id = dict(image.topics), dict(image.topics_by_id)
    for name in names:
        known = topics.pop(name, None)
        if known is not None:
            del by_id[known.topic_id]
        topic = _topic(name, state)
        if topic is not None:
            topics[name] = by_id[topic.topic_id] = topic
    return replace(image, topics=topics, topics_by_id=by_id)


def _topic(name: str, state: State) -> Topic | None:
    stamps, own = state.get((ChangeKind.TOPIC, name), {}), state.get((ChangeKind.TOPIC_CONFIG, name), {})
    facts = _present(stamps)
    if not facts:
        return None
    version = max(stamp.seq for stamp in (*stamps.values(), *own.values()))
    return Topic(name, bytes.fromhex(facts["id"]), int(facts["partitions"]), _present(own), version)


def _quota_entry(entity: str, state: State) -> QuotaEntry | None:
    stamps = state.get((ChangeKind.CLIENT_QUOTA, entity), {})
    temporary_stamps = state.get((ChangeKind.TEMPORARY_QUOTA, entity), {})
    limits = {
        key: Limit(float(stamp.value), stamp.time_ms, stamp.actor)
        for key, stamp in sorted(stamps.items())
        if stamp.value is not None and key != SHADOW
    }
    temporary = {
        key: Temporary(read_temporary(stamp.value), stamp.time_ms, stamp.actor, limits.get(key))
        for key, stamp in sorted(temporary_stamps.items())
        if stamp.value is not None
    }
    if not limits and not temporary:
        return None
    last = max((*stamps.values(), *temporary_stamps.values()), key=lambda stamp: stamp.seq)
    mark = stamps.get(SHADOW)
    shadow = mark is not None and mark.value is not None
    return QuotaEntry(
        read_pairs(entity),
        limits,
        last.seq,
        last.time_ms,
        last.actor,
        shadow,
        temporary or _NO_TEMPORARIES,
    )


def _subscription(name: str, stamps: Mapping[str, Stamp]) -> SubscriptionEntry | None:
    configs = _present(stamps)
    if not configs:
        return None
    last = max(stamps.values(), key=lambda stamp: stamp.seq)
    return SubscriptionEntry(name, configs, last.seq, last.time_ms, last.actor)


def _token(name: str, stamps: Mapping[str, Stamp]) -> AdminToken | None:
    stamp = stamps.get("token")
    if stamp is None or stamp.value is None:
        return None
    parts = json.loads(stamp.value)
    salt, digest = bytes.fromhex(parts["salt"]), bytes.fromhex(parts["digest"])
    role, expires_at_ms = Role[parts["role"]], parts.get("expires_at_ms")
    version = max(each.seq for each in stamps.values())
    token = AdminToken(name, role, salt, digest, stamp.time_ms, stamp.actor, version, expires_at_ms)
    password = stamps.get("password")
    if password is None or password.value is None:
        return token
    return dataclasses.replace(token, password=_password(password.value), password_at_ms=password.time_ms)


def _password(text: str) -> StoredPassword:
    parts = json.loads(text)
    salt, digest = bytes.fromhex(parts["salt"]), bytes.fromhex(parts["digest"])
    return StoredPassword(salt, Cost(parts["n"], parts["r"], parts["p"]), digest)


def _scram_credentials(_name: str, stamps: Mapping[str, Stamp]) -> dict[str, ScramCredential] | None:
    found = {}
    for mechanism, stamp in sorted(stamps.items()):
        if stamp.value is not None:
            parts = json.loads(stamp.value)
            salt, stored, server = (bytes.fromhex(parts[key]) for key in ("salt", "stored_key", "server_key"))
            found[mechanism] = ScramCredential(
                salt, parts["iterations"], stored, server, stamp.seq, stamp.time_ms, stamp.actor
            )
    return found or None


def _delegation_token(_token_id: str, stamps: Mapping[str, Stamp]) -> DelegationToken | None:
    values = _present(stamps)
    if "token" not in values or "expires_ms" not in values:
        return None
    facts = json.loads(values["token"])
    last = max(stamps.values(), key=lambda stamp: stamp.seq)
    return DelegationToken(
        facts["owner"],
        facts["requester"],
        tuple(facts["renewers"]),
        facts["issued_ms"],
        facts["max_ms"],
        int(values["expires_ms"]),
        last.seq,
        last.time_ms,
        last.actor,
    )


def _acl_entry(stamp: Stamp) -> AclEntry | None:
    return None if stamp.value is None else AclEntry(stamp.seq, stamp.time_ms, stamp.actor)


def _alert_rule(name: str, stamps: Mapping[str, Stamp]) -> RuleEntry | None:
    stamp = stamps.get(alerts.RULE)
    if stamp is None or stamp.value is None:
        return None
    return RuleEntry(name, alerts.read_rule(stamp.value), stamp.seq, stamp.time_ms, stamp.actor)


def _alert_destination(name: str, stamps: Mapping[str, Stamp]) -> DestinationEntry | None:
    stamp = stamps.get(alerts.DESTINATION)
    if stamp is None or stamp.value is None:
        return None
    known = None if isinstance(stamp.value, Unreadable) else alerts.read_destination(stamp.value)
    return DestinationEntry(name, known, stamp.seq, stamp.time_ms, stamp.actor)


def _alert_silence(name: str, stamps: Mapping[str, Stamp]) -> SilenceEntry | None:
    stamp = stamps.get(alerts.SILENCE)
    if stamp is None or stamp.value is None:
        return None
    return SilenceEntry(name, alerts.read_silence(stamp.value), stamp.seq, stamp.time_ms, stamp.actor)


def _settings(_entity: str, stamps: Mapping[str, Stamp]) -> dict[str, str] | None:
    return _present(stamps) or None


def _present(stamps: Mapping[str, Stamp]) -> dict[str, str]:
    return {key: stamp.value for key, stamp in sorted(stamps.items()) if stamp.value is not None}


def _value(state: State, kind: str, entity: str, key: str) -> str | None:
    return state[kind, entity][key].value


def _with(
    known: Mapping[str, _V],
    stamps: Iterable[tuple[str, Mapping[str, Stamp]]],
    make: Callable[[str, Mapping[str, Stamp]], _V | None],
) -> dict[str, _V]:
    """Return a copy of `known` with the values that `make` returns; None removes an entity."""
    changed = dict(known)
    for entity, of_entity in stamps:
        _put(changed, entity, make(entity, of_entity))
    return changed


def _put(mapping: dict[_K, _V], key: _K, value: _V | None) -> None:
    if value is None:
        mapping.pop(key, None)
    else:
        mapping[key] = value
