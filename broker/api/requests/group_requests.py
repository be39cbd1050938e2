"""What the APIs of groups have in common: who may use a group, the heartbeats of groups whose members state
their topics (KIP-848, KIP-932), and descriptions of groups.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol, TypeVar

from broker.api.requests.context import RequestContext
from broker.api.requests.group_replies import LONGEST_NAME
from broker.api.requests.pacing import Distinct
from broker.api.requests.services import GroupServices
from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Slices, Steps
from broker.coordinator.group.consumer.assignment import Assignment
from broker.coordinator.group.messages import ModernHeartbeatReply
from broker.coordinator.group.modern_group import MAX_TOPICS, AnyMember, DescribedModernGroup
from broker.security.acl.acl import Operation, ResourceType

REPEATED: Final = "The request names the group more than once."
HIDDEN: Final = "The group has described topic(s) that the client is not authorized to describe."

SHOWN: Final = (ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
"""The codes of groups whose authorized operations are returned."""

Member = TypeVar("Member", bound=AnyMember)


class Heartbeat(Protocol):
    """The fields that the heartbeats have in common."""

    group_id: str
    subscribed_topic_names: list[str] | None


def group_refusal(
    group_id: str, context: RequestContext, services: GroupServices, operation: Operation = Operation.READ
) -> ErrorCode:
    """Return why the client may not use the group now, or NONE."""
    if not services.security.allows_group(context, operation, group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return ErrorCode.NONE if services.groups.is_available else ErrorCode.NOT_COORDINATOR


def check_heartbeat(
    message: Heartbeat, names: Iterable[str | None], context: RequestContext, services: GroupServices
) -> Slices[None]:
    """Check what needs no group; `names` are those of the member. Raises ApiError."""
    if refusal := group_refusal(message.group_id, context, services):
        raise ApiError(refusal)
    if len(message.group_id) > LONGEST_NAME:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
    if any(len(name or "") > LONGEST_NAME for name in (*names, context.client_id)):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"A name has more than {LONGEST_NAME} characters.")
    topics = message.subscribed_topic_names or ()
    if len(topics) > MAX_TOPICS:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"SubscribedTopicNames has more than {MAX_TOPICS} names.")
    for name in topics:
        if not services.security.allows_topic(context, Operation.DESCRIBE, name):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        yield None


def heartbeat_response(make: tuple[Any, Any, Any], reply: ModernHeartbeatReply) -> Steps[Any]:
    """Return the response. `make` are the classes of it, of an assignment, and of the partitions of a topic
    in that.
    """
    response, assignment_of, partitions_of = make
    assignment = None
    if reply.assignment is not None:
        assignment = assignment_of()
        for topic_id, indexes in reply.assignment.items():
            assignment.topic_partitions.append(partitions_of(topic_id, sorted(indexes)))
            yield None
    return response(
        error_code=reply.error,
        error_message=reply.message,
        member_id=reply.member_id,
        member_epoch=reply.epoch,
        heartbeat_interval_ms=reply.interval_ms,
        assignment=assignment,
    )


def described_groups(
    group_ids: Sequence[str],
    make: Callable[[ErrorCode, str | None, str], Any],
    describe: Callable[[str], Slices[Any]],
    context: RequestContext,
    services: GroupServices,
    *,
    wants_operations: bool,
    refuses_empty: bool = True,
) -> Slices[list[Any]]:
    """Return a description of each group, by `describe`, or its error, by `make`. A group that is repeated
    gets INVALID_REQUEST, because a request could name a group with many members 100,000 times.
    """
    groups = []
    distinct: Distinct[str] = Distinct()
    for group_id in group_ids:
        if error := group_refusal(group_id, context, services, Operation.DESCRIBE):
            groups.append(make(error, None, group_id))
        elif refuses_empty and not group_id:
            groups.append(make(ErrorCode.INVALID_GROUP_ID, None, group_id))
        elif distinct.add(group_id):
            described = yield from describe(group_id)
            if wants_operations and described.error_code in SHOWN:
                described.authorized_operations = services.security.operations(
                    context, ResourceType.GROUP, group_id
                )
            groups.append(described)
        else:
            groups.append(make(ErrorCode.INVALID_REQUEST, REPEATED, group_id))
        yield None
    yield from distinct.release()
    return groups


def described_modern_group(
    group: DescribedModernGroup[Member],
    make: tuple[Any, Any, Any],
    shown: Callable[[Member], Sequence[Assignment]],
    member_of: Callable[..., Any],
    context: RequestContext,
    services: GroupServices,
) -> Slices[Any]:
    """Describe a group whose members state their topics. `make` are the classes of the description, of an
    assignment, and of the partitions of a topic in that. `member_of` receives a member and the assignments
    of it that are `shown`.
    """
    group_of, assignment_of, partitions_of = make
    described = group_of(
        group.error,
        group.message,
        group.group_id,
        group.state,
        group.epoch,
        group.target_epoch,
        group.assignor,
    )
    topics, security = services.control.image.topics_by_id, services.security
    known: dict[bytes, bool] = {}
    for member in group.members:
        assignments = []
        for assignment in shown(member):
            found = []
            for topic_id, indexes in assignment.items():
                if topic_id in topics:
                    name = topics[topic_id].name
                    if topic_id not in known:
                        known[topic_id] = security.allows_topic(context, Operation.DESCRIBE, name, logs=False)
                    found.append(partitions_of(topic_id, name, sorted(indexes)))
                yield None
            assignments.append(assignment_of(found))
        described.members.append(member_of(member, *assignments))
        yield None
    if not all(known.values()):
        return group_of(ErrorCode.TOPIC_AUTHORIZATION_FAILED, HIDDEN, group.group_id)
    return described
