"""StreamsGroupHeartbeat: a member of a streams group joins, learns its tasks, gives some up, or leaves.
(KIP-1071)

Versions 0-1. Version 1 has the acceptable recovery lag, and the status of missing client tags (KIP-1331: no
plugin stores topology descriptions, so that none is asked for). The client makes its member id. The group's
READ operation is required, and DESCRIBE of each topic of the topology. The internal topics that the
application lacks are created if the client may CREATE them; the response does not wait, and has the status
MISSING_INTERNAL_TOPICS. Left out: topologies that change, regular expressions and warm-up tasks, as in Kafka.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final

from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.group_replies import LONGEST_NAME, GroupRequest, conclude, now_of
from broker.api.requests.group_requests import group_refusal
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.pacing import pieces
from broker.api.requests.services import GroupServices
from broker.api.security.client_security import CREATES_TOPICS
from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Slices, Steps, freed, sorted_in_steps
from broker.coordinator.group.messages import Endpoint, StreamsHeartbeatReply, StreamsHeartbeatRequest
from broker.coordinator.group.streams import topology as topologies
from broker.coordinator.group.streams.assignor import TaskOffsets, Tasks, TaskSets
from broker.coordinator.group.streams.status import Status, StatusCode
from broker.coordinator.group.streams.topology import CopartitionGroup, Subtopology, TopicInfo, Topology
from broker.metadata.image import is_reserved
from broker.protocol.api_key import ApiKey
from broker.protocol.messages import streams_group_heartbeat as wire
from broker.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from broker.security.acl.acl import Operation

MISSING_TAGS_SINCE: Final = 1

SHOWN_ERRORS: Final = 3
"""Topics that a status names, as in Kafka, which names all that the client may not create."""

ERROR_INTERVALS: Final = 2
"""Heartbeats for which a topic that could not be created is not tried again, as in Kafka."""

LONGEST_TEXT: Final = 32_767
"""Bytes of a string in Java's decoder."""

MOST_TOPOLOGY_BYTES: Final = 1_000_000
"""Ours. A topology is one record, and a record has to fit into a batch of the offsets topic."""

MOST_TAGS: Final = 100
"""Client tags of one member; ours."""


@api(ApiKey.STREAMS_GROUP_HEARTBEAT, versions=(0, 1), services=GroupServices)
def handle(
    message: StreamsGroupHeartbeatRequest, context: RequestContext, services: GroupServices
) -> Slices[Outcome]:
    # The many small objects of the group's request, to be freed in steps: those of 47,500 topics take 10 ms.
    parts: list[object] = []
    try:
        if refusal := group_refusal(message.group_id, context, services):
            raise ApiError(refusal)
        _check_names(message, context)
        topology = yield from _topology(message.topology, context, services, parts)
        endpoint = message.user_endpoint
        request = StreamsHeartbeatRequest(
            message.group_id,
            message.member_id,
            message.member_epoch,
            message.endpoint_information_epoch,
            message.instance_id,
            message.rack_id,
            message.rebalance_timeout_ms,
            topology,
            (yield from _owned(message, parts)),
            message.process_id,
            None if endpoint is None else Endpoint(endpoint.host, endpoint.port),
            _tags(message.client_tags),
            (yield from _offsets(message.task_offsets, parts)),
            (yield from _offsets(message.task_end_offsets, parts)),
            message.shutdown_application,
            context.client_id or "",
            f"/{context.connection.address}",
            knows_missing_tags=context.api_version >= MISSING_TAGS_SINCE,
        )
    except ApiError as error:
        yield from freed(parts)
        return Response(_refused(error.code, error.message))
    group_request = GroupRequest(context, partial(_response, context, services, parts))
    effects = yield from services.groups.coordinator.streams.heartbeat(
        request, group_request, now_of(context)
    )
    return conclude(effects, group_request, services)


def _refused(error: ErrorCode, message: str | None) -> StreamsGroupHeartbeatResponse:
    text = None if message is None else _cut(message)
    return StreamsGroupHeartbeatResponse(error_code=error, error_message=text, status=[])


def _cut(text: str) -> str:
    """Return a text that Java's decoder takes. It can name each topic of a topology."""
    if len(text) <= LONGEST_TEXT // 4:
        return text
    encoded = text.encode()
    if len(encoded) <= LONGEST_TEXT:
        return text
    return encoded[: LONGEST_TEXT - 3].decode(errors="ignore") + "..."


def _check_names(message: StreamsGroupHeartbeatRequest, context: RequestContext) -> None:
    """Raises ApiError."""
    if len(message.group_id) > LONGEST_NAME:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
    tags = message.client_tags or ()
    if len(tags) > MOST_TAGS:
        raise _invalid(f"ClientTags has more than {MOST_TAGS} tags.")
    host = message.user_endpoint.host if message.user_endpoint is not None else None
    names = (message.member_id, message.instance_id, message.rack_id, message.process_id, host)
    texts = (context.client_id, *names, *(text for tag in tags for text in (tag.key, tag.value)))
    if any(len(text or "") > LONGEST_NAME for text in texts):
        raise _invalid(f"A name has more than {LONGEST_NAME} characters.")


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)


def _tags(tags: Sequence[wire.KeyValue] | None) -> Mapping[str, str] | None:
    if tags is None:
        return None
    found = {tag.key: tag.value for tag in tags}
    if len(found) < len(tags):
        raise _invalid("ClientTags has a key more than once.")
    return found


def _topology(
    message: wire.Topology | None, context: RequestContext, services: GroupServices, parts: list[object]
) -> Slices[Topology | None]:
    """Read and check the topology. Raises ApiError."""
    if message is None:
        return None
    subtopologies = []
    for each in message.subtopologies:
        subtopologies.append((yield from _subtopology(each, parts)))
    parts += subtopologies
    topology = Topology(message.epoch, tuple(subtopologies))
    most = min(services.control.config.groups.max_group_bytes, MOST_TOPOLOGY_BYTES)
    if (yield from topologies.size_of(topology)) > most:
        raise ApiError(ErrorCode.STREAMS_INVALID_TOPOLOGY, f"The topology has more than {most} bytes.")
    yield from topologies.check(topology)
    seen = set()
    for name in _names(topology):
        if name not in seen:
            seen.add(name)
            if not services.security.allows_topic(context, Operation.DESCRIBE, name):
                raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        yield None
    return topology


def _names(topology: Topology) -> Iterator[str]:
    for subtopology in topology.subtopologies:
        yield from topologies.read_names(subtopology)
        yield from subtopology.repartition_sink_topics


def _subtopology(message: wire.Subtopology, parts: list[object]) -> Slices[Subtopology]:
    groups = []
    for group in message.copartition_groups:
        groups.append(
            CopartitionGroup(
                tuple(group.source_topics),
                tuple(group.source_topic_regex),
                tuple(group.repartition_source_topics),
            )
        )
        yield None
    parts += groups
    return Subtopology(
        message.subtopology_id,
        tuple(message.source_topics),
        tuple(message.source_topic_regex),
        (yield from _topic_infos(message.state_changelog_topics, parts)),
        tuple(message.repartition_sink_topics),
        (yield from _topic_infos(message.repartition_source_topics, parts)),
        tuple(groups),
    )


def _topic_infos(topics: Iterable[wire.TopicInfo], parts: list[object]) -> Slices[tuple[TopicInfo, ...]]:
    found = []
    for topic in topics:
        configs = []
        for some in pieces(topic.topic_configs):
            configs += [(config.key, config.value) for config in some]
            yield None
        parts += configs
        found.append(TopicInfo(topic.name, topic.partitions, topic.replication_factor, tuple(configs)))
    parts += found
    return tuple(found)


def _owned(message: StreamsGroupHeartbeatRequest, parts: list[object]) -> Slices[TaskSets | None]:
    """Return the tasks that the member runs, None if it states none. Raises ApiError."""
    stated = message.active_tasks, message.standby_tasks, message.warmup_tasks
    if all(each is None for each in stated):
        return None
    tasks = []
    for each in stated:
        if each is None:
            raise _invalid("If one task-type is non-null, all must be non-null.")
        tasks.append((yield from _tasks(each, parts)))
    return TaskSets(*tasks)


def _tasks(stated: Iterable[wire.TaskIds], parts: list[object]) -> Slices[Tasks]:
    found: dict[str, set[int]] = {}
    for each in stated:
        for some in pieces(each.partitions):
            found.setdefault(each.subtopology_id, set()).update(some)
            yield None
    tasks: dict[str, frozenset[int]] = {}
    for subtopology_id, indexes in found.items():
        tasks[subtopology_id] = frozenset(indexes)
        yield None
    yield from freed(found)
    parts += tasks.values()
    return tasks


def _offsets(stated: Iterable[wire.TaskOffset] | None, parts: list[object]) -> Slices[TaskOffsets | None]:
    """Raises ApiError."""
    if stated is None:
        return None
    found: dict[str, dict[int, int]] = {}
    for each in stated:
        of_subtopology = found.setdefault(each.subtopology_id, {})
        if each.partition in of_subtopology:
            raise _invalid(
                f"Task offsets contain a duplicate entry for subtopology {each.subtopology_id} and partition "
                f"{each.partition}."
            )
        of_subtopology[each.partition] = each.offset
        yield None
    parts += found.values()
    return found


def _response(
    context: RequestContext, services: GroupServices, parts: list[object], reply: StreamsHeartbeatReply
) -> Steps[StreamsGroupHeartbeatResponse]:
    """Return the response, and let the internal topics be created that are missing. The records are written:
    between their staging and their commit, a handler must not pause.
    """
    yield from freed(parts)
    if reply.error:
        return _refused(reply.error, reply.message)
    statuses = list(reply.statuses)
    if reply.creates:
        statuses = yield from _create(reply, statuses, context, services)
    tasks = reply.tasks
    endpoints = None
    if reply.endpoints is not None:
        endpoints = []
        for endpoint, partitions in reply.endpoints:
            endpoints.append(
                wire.EndpointToPartitions(
                    wire.Endpoint(endpoint.host, endpoint.port),
                    (yield from _partitions(partitions.active)),
                    (yield from _partitions(partitions.standby)),
                )
            )
    return StreamsGroupHeartbeatResponse(
        member_id=reply.member_id,
        member_epoch=reply.epoch,
        heartbeat_interval_ms=reply.interval_ms,
        task_offset_interval_ms=reply.task_offset_interval_ms,
        acceptable_recovery_lag=reply.recovery_lag,
        status=[wire.Status(status.code, _cut(status.detail)) for status in statuses],
        active_tasks=None if tasks is None else (yield from task_ids(wire.TaskIds, tasks.active)),
        standby_tasks=None if tasks is None else (yield from task_ids(wire.TaskIds, tasks.standby)),
        warmup_tasks=None if tasks is None else (yield from task_ids(wire.TaskIds, tasks.warmup)),
        endpoint_information_epoch=reply.endpoint_epoch,
        partitions_by_user_endpoint=endpoints,
    )


def task_ids(make: Callable[[str, list[int]], Any], tasks: Tasks) -> Steps[list[Any]]:
    """Return the tasks by subtopology, in order."""
    found = []
    for subtopology_id in (yield from sorted_in_steps(tasks)):
        found.append(make(subtopology_id, sorted(tasks[subtopology_id])))
        yield
    return found


def _partitions(partitions: Iterable[tuple[str, tuple[int, ...]]]) -> Steps[list[wire.TopicPartition]]:
    found = []
    for topic, indexes in partitions:
        found.append(wire.TopicPartition(topic, list(indexes)))
        yield
    return found


def _create(
    reply: StreamsHeartbeatReply, statuses: list[Status], context: RequestContext, services: GroupServices
) -> Steps[list[Status]]:
    """Let the missing topics be created if the client may create all of them. Return the statuses, with why a
    topic cannot be created.
    """
    denied = yield from _denied(reply.creates, context, services)
    if denied:
        return _with_detail(statuses, f"Unauthorized to CREATE on topics {_summary(denied, len(denied))}.")
    actor = services.security.actor(context, automatic=True)
    charge = services.mutations.refusing_charge(context)
    yield from services.streams.create(reply.creates, actor, charge, ERROR_INTERVALS * reply.interval_ms)
    errors = yield from services.streams.errors(reply.creates)
    if not errors:
        return statuses
    shown = _summary((f"{name} ({error})" for name, error in errors.items()), len(errors))
    return _with_detail(statuses, f"Creation failed: {shown}.")


def _summary(texts: Iterable[str], count: int) -> str:
    more = count - SHOWN_ERRORS
    return ", ".join(islice(texts, SHOWN_ERRORS)) + (f" and {more} more" if more > 0 else "")


def _denied(topics: Iterable[str], context: RequestContext, services: GroupServices) -> Steps[list[str]]:
    """Return the topics that the client may not create."""
    security = services.security
    has_role = security.actor(context, authorized=True).role >= CREATES_TOPICS
    may_all = has_role and security.allows_cluster(context, Operation.CREATE, logs=False)
    denied = []
    for name in topics:
        if is_reserved(name) or not (
            may_all or (has_role and security.allows_topic(context, Operation.CREATE, name))
        ):
            denied.append(name)
        yield
    return denied


def _with_detail(statuses: list[Status], detail: str) -> list[Status]:
    """Return the statuses with a further detail of the missing internal topics."""
    missing = StatusCode.MISSING_INTERNAL_TOPICS
    if all(status.code is not missing for status in statuses):
        return [*statuses, Status(missing, detail)]
    return [
        Status(missing, f"{each.detail}; {detail}") if each.code is missing else each for each in statuses
    ]
