"""The views of the console, made of what was read of the upstream cluster."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from msgspec.structs import replace

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Steps
from broker.controller.commands import ConfigResource, ResourceType
from broker.controller.control import Committer, Control
from broker.controller.rows.broker import ConfigRow, ScramRow
from broker.controller.rows.topics import (
    GroupDetail,
    GroupRow,
    PartitionRow,
    TopicGroupRow,
    TopicRow,
    TransactionDetail,
    TransactionRow,
)
from broker.gateway.contents.access import AUTHORIZER, OPEN, SUPER_USERS, AuthorizerSettings
from broker.gateway.contents.readings import UpstreamReadings
from broker.gateway.contents.topics import TopicContents
from broker.metadata.image import Image
from broker.security.acl.authorizer import Authorizer
from broker.views.acls import Acl, AclDecision, AclFilter, AclRow, AclViews, DecidedBy, decision_of
from broker.views.metadata import MetadataViews
from broker.views.readings import Part
from broker.views.topics import TopicViews


class ClusterTopics(TopicViews):
    """The topics, groups and transactions of the upstream cluster, as last read."""

    def __init__(self, image: Callable[[], Image], readings: UpstreamReadings) -> None:
        super().__init__(image)
        self._readings = readings

    def each_topic(self) -> Iterator[TopicRow]:
        return (each.row for each in self._topics().values())

    def has_topic(self, name: str) -> bool:
        return name in self._topics()

    def topic_id(self, name: str) -> bytes | None:
        found = self._topics().get(name)
        return None if found is None else found.row.topic_id

    def topic(self, name: str) -> TopicRow | None:
        found = self._topics().get(name)
        return None if found is None else found.row

    def partitions(self, topic: str) -> Iterator[PartitionRow]:
        found = self._topics().get(topic)
        return iter(()) if found is None else found.partitions()

    def topics_of_groups(self) -> Iterator[Iterable[str] | None] | None:
        self._readings.want(Part.GROUPS)
        if self._readings.value(Part.GROUPS) is None:
            return None
        return (row.by_topic or () for row in self.each_group())

    def groups_of_topic(self, topic: str) -> Steps[list[TopicGroupRow]]:
        found = []
        for row in self.each_group():
            if row.by_topic is not None and topic in row.by_topic:
                lag = row.by_topic[topic]
                found.append(TopicGroupRow(row.group_id, row.state, row.group_type, row.members, lag))
            yield
        return found

    def each_group(self) -> Iterator[GroupRow]:
        return iter((self._readings.value(Part.GROUPS) or {}).values())

    def has_group(self, group_id: str) -> bool:
        return group_id in (self._readings.value(Part.GROUPS) or {})

    def group(self, group_id: str) -> Steps[GroupDetail | None]:
        yield
        found: GroupDetail | None = self._readings.value(Part.GROUP, group_id)
        return found

    def each_transaction(self) -> Iterator[TransactionRow]:
        return iter((self._readings.value(Part.TRANSACTIONS) or {}).values())

    def transaction(self, transactional_id: str) -> Steps[TransactionDetail | None]:
        yield
        found: TransactionDetail | None = self._readings.value(Part.TRANSACTION, transactional_id)
        return found

    def _topics(self) -> Mapping[str, TopicContents]:
        return self._readings.value(Part.TOPICS) or {}


class ClusterAcls(AclViews):
    """The ACLs of the upstream cluster, as last read, and what follows from them."""

    def __init__(self, image: Callable[[], Image], readings: UpstreamReadings) -> None:
        super().__init__(image, None)
        self._readings = readings
        self._made: tuple[object, AuthorizerSettings, Authorizer] | None = None

    @property
    def has_authorizer(self) -> bool:
        error = self._readings.error(Part.ACLS)
        return error is None or error.code is not ErrorCode.SECURITY_DISABLED

    def each(self, wanted: AclFilter = AclFilter()) -> Iterator[AclRow | None]:  # noqa: B008 - immutable
        return (AclRow(acl, None, "") if wanted.matches(acl) else None for acl in self._acls())

    def one(self, acl: Acl) -> AclRow | None:
        return AclRow(acl, None, "") if acl in self._acls() else None

    def decide(
        self, principal: str, host: str, operation: int, resource_type: int, name: str
    ) -> Steps[AclDecision | None]:
        """As at a broker, by the same authorizer. A setting that the cluster does not tell counts as Kafka's
        default, and is named if it could change the decision.
        """
        if not self.has_authorizer:
            return None
        settings: AuthorizerSettings = self._readings.value(Part.AUTHORIZER) or AuthorizerSettings()
        authorizer = yield from self._authorizer_of(settings)
        found = decision_of(authorizer, principal, host, operation, resource_type, name)
        unknown = [] if settings.is_kafkas else [AUTHORIZER]
        if settings.is_open is None and found.decided_by is DecidedBy.NO_ACL_FOUND:
            found = AclDecision(False, DecidedBy.NO_ACL_ALLOWS)
            unknown.append(OPEN)
        if settings.super_users is None and not found.is_allowed:
            unknown.insert(0, SUPER_USERS)
        return replace(found, unknown=tuple(unknown))

    def _authorizer_of(self, settings: AuthorizerSettings) -> Steps[Authorizer]:
        """Return the authorizer of the ACLs that were read last. One for whom it is not known whether
        everything without an ACL is allowed allows it.
        """
        acls = self._acls()
        if self._made is None or self._made[0] is not acls or self._made[1] != settings:
            made = Authorizer((), settings.super_users or (), is_open=settings.is_open is not False)
            yield from made.update(acls, ())
            self._made = acls, settings, made
            return made
        return self._made[2]

    def _acls(self) -> Collection[Acl]:
        return self._readings.value(Part.ACLS) or {}


class ClusterMetadata(MetadataViews):
    """The gateway's own metadata, with the settings of the upstream cluster's topics and nodes, and its SCRAM
    users unless the gateway `has_users` of its own.
    """

    def __init__(
        self, control: Control, committer: Committer, readings: UpstreamReadings, *, has_users: bool
    ) -> None:
        super().__init__(control, committer)
        self._readings = readings
        self._has_users = has_users

    def describe_configs(self, resource: ConfigResource) -> Steps[list[ConfigRow]]:
        if resource.type != ResourceType.TOPIC:
            return super().describe_configs(resource)
        return _read(self._readings.value(Part.TOPIC_CONFIGS, resource.name))

    def has_effect(self, key: str) -> bool:
        return True

    def describe_node(self, node_id: int) -> list[ConfigRow]:
        return self._readings.value(Part.NODE_CONFIGS, str(node_id)) or []

    def scram_users(self) -> Iterator[ScramRow]:
        return super().scram_users() if self._has_users else iter(self._users().values())

    def scram_user(self, user: str, mechanism: str) -> ScramRow | None:
        if self._has_users:
            return super().scram_user(user, mechanism)
        return self._users().get((user, mechanism))

    def _users(self) -> Mapping[tuple[str, str], ScramRow]:
        return self._readings.value(Part.SCRAM_USERS) or {}


def _read(rows: list[ConfigRow] | None) -> Steps[list[ConfigRow]]:
    yield
    if rows is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return rows
