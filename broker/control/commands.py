"""Every live change, as a value; and what each answers.

Built by the Kafka admin handlers (broker.api), the REST endpoints and the pages (webui) and the command line;
carried out by `Control.apply(command, actor)`, which answers with the command's result type. Knows nothing of
wire versions, forms or JSON.

A command holds what was asked for, unchecked: -1 still means "the default", an entity may still be nonsense.
One command can hold many entries, and each entry is accepted or refused by itself, as in Kafka; an entry's
own parts stand or fall together.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Generic, TypeVar

from broker.errors import ErrorCode
from broker.metadata.actor import BROKER_ITSELF, Actor, ChangeOrigin, Role
from broker.quotas.entity import EntityPairs

__all__ = [
    "BROKER_ITSELF",
    "Actor",
    "AllocateProducerIds",
    "AlterClientQuotas",
    "AlterUserScramCredentials",
    "ChangeOrigin",
    "Command",
    "ConfigAlteration",
    "ConfigOp",
    "ConfigResource",
    "CreatePartitions",
    "CreateTopics",
    "DeleteTopics",
    "EntityPairs",
    "IncrementalAlterConfigs",
    "IssueAdminToken",
    "IssuedToken",
    "NewPartitions",
    "NewTopic",
    "OpType",
    "Outcome",
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
    "TopicOutcome",
    "TopicRef",
    "Undo",
    "UserOutcome",
]

Answer = TypeVar("Answer")


class Command(Generic[Answer]):
    """What `Control.apply` takes; `Answer` is what it gives back."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one entry of a command fared: `error` NONE and no message, or Kafka's code and a sentence for the
    person who asked.
    """

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None

    @property
    def ok(self) -> bool:
        return self.error is ErrorCode.NONE


# Client quotas (AlterClientQuotas, KIP-546). Role: editor.


@dataclass(frozen=True, slots=True)
class QuotaOp:
    """Set `key` to `value` (bytes/s, percent or mutations/s), or remove it where value is None."""

    key: str
    value: float | None


@dataclass(frozen=True, slots=True)
class QuotaAlteration:
    """`expected_version` is the version of the `QuotaRow` that the editor saw (0: no such row); None does not
    ask.

    A row that has moved on answers INVALID_UPDATE_VERSION, so that two administrators cannot overwrite each
    other. `shadow`: from now on the entity's limits are measured and not enforced, or enforced (False); None
    leaves that as it is.
    """

    entity: EntityPairs
    ops: tuple[QuotaOp, ...]
    expected_version: int | None = None
    shadow: bool | None = None


@dataclass(frozen=True, slots=True)
class AlterClientQuotas(Command["list[QuotaOutcome]"]):
    """One answer per entry, in order."""

    entries: tuple[QuotaAlteration, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class QuotaOutcome(Outcome):
    """`warnings` are about limits that are accepted and cannot do what they seem to say."""

    entity: EntityPairs = ()
    warnings: tuple[str, ...] = ()


# Topics. Role: editor; deleting them: admin.


@dataclass(frozen=True, slots=True)
class NewTopic:
    """`partitions` and `replication_factor` -1: the broker's default. `assignments`: partition index ->
    broker ids.

    `configs` and `assignments` are pairs and not mappings because a request can name the same thing twice.
    """

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: tuple[tuple[str, str | None], ...] = ()
    assignments: tuple[tuple[int, tuple[int, ...]], ...] = ()


Charge = Callable[[int], None]
"""Charges who asks for so many partitions that are about to be made or removed, a topic at a time.
Raises ApiError THROTTLING_QUOTA_EXCEEDED, charging nothing, where that is refused (KIP-599).
"""


def free(partitions: int) -> None:
    """A `Charge` that nobody pays: the operator's own doors, and what the broker does by itself."""


@dataclass(frozen=True, slots=True)
class CreateTopics(Command["list[TopicOutcome]"]):
    """One answer per distinct name, in order."""

    topics: tuple[NewTopic, ...]
    validate_only: bool = False
    charge: Charge = field(default=free, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class TopicRef:
    """A topic by name or by its 16-byte id; a request that gives both or neither is refused."""

    name: str | None = None
    topic_id: bytes | None = None


@dataclass(frozen=True, slots=True)
class DeleteTopics(Command["list[TopicOutcome]"]):
    """One answer per distinct reference, in order."""

    topics: tuple[TopicRef, ...]
    charge: Charge = field(default=free, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class TopicOutcome(Outcome):
    """`name` is None only where an unknown id was asked for. The figures are set where the topic was (or
    would be) made.

    `configs` holds the topic's own settings, not the defaults.
    """

    name: str | None = None
    topic_id: bytes = bytes(16)
    partitions: int = -1
    replication_factor: int = -1
    configs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """`count` is the new total. `assignments`: broker ids of each added partition, or None to let the broker
    choose.
    """

    topic: str
    count: int
    assignments: tuple[tuple[int, ...], ...] | None = None


@dataclass(frozen=True, slots=True)
class CreatePartitions(Command["list[PartitionsOutcome]"]):
    """One answer per distinct topic, in order."""

    topics: tuple[NewPartitions, ...]
    validate_only: bool = False
    charge: Charge = field(default=free, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class PartitionsOutcome(Outcome):
    topic: str = ""


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


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """`type` and the op's `op` stay plain ints: a request may hold numbers that nobody knows.

    A broker and its loggers are named by its node id; the empty name is the cluster-wide default of all
    brokers.
    """

    type: int
    name: str


@dataclass(frozen=True, slots=True)
class ConfigOp:
    key: str
    op: int
    value: str | None = None


@dataclass(frozen=True, slots=True)
class ConfigAlteration:
    """`expected_version` as in `QuotaAlteration`; brokers and subscriptions to client metrics have one."""

    resource: ConfigResource
    ops: tuple[ConfigOp, ...]
    expected_version: int | None = None


@dataclass(frozen=True, slots=True)
class IncrementalAlterConfigs(Command["list[ResourceOutcome]"]):
    """One answer per resource, in order. `replaces`: what a resource has and its ops do not name is removed,
    which is the elder AlterConfigs.
    """

    resources: tuple[ConfigAlteration, ...]
    validate_only: bool = False
    replaces: bool = False


@dataclass(frozen=True, slots=True)
class ResourceOutcome(Outcome):
    resource: ConfigResource = ConfigResource(0, "")


# The broker's own. Role: admin.


@dataclass(frozen=True, slots=True)
class AllocateProducerIds(Command["ProducerIdBlock"]):
    """Answers a ProducerIdBlock that no other answer, before or after a restart, ever overlaps."""

    count: int = 1000


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class IssueAdminToken(Command["IssuedToken"]):
    """A new token for the console and the REST API, 256 random bits or the given `secret`. Answers
    IssuedToken.

    A token of the same name is replaced; `expected_version` as in `QuotaAlteration`. From `expires_at_ms`
    (wall-clock) on it is not good any more; None: good until it is revoked.
    """

    name: str
    role: Role
    secret: str | None = None
    expires_at_ms: int | None = None
    expected_version: int | None = None


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """The only moment at which the secret is readable: the store holds its hash."""

    name: str
    role: Role
    secret: str

    def __repr__(self) -> str:
        return f"IssuedToken(name={self.name!r}, role={self.role.name}, secret=...)"


@dataclass(frozen=True, slots=True)
class RevokeAdminToken(Command["Outcome"]):
    """Answers Outcome: RESOURCE_NOT_FOUND where there is none of that name. `expected_version` as in
    `QuotaAlteration`.
    """

    name: str
    expected_version: int | None = None


@dataclass(frozen=True, slots=True)
class Undo(Command["Outcome"]):
    """Puts the old value of audit row `seq` back, as a new change. Role: what the change itself needs.
    Answers Outcome.

    Refused with INVALID_UPDATE_VERSION where the value has been changed again since.
    """

    seq: int
    validate_only: bool = False


# SCRAM credentials (AlterUserScramCredentials, KIP-554). Role: admin.


@dataclass(frozen=True, slots=True)
class ScramDeletion:
    """`mechanism` is the protocol's number."""

    user: str
    mechanism: int


@dataclass(frozen=True, slots=True)
class ScramUpsertion:
    """The client has salted the password already; `salted_password` is as good as it."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes = field(repr=False)
    salted_password: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class AlterUserScramCredentials(Command["list[UserOutcome]"]):
    """One answer per distinct user, in order; a user can be altered once in a command."""

    alterations: tuple[ScramDeletion | ScramUpsertion, ...]


@dataclass(frozen=True, slots=True)
class UserOutcome(Outcome):
    user: str = ""
