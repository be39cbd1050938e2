"""Resolves the partitions of a Fetch, through its session if it has one. Called by the fetch modules only."""

from broker.api.requests.context import RequestContext
from broker.api.requests.pacing import Pace
from broker.api.requests.services import FetchServices
from broker.common.errors import ApiError, ErrorCode
from broker.partitions.fetch_sessions import FINAL_EPOCH, FIRST_EPOCH, NO_SESSION, FetchSession
from broker.partitions.fetching import RequestedPartition, check_epoch
from broker.partitions.partitions import HostedTopic, Partitions
from broker.protocol.messages.fetch import FetchRequest
from broker.protocol.schema import ZERO_UUID
from broker.records.slices import SLICE, Slices


def requested_partitions(
    message: FetchRequest, context: RequestContext, services: FetchServices
) -> Slices[tuple[list[RequestedPartition], FetchSession | None, bool]]:
    """Return the partitions to read, the session, and whether the response is incremental.

    Pauses after many partitions, and between logs that are created, which takes a millisecond each. The
    session's epoch has already advanced, so no other request of the session runs in between.
    """
    session_id, epoch, pace = message.session_id, message.session_epoch, Pace()
    by_id = context.api_version >= 13
    full = epoch in (FINAL_EPOCH, FIRST_EPOCH)
    session = None
    if not full:
        session = services.sessions.resume(session_id, epoch, uses_topic_ids=by_id, now_ms=context.now_ms)
        while session.unsent:
            session.undo_response_data(session.unsent[-SLICE:])
            del session.unsent[-SLICE:]
            yield None
        for known in (yield from _requested_of(session, pace)):
            if known.log is None or known.log.deleted:
                hosted, known.error = _hosted(known.topic, known.topic_id, services.partitions)
                known.log = None
                if hosted is not None:
                    _find_log(known, hosted)
            if pace.spent():
                yield None
    elif session_id != NO_SESSION:
        services.sessions.close(session_id)
    named: list[RequestedPartition] = []
    has_made = False
    for topic in message.topics:
        hosted, error = _hosted(topic.topic, topic.topic_id, services.partitions)
        for partition in topic.partitions:
            makes_log = hosted is not None and hosted.makes_log(partition.partition)
            if pace.spent() or (makes_log and has_made):
                yield None
                hosted, error = _hosted(topic.topic, topic.topic_id, services.partitions)
            has_made |= makes_log
            each = RequestedPartition(
                topic.topic,
                topic.topic_id,
                partition.partition,
                partition.fetch_offset,
                partition.partition_max_bytes,
                None,
                error,
            )
            named.append(each)
            if hosted is not None:
                _find_log(each, hosted)
                if each.log is not None:
                    each.error = check_epoch(partition.current_leader_epoch)
        if pace.spent():
            yield None
    if full and (epoch == FINAL_EPOCH or not named):
        return named, None, False
    if session is None:
        session = services.sessions.create(partitions=len(named), uses_topic_ids=by_id, now_ms=context.now_ms)
        if session is None:
            return named, None, False
    for each in named:
        session.add((each.topic, each.topic_id, each.partition), each)
        if pace.spent():
            yield None
    for forgotten in () if full else message.forgotten_topics_data:
        for index in forgotten.partitions:
            session.forget((forgotten.topic, forgotten.topic_id, index))
            if pace.spent():
                yield None
        if pace.spent():
            yield None
    services.sessions.recount(session)
    if full:
        return named, session, False
    return (yield from _requested_of(session, pace)), session, True


def _requested_of(session: FetchSession, pace: Pace) -> Slices[list[RequestedPartition]]:
    """Return `FetchSession.requested` in slices.

    Raises ApiError FETCH_SESSION_ID_NOT_FOUND if the session is closed meanwhile.
    """
    requested: list[RequestedPartition] = []
    partitions = session.partitions
    for known in partitions.values():
        if pace.spent():
            yield None
            if session.partitions is not partitions:
                raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        requested.append(known.requested)
    return requested


def _hosted(topic: str, topic_id: bytes, partitions: Partitions) -> tuple[HostedTopic | None, ErrorCode]:
    """Return a topic by its id if it has one, else by name, and the error of its partitions."""
    if topic_id != ZERO_UUID:
        return partitions.by_id.get(topic_id), ErrorCode.UNKNOWN_TOPIC_ID
    return partitions.by_name.get(topic), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _find_log(requested: RequestedPartition, hosted: HostedTopic) -> None:
    """Set the log of one partition, or its error."""
    try:
        requested.log = hosted.log(requested.partition)
    except ApiError as refused:
        requested.error = refused.code
    else:
        found = requested.log is not None
        requested.error = ErrorCode.NONE if found else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
