"""All live changes as values, with their result types.

Built by the Kafka admin handlers (broker.api), the REST endpoints and pages (webui) and the command line. Run
by `Control.apply(command, actor)`, which returns the command's result type. Independent of wire versions,
forms and JSON.

A command holds the unvalidated request: -1 still means "the default", and an entity can be invalid. A command
can have many entries; each is accepted or refused individually, as in Kafka. The parts of one entry succeed
or fail together.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Generic, TypeVar

import msgspec

from broker.common.errors import ErrorCode
from broker.common.temporary_limits import TemporaryLimit
from broker.metadata.actor import BROKER_ITSELF, UPSTREAM_CLUSTER, Actor, ChangeOrigin, Role, lacks_role
from broker.quotas.entity import EntityPairs
from broker.security.acl.acl import Acl, AclFilter

__all__ = [
    "BROKER_ITSELF",
    "UPSTREAM_CLUSTER",
    "AclDeletion",
    "Actor",
    "AllocateProducerIds",
    "AlterClientQuotas",
    "AlterUserScramCredentials",
    "ChangeOrigin",
    "Command",
    "ConfigAlteration",
    "ConfigOp",
    "ConfigResource",
    "CreateAcls",
    "CreatePartitions",
    "CreateTopics",
    "DeleteAcls",
    "DeleteTopics",
    "EntityPairs",
    "EntryOutcome",
    "IncrementalAlterConfigs",
    "IssueAdminToken",
    "IssuedToken",
    "NewPartitions",
    "NewTopic",
    "OpType",
    "PartitionsOutcome",
    "ProducerIdBlock",
    "QuotaAlteration",
    "QuotaOp",
    "QuotaOutcome",
    "ResourceOutcome",
    "ResourceType",
    "RevokeAdminToken",
    "Role",
    "ScramDeletion",
    "ScramUpsertion",
    "TemporaryOp",
    "TopicOutcome",
    "TopicRef",
    "Undo",
    "UserOutcome",
    "lacks_role",
]

Result = TypeVar("Result")


class Command(Generic[Result]):
    """The argument of `Control.apply`; `Result` is its result type."""

    __slots__ = ()


class EntryOutcome(msgspec.Struct, frozen=True):
    """The result of one entry: `error` NONE without a message, or Kafka's code with a sentence."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None

    @property
    def ok(self) -> bool:
        return self.error is ErrorCode.NONE


# Client quotas (AlterClientQuotas, KIP-546). Role: editor.


class QuotaOp(msgspec.Struct, frozen=True):
    """Set `key` to `value` (bytes/s, percent or mutations/s), or remove it where value is None."""

    key: str
    value: float | None


class TemporaryOp(msgspec.Struct, frozen=True):
    """Set a temporary value of `key`, in place of an earlier one, or end it where limit is None. The
    permanent limit stays.
    """

    key: str
    limit: TemporaryLimit | None


class QuotaAlteration(msgspec.Struct, frozen=True):
    """`expected_version` is the version of the `QuotaRow` that the editor saw (0: no such row); None skips
    the check.

    If the version differs, the result is INVALID_UPDATE_VERSION, so that administrators do not overwrite each
    other's changes. `shadow`: True measures the entity's limits without enforcing them, False enforces them,
    None leaves the mode unchanged.
    """

    entity: EntityPairs
    ops: tuple[QuotaOp, ...]
    expected_version: int | None = None
    shadow: bool | None = None
    temporary: tuple[TemporaryOp, ...] = ()


class AlterClientQuotas(msgspec.Struct, Command["list[QuotaOutcome]"], frozen=True):
    """One result per entry, in order. `all_or_none`: if an entry is refused, none changes anything."""

    entries: tuple[QuotaAlteration, ...]
    validate_only: bool = False
    all_or_none: bool = False


class QuotaOutcome(EntryOutcome, frozen=True):
    """`warnings` concern accepted limits that cannot have the apparent effect."""

    entity: EntityPairs = ()
    warnings: tuple[str, ...] = ()


# Topics. Role: editor; deleting them: admin.


class NewTopic(msgspec.Struct, frozen=True):
    """`partitions` and `replication_factor` -1: the broker's default. `assignments`: partition index ->
    broker ids.

    `configs` and `assignments` are pairs, not mappings, because a request can contain a key twice.
    """

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: tuple[tuple[str, str | None], ...] = ()
    assignments: tuple[tuple[int, tuple[int, ...]], ...] = ()


Charge = Callable[[int], None]
"""Charges the client for partitions that are about to be created or removed, one topic at a time.

Raises ApiError THROTTLING_QUOTA_EXCEEDED, charging nothing, if refused (KIP-599).
"""


def free(partitions: int) -> None:
    """No-op charge for operator and internal changes."""


@dataclass(frozen=True, slots=True)
class CreateTopics(Command["list[TopicOutcome]"]):
    """One result per distinct name, in order."""

    topics: tuple[NewTopic, ...]
    validate_only: bool = False
    charge: Charge = field(default=free, repr=False, compare=False)


class TopicRef(msgspec.Struct, frozen=True):
    """A topic by name or by its 16-byte id; a request with both or neither is refused. `expected_version` as
    in `QuotaAlteration`.
    """

    name: str | None = None
    topic_id: bytes | None = None
    expected_version: int | None = None


@dataclass(frozen=True, slots=True)
class DeleteTopics(Command["list[TopicOutcome]"]):
    """One result per distinct reference, in order; one for a topic that is named by its name and its id."""

    topics: tuple[TopicRef, ...]
    charge: Charge = field(default=free, repr=False, compare=False)


class TopicOutcome(EntryOutcome, frozen=True):
    """`name` is None only for an unknown id. The counts are set if the topic was (or would be) created.

    `configs` contains the topic's own settings, not the defaults.
    """

    name: str | None = None
    topic_id: bytes = bytes(16)
    partitions: int = -1
    replication_factor: int = -1
    configs: tuple[tuple[str, str], ...] = ()


class NewPartitions(msgspec.Struct, frozen=True):
    """`count` is the new total. `assignments`: broker ids of each added partition; None lets the broker
    choose. `expected_version` as in `QuotaAlteration`.
    """

    topic: str
    count: int
    assignments: tuple[tuple[int, ...], ...] | None = None
    expected_version: int | None = None


@dataclass(frozen=True, slots=True)
class CreatePartitions(Command["list[PartitionsOutcome]"]):
    """One result per distinct topic, in order."""

    topics: tuple[NewPartitions, ...]
    validate_only: bool = False
    charge: Charge = field(default=free, repr=False, compare=False)


class PartitionsOutcome(EntryOutcome, frozen=True):
    """`before` is the number that the upstream cluster had, of a topic that exists; None at a broker."""

    topic: str = ""
    before: int | None = None


# Configuration (IncrementalAlterConfigs, KIP-339). Role: editor for topics and client metrics, admin for the
# broker and its loggers.


class ResourceType(IntEnum):
    """Kafka's ConfigResource.Type, as on the wire."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class OpType(IntEnum):
    """Kafka's AlterConfigOp.OpType, as on the wire. APPEND and SUBTRACT work on list-valued keys."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigResource(msgspec.Struct, frozen=True):
    """`type` and the op's `op` stay plain ints, because a request can contain unknown numbers.

    The name of a broker and of its loggers is the node id; the empty name means the cluster-wide default of
    all brokers.
    """

    type: int
    name: str


class ConfigOp(msgspec.Struct, frozen=True):
    key: str
    op: int
    value: str | None = None


class ConfigAlteration(msgspec.Struct, frozen=True):
    """`expected_version` as in `QuotaAlteration`; topics, brokers and subscriptions have one."""

    resource: ConfigResource
    ops: tuple[ConfigOp, ...]
    expected_version: int | None = None


class IncrementalAlterConfigs(msgspec.Struct, Command["list[ResourceOutcome]"], frozen=True):
    """One result per resource, in order. `replaces` removes the settings of a resource that its ops do not
    name, as the older AlterConfigs does. `all_or_none` as in `AlterClientQuotas`.
    """

    resources: tuple[ConfigAlteration, ...]
    validate_only: bool = False
    replaces: bool = False
    all_or_none: bool = False


class ResourceOutcome(EntryOutcome, frozen=True):
    """`warnings` concern accepted settings that cannot have the apparent effect."""

    resource: ConfigResource = ConfigResource(0, "")
    warnings: tuple[str, ...] = ()


# The broker itself. Role: admin.


class AllocateProducerIds(msgspec.Struct, Command["ProducerIdBlock"], frozen=True):
    """Returns a ProducerIdBlock that never overlaps another one, also after a restart."""

    count: int = 1000


class ProducerIdBlock(msgspec.Struct, frozen=True):
    first: int
    count: int


class IssueAdminToken(msgspec.Struct, Command["IssuedToken"], frozen=True):
    """A new token for the console and the REST API: 256 random bits or the given `secret`. Returns
    IssuedToken.

    A token of the same name is replaced; `expected_version` as in `QuotaAlteration`. The token is invalid
    from `expires_at_ms` (wall-clock) on; None: it does not expire.
    """

    name: str
    role: Role
    secret: str | None = None
    expires_at_ms: int | None = None
    expected_version: int | None = None


class IssuedToken(msgspec.Struct, frozen=True):
    """The only copy of the secret: the store contains its hash."""

    name: str
    role: Role
    secret: str

    def __repr__(self) -> str:
        return f"IssuedToken(name={self.name!r}, role={self.role.name}, secret=...)"


class RevokeAdminToken(msgspec.Struct, Command["EntryOutcome"], frozen=True):
    """Returns EntryOutcome: RESOURCE_NOT_FOUND if there is no such token. `expected_version` as in
    `QuotaAlteration`.
    """

    name: str
    expected_version: int | None = None


class Undo(msgspec.Struct, Command["EntryOutcome"], frozen=True):
    """Restores the old value of audit row `seq` as a new change. Role: that of the change. Returns
    EntryOutcome.

    Refused with INVALID_UPDATE_VERSION if the value has been changed since.
    """

    seq: int
    validate_only: bool = False


# SCRAM credentials (AlterUserScramCredentials, KIP-554). Role: admin.


class ScramDeletion(msgspec.Struct, frozen=True):
    """`mechanism` is the protocol's number; `expected_version` as in `QuotaAlteration`."""

    user: str
    mechanism: int
    expected_version: int | None = None


@dataclass(frozen=True, slots=True)
class ScramUpsertion:
    """The password is salted already; `salted_password` is as sensitive as the password. `expected_version`
    as in `QuotaAlteration`.
    """

    user: str
    mechanism: int
    iterations: int
    salt: bytes = field(repr=False)
    salted_password: bytes = field(repr=False)
    expected_version: int | None = None


class AlterUserScramCredentials(msgspec.Struct, Command["list[UserOutcome]"], frozen=True):
    """One result per distinct user, in order; a command can alter a user once."""

    alterations: tuple[ScramDeletion | ScramUpsertion, ...]
    validate_only: bool = False


class UserOutcome(EntryOutcome, frozen=True):
    user: str = ""


# ACLs (CreateAcls, DeleteAcls). Role: admin.


class CreateAcls(msgspec.Struct, Command["list[EntryOutcome]"], frozen=True):
    """One result per ACL, in order. An ACL that exists is a success and changes nothing."""

    acls: tuple[Acl, ...]
    validate_only: bool = False


class DeleteAcls(msgspec.Struct, Command["list[AclDeletion]"], frozen=True):
    """One result per filter, in order. All ACLs that any of the filters matches are deleted together."""

    filters: tuple[AclFilter, ...]
    validate_only: bool = False


class AclDeletion(EntryOutcome, frozen=True):
    """`deleted` are the ACLs that the filter matches."""

    deleted: tuple[Acl, ...] = ()


class DrainGateway(msgspec.Struct, Command["EntryOutcome"], frozen=True):
    """Role: admin. Begins the drain of this gateway, or does nothing if it has begun."""


class CloseConnection(msgspec.Struct, Command["EntryOutcome"], frozen=True):
    """Role: editor. Returns Outcome: RESOURCE_NOT_FOUND if it is already closed."""

    connection_id: str
