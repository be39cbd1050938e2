"""Members of the classic protocol in a consumer group, while it changes from one protocol to the other.

A JoinGroup is answered at once, with the member's epoch as its generation; the assignment follows with
SyncGroup. The response to a Heartbeat makes the member join again when it has to take the next step. Called
by `migration` and `classic`. (Kafka: classicGroupJoinToConsumerGroup and its companions)
"""

from collections import Counter

from msgspec.structs import replace

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Steps
from broker.coordinator.group.consumer.embedded import (
    EmbeddedSubscription,
    read_subscription,
    topic_names,
    version_of,
    write_assignment,
)
from broker.coordinator.group.consumer.epochs import advance
from broker.coordinator.group.consumer.group import CONSUMER_PROTOCOL_TYPE, NONE, ConsumerGroup
from broker.coordinator.group.consumer.heartbeat import (
    check_consumers,
    check_member_bytes,
    replace_static,
    static_member,
)
from broker.coordinator.group.consumer.member import ClassicProtocols, ConsumerMember, MemberState
from broker.coordinator.group.messages import JoinReply, JoinRequest, SyncReply, SyncRequest
from broker.coordinator.group.modern_changes import start_session
from broker.coordinator.group.modern_group import JOINS
from broker.coordinator.group.transition import Transition


def join(
    transition: Transition,
    group: ConsumerGroup,
    request: JoinRequest,
    new_id: str,
) -> Steps[tuple[ConsumerMember | None, JoinReply]]:
    """Return the static member that was replaced, if any, and the reply. Raises ApiError.

    `new_id` is the id of a member without one.
    """
    member_id = request.member_id or new_id
    check_consumers(transition, group, member_id, request.instance_id)
    _check_protocols(group, request)
    if not request.member_id and request.requires_member_id and request.instance_id is None:
        return None, JoinReply(ErrorCode.MEMBER_ID_REQUIRED, new_id)
    before, replaced = _member(group, request, member_id)
    protocols = tuple((name, bytes(metadata)) for name, metadata in request.protocols)
    topics = transition.topics.by_name
    subscription = yield from read_subscription(protocols[0][1], topics)
    stated = _updated(before, request, subscription, ClassicProtocols(request.session_timeout_ms, protocols))
    check_member_bytes(transition, group, before if replaced is None else replaced, stated)
    if replaced is not None:
        yield from replace_static(transition, group, replaced, before)
    after = yield from advance(transition, group, before, stated, subscription.owned, {})
    timers = group.timers_of(member_id)
    transition.timers.cancel(timers.rejoin)
    transition.timers.cancel(timers.rebalance)
    start_session(transition, group, after, request.session_timeout_ms)
    transition.set_timer(timers.sync, request.rebalance_timeout_ms)
    name = protocols[0][0]
    return replaced, JoinReply(ErrorCode.NONE, member_id, after.epoch, CONSUMER_PROTOCOL_TYPE, name)


def sync(transition: Transition, group: ConsumerGroup, request: SyncRequest) -> Steps[SyncReply]:
    """Return the member's assignment as it is now."""
    try:
        member, classic = _classic_member(group, request.member_id, request.instance_id)
    except ApiError as error:
        return SyncReply(error.code)
    if request.generation_id != member.epoch:
        return SyncReply(ErrorCode.ILLEGAL_GENERATION)
    name, metadata = classic.protocols[0]
    if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or request.protocol_name not in (
        None,
        name,
    ):
        return SyncReply(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        _expect_rejoin(transition, group, member)
        return SyncReply(ErrorCode.REBALANCE_IN_PROGRESS)
    transition.timers.cancel(group.timers_of(member.member_id).sync)
    start_session(transition, group, member, classic.session_timeout_ms)
    names = (yield from topic_names(transition.topics.by_name)) if member.assigned else {}
    assignment = yield from write_assignment(member.assigned, version_of(metadata), names)
    return SyncReply(ErrorCode.NONE, request.protocol_type, request.protocol_name, assignment)


def heartbeat(
    transition: Transition, group: ConsumerGroup, generation_id: int, member_id: str, instance_id: str | None
) -> ErrorCode:
    """Restart the session, and make the member join again when it can take the next step."""
    try:
        member, classic = _classic_member(group, member_id, instance_id)
    except ApiError as error:
        return error.code
    if generation_id != member.epoch:
        return ErrorCode.ILLEGAL_GENERATION
    start_session(transition, group, member, classic.session_timeout_ms)
    if (
        member.epoch < group.epoch
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (member.state is MemberState.UNRELEASED_PARTITIONS and not _waits(group, member))
    ):
        _expect_rejoin(transition, group, member)
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def leaving_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    """Return the member of a LeaveGroup. An operator names a static one without its id. Raises ApiError."""
    if instance_id is not None and not member_id:
        member_id = group.static_ids.get(instance_id, "")
    member, _ = _classic_member(group, member_id, instance_id)
    return member


def _check_protocols(group: ConsumerGroup, request: JoinRequest) -> None:
    """Require the type of consumers and a protocol that all classic members support. Raises ApiError."""
    classic = [member.classic for member in group.members.values() if member.classic is not None]
    support = Counter(name for each in classic for name, _ in dict(each.protocols).items())
    names = {name for name, _ in request.protocols}
    if request.protocol_type == CONSUMER_PROTOCOL_TYPE and any(
        support[name] == len(classic) for name in names
    ):
        return
    raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _member(
    group: ConsumerGroup, request: JoinRequest, member_id: str
) -> tuple[ConsumerMember, ConsumerMember | None]:
    """Return the member as it is, a new one if it joins, and the member of another id that it replaces."""
    instance_id = request.instance_id
    known = group.members.get(member_id) or ConsumerMember(member_id)
    if instance_id is None:
        return known, None
    if request.member_id:
        return static_member(group, member_id, instance_id), None
    current = group.static_ids.get(instance_id)
    if current is None:
        return known, None
    static = group.members[current]
    return replace(static, member_id=member_id, epoch=JOINS, previous_epoch=JOINS), static


def _updated(
    member: ConsumerMember,
    request: JoinRequest,
    subscription: EmbeddedSubscription,
    classic: ClassicProtocols,
) -> ConsumerMember:
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topics=subscription.topics,
        regex=None,
        client_id=request.client_id,
        client_host=request.client_host,
        classic=classic,
    )


def _classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> tuple[ConsumerMember, ClassicProtocols]:
    """Return a member that uses the classic protocol. Raises ApiError."""
    member = group.member(member_id) if instance_id is None else static_member(group, member_id, instance_id)
    if member.classic is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol.")
    return member, member.classic


def _waits(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Return whether a partition of the member's target is still with another member."""
    return any(
        len(group.owners.free(topic_id, missing)) < len(missing)
        for topic_id, partitions in group.target_of(member.member_id).items()
        if (missing := partitions - member.assigned.get(topic_id, NONE))
    )


def _expect_rejoin(transition: Transition, group: ConsumerGroup, member: ConsumerMember) -> None:
    """Give the member its rebalance timeout to join again."""
    timer = group.timers_of(member.member_id).rejoin
    if timer.at_ms is None:
        transition.set_timer(timer, member.rebalance_timeout_ms)
