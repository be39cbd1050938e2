"""Resolves the partitions of a Fetch, through its session if it has one. Called by the fetch modules only."""

from broker.api.requests.context import RequestContext
from broker.api.requests.pacing import Pace
from broker.api.requests.services import FetchServices
from broker.common.errors import ApiError, ErrorCode
from broker.partitions.fetch_sessions import FINAL_EPOCH, FIRST_EPOCH, NO_SESSION, FetchSession
from broker.partitions.fetching import RequestedPartition, check_epoch
from broker.partitions.partitions import Partitions
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.schema import ZERO_UUID
from broker.records.slices import SLICE, Slices


def requested_partitions(
    message: FetchRequest, context: RequestContext, services: FetchServices
) -> tuple[list[RequestedPartition], FetchSession | None, bool]:
    """Return the partitions to read, the session, and whether the response is incremental."""
    session_id, epoch = message.session_id, message.session_epoch
    if epoch == FINAL_EPOCH and session_id == NO_SESSION:
        return _resolve_all(message.topics, services.partitions), None, False
    by_id = context.api_version >= 13
    if epoch in (FINAL_EPOCH, FIRST_EPOCH):
        services.sessions.close(session_id)
        requested = _resolve_all(message.topics, services.partitions)
        session = None
        if epoch == FIRST_EPOCH and requested:
            session = services.sessions.create(
                partitions=len(requested), uses_topic_ids=by_id, now_ms=context.now_ms
            )
        if session is not None:
            for each in requested:
                session.add((each.topic, each.topic_id, each.partition), each)
            services.sessions.recount(session)
        return requested, session, False
    session = services.sessions.resume(session_id, epoch, uses_topic_ids=by_id, now_ms=context.now_ms)
    for known in session.requested():
        if known.log is None or known.log.deleted:
            _look_up(known, services.partitions)
    for each in _resolve_all(message.topics, services.partitions):
        session.add((each.topic, each.topic_id, each.partition), each)
    for topic in message.forgotten_topics_data:
        for index in topic.partitions:
            session.forget((topic.topic, topic.topic_id, index))
    services.sessions.recount(session)
    return session.requested(), session, True


def _resolve_all(topics: list[FetchTopic], partitions: Partitions) -> list[RequestedPartition]:
    requested = []
    for topic in topics:
        for partition in topic.partitions:
            requested.append(_resolve(topic, partition, partitions))
    return requested


def _resolve(topic: FetchTopic, partition: FetchPartition, partitions: Partitions) -> RequestedPartition:
    each = RequestedPartition(
        topic.topic,
        topic.topic_id,
        partition.partition,
        partition.fetch_offset,
        partition.partition_max_bytes,
        None,
        ErrorCode.NONE,
    )
    _look_up(each, partitions)
    if each.log is not None:
        each.error = check_epoch(partition.current_leader_epoch)
    return each


def requested_in_slices(
    message: FetchRequest, context: RequestContext, services: FetchServices
) -> Slices[tuple[list[RequestedPartition], FetchSession | None, bool]]:
    """Compute `requested_partitions` for many partitions, in slices.

    The session's epoch has already advanced, so no other request of the session runs in between.
    """
    session_id, epoch, pace = message.session_id, message.session_epoch, Pace()
    by_id = context.api_version >= 13
    full = epoch in (FINAL_EPOCH, FIRST_EPOCH)
    session = None
    if full:
        services.sessions.close(session_id)
    else:
        session = services.sessions.resume(session_id, epoch, uses_topic_ids=by_id, now_ms=context.now_ms)
        while session.unsent:
            session.untold(session.unsent[-SLICE:])
            del session.unsent[-SLICE:]
            yield None
        for known in (yield from _requested_of(session, pace)):
            if known.log is None or known.log.deleted:
                _look_up(known, services.partitions)
            if pace.spent():
                yield None
    named: list[RequestedPartition] = []
    for topic in message.topics:
        for partition in topic.partitions:
            cost = SLICE if _makes_log(topic, partition, services.partitions) else 1
            named.append(_resolve(topic, partition, services.partitions))
            if pace.spent(cost):
                yield None
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


def makes_logs(message: FetchRequest, partitions: Partitions) -> bool:
    """Return whether resolving the request's partitions creates log files."""
    return any(
        _makes_log(topic, partition, partitions) for topic in message.topics for partition in topic.partitions
    )


def _makes_log(topic: FetchTopic, partition: FetchPartition, partitions: Partitions) -> bool:
    by_id = topic.topic_id != ZERO_UUID
    hosted = partitions.by_id.get(topic.topic_id) if by_id else partitions.by_name.get(topic.topic)
    return hosted is not None and hosted.makes_log(partition.partition)


def _look_up(requested: RequestedPartition, partitions: Partitions) -> None:
    """Set the log of one partition, or its error; a session outlives topics."""
    if requested.topic_id != ZERO_UUID:
        hosted = partitions.by_id.get(requested.topic_id)
        requested.error = ErrorCode.UNKNOWN_TOPIC_ID
    else:
        hosted = partitions.by_name.get(requested.topic)
        requested.error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    requested.log = None
    if hosted is None:
        return
    try:
        requested.log = hosted.log(requested.partition)
    except ApiError as refused:
        requested.error = refused.code
    else:
        found = requested.log is not None
        requested.error = ErrorCode.NONE if found else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
