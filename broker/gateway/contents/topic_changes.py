"""Changes of the upstream cluster's topics for an operator. Run by `Control` as operations.

The cluster validates and applies them. The audit trail has a row for each that it accepted.
"""

from collections.abc import Iterator
from typing import Any, Final

from broker.common.errors import ApiError, ErrorCode
from broker.controller.commands import (
    ConfigAlteration,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    IncrementalAlterConfigs,
    NewPartitions,
    NewTopic,
    OpType,
    PartitionsOutcome,
    ResourceOutcome,
    ResourceType,
    TopicOutcome,
)
from broker.controller.control import Control
from broker.controller.plan import Done, Situation
from broker.gateway.contents.asking import Asking, unavailable
from broker.gateway.contents.readings import UpstreamReadings
from broker.gateway.contents.refusals import Notes, error_of
from broker.gateway.contents.topics import TopicContents, read_topics
from broker.gateway.upstream.errors import UpstreamError
from broker.metadata.actor import Role
from broker.metadata.changes import Change, ChangeKind
from broker.metadata.image import is_reserved
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from broker.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from broker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from broker.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from broker.views.readings import Part

TIMEOUT_MS: Final = 8_000
"""How long the cluster may take for a change, less than the gateway waits for it."""


class TopicChanges:
    """The operations. Each command has one entry, as the console and REST send it, or several."""

    def __init__(self, asking: Asking, readings: UpstreamReadings) -> None:
        self._asking = asking
        self._readings = readings

    def register(self, control: Control) -> None:
        control.add_operation(CreateTopics, self.create)
        control.add_operation(DeleteTopics, self.delete)
        control.add_operation(CreatePartitions, self.add_partitions)
        control.add_operation(IncrementalAlterConfigs, self.configure, _is_about_topics)

    async def create(self, command: CreateTopics, at: Situation) -> Done[list[TopicOutcome]]:
        outcomes, notes = [], []
        for topic in command.topics:
            try:
                check(at, Role.EDITOR, topic.name)
                made = await self._create(topic, validate_only=command.validate_only)
            except ApiError as error:
                outcomes.append(TopicOutcome(error.code, error.message, topic.name))
                continue
            outcomes.append(
                TopicOutcome(
                    name=topic.name,
                    topic_id=bytes(made.topic_id),
                    partitions=made.num_partitions,
                    replication_factor=made.replication_factor,
                    configs=tuple((key, value or "") for key, value in topic.configs),
                )
            )
            if not command.validate_only:
                words = [f"{made.num_partitions} partitions", f"replication factor {made.replication_factor}"]
                words += [f"{key}={value}" for key, value in topic.configs]
                notes.append(_note(topic.name, "created", ", ".join(words)))
        return self._done(outcomes, notes)

    async def _create(self, topic: NewTopic, *, validate_only: bool) -> Any:
        configs = [CreatableTopicConfig(key, value) for key, value in topic.configs]
        wanted = CreatableTopic(topic.name, topic.partitions, topic.replication_factor, configs=configs)
        request = CreateTopicsRequest([wanted], TIMEOUT_MS, validate_only)
        response = await self._asking.change_at_controller(request)
        return _only(ApiKey.CREATE_TOPICS, response.topics, topic.name)

    async def delete(self, command: DeleteTopics, at: Situation) -> Done[list[TopicOutcome]]:
        outcomes, notes = [], []
        for ref in command.topics:
            name = ref.name or ""
            try:
                check(at, Role.ADMIN, name)
                known = await self._existing(name, ref.expected_version)
                await self._delete(name, known.row.topic_id)
            except ApiError as error:
                outcomes.append(TopicOutcome(error.code, error.message, name))
                continue
            outcomes.append(TopicOutcome(name=name))
            notes.append(_note(name, "deleted", f"{known.row.partitions} partitions"))
        return self._done(outcomes, notes)

    async def _delete(self, name: str, topic_id: bytes) -> None:
        """Delete this topic, and not another one of its name that is created in the meantime. (KIP-516)"""
        state = DeleteTopicState(None, topic_id) if any(topic_id) else DeleteTopicState(name)
        request = DeleteTopicsRequest([name], [state], TIMEOUT_MS)
        response = await self._asking.change_at_controller(request)
        _only(ApiKey.DELETE_TOPICS, response.responses, name)

    async def add_partitions(self, command: CreatePartitions, at: Situation) -> Done[list[PartitionsOutcome]]:
        """Run CreatePartitions. A topic that has so many partitions already is left as it is."""
        outcomes, notes = [], []
        for each in command.topics:
            before = None
            try:
                check(at, Role.EDITOR, each.topic)
                before = (await self._existing(each.topic, each.expected_version)).row.partitions
                if each.count != before:
                    await self._add_partitions(each, validate_only=command.validate_only)
            except ApiError as error:
                outcomes.append(PartitionsOutcome(error.code, error.message, each.topic, before))
                continue
            outcomes.append(PartitionsOutcome(topic=each.topic, before=before))
            if each.count != before and not command.validate_only:
                notes.append(_note(each.topic, "partitions", f"{before} to {each.count}"))
        return self._done(outcomes, notes)

    async def _add_partitions(self, wanted: NewPartitions, *, validate_only: bool) -> None:
        topics = [CreatePartitionsTopic(wanted.topic, wanted.count, None)]
        request = CreatePartitionsRequest(topics, TIMEOUT_MS, validate_only)
        response = await self._asking.change_at_controller(request)
        _only(ApiKey.CREATE_PARTITIONS, response.results, wanted.topic)

    async def configure(self, command: IncrementalAlterConfigs, at: Situation) -> Done[list[ResourceOutcome]]:
        outcomes: list[ResourceOutcome] = []
        notes: list[Change] = []
        for each in command.resources:
            name = each.resource.name
            try:
                check(at, Role.EDITOR, name)
                await self._existing(name, each.expected_version)
                await self._configure(each, validate_only=command.validate_only)
            except ApiError as error:
                outcomes.append(ResourceOutcome(error.code, error.message, each.resource))
                continue
            outcomes.append(ResourceOutcome(resource=each.resource))
            if not command.validate_only:
                notes += _settings(each)
                self._readings.outdate(Part.TOPIC_CONFIGS, name)
        return self._done(outcomes, notes)

    async def _configure(self, alteration: ConfigAlteration, *, validate_only: bool) -> None:
        name = alteration.resource.name
        configs = [AlterableConfig(op.key, op.op, op.value) for op in alteration.ops]
        request = IncrementalAlterConfigsRequest(
            [AlterConfigsResource(ResourceType.TOPIC, name, configs)], validate_only
        )
        response = await self._asking.change_at_controller(request)
        _only(ApiKey.INCREMENTAL_ALTER_CONFIGS, response.responses, name)

    async def _existing(self, name: str, expected_version: int | None) -> TopicContents:
        """Return the topic as it is now. Raises ApiError if there is none, or if it has another version."""
        try:
            found = (await read_topics(self._asking, Notes(), [name])).get(name)
        except UpstreamError as error:
            raise unavailable(error) from error
        if found is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic {name} does not exist.")
        if expected_version not in (None, found.row.version):
            raise ApiError(ErrorCode.INVALID_UPDATE_VERSION, f"The topic {name} was changed in the meantime.")
        return found

    def _done(self, outcomes: list[Any], notes: list[Change]) -> Done[Any]:
        if notes:
            self._readings.outdate(Part.TOPICS)
        return Done(outcomes, tuple(notes))


def _is_about_topics(command: IncrementalAlterConfigs) -> bool:
    return all(each.resource.type == ResourceType.TOPIC for each in command.resources)


def check(at: Situation, needed: Role, topic: str) -> None:
    """Raise ApiError for a missing role, and for a topic that only gateways change."""
    at.require(needed, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if is_reserved(topic):
        text = f"{topic} belongs to the gateways, which alone create and change it."
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, text)


def _only(key: int, results: list[Any], name: str) -> Any:
    """Return the only result of a change. Raises ApiError if the cluster has refused it."""
    if not results:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "The upstream cluster's response has no result.")
    result = results[0]
    if result.error_code:
        raise error_of(key, result.error_code, name, getattr(result, "error_message", None))
    return result


def _settings(alteration: ConfigAlteration) -> Iterator[Change]:
    words = {OpType.APPEND: "appended: ", OpType.SUBTRACT: "subtracted: "}
    for op in alteration.ops:
        value = "default" if op.op == OpType.DELETE else f"{words.get(OpType(op.op), '')}{op.value}"
        yield _note(alteration.resource.name, op.key, value)


def _note(topic: str, key: str, text: str) -> Change:
    return Change(ChangeKind.UPSTREAM, f"topic {topic}", key, text)
