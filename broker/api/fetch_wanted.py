"""Resolves the partitions of a Fetch, through its session if it has one. Called by the fetch modules only."""

from broker.api.context import RequestContext
from broker.api.pacing import Pace
from broker.api.services import FetchServices
from broker.errors import ApiError, ErrorCode
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.schema import ZERO_UUID
from broker.records.slices import SLICE, Slices
from broker.services.fetch_sessions import FINAL_EPOCH, FIRST_EPOCH, NO_SESSION, FetchSession
from broker.services.fetching import Wanted, check_epoch
from broker.services.partitions import Partitions


def wanted_by(
    message: FetchRequest, context: RequestContext, services: FetchServices
) -> tuple[list[Wanted], FetchSession | None, bool]:
    """Return the partitions to read, the session, and whether the response is incremental."""
    session_id, epoch = message.session_id, message.session_epoch
    if epoch == FINAL_EPOCH and session_id == NO_SESSION:
        return _resolve_all(message.topics, services.partitions), None, False
    by_id = context.api_version >= 13
    if epoch in (FINAL_EPOCH, FIRST_EPOCH):
        services.sessions.close(session_id)
        wanted = _resolve_all(message.topics, services.partitions)
        session = None
        if epoch == FIRST_EPOCH and wanted:
            session = services.sessions.create(
                partitions=len(wanted), uses_topic_ids=by_id, now_ms=context.now_ms
            )
        if session is not None:
            for each in wanted:
                session.want((each.topic, each.topic_id, each.partition), each)
            services.sessions.recount(session)
        return wanted, session, False
    session = services.sessions.resume(session_id, epoch, uses_topic_ids=by_id, now_ms=context.now_ms)
    for known in session.wanted():
        if known.log is None or known.log.deleted:
            _look_up(known, services.partitions)
    for each in _resolve_all(message.topics, services.partitions):
        session.want((each.topic, each.topic_id, each.partition), each)
    for topic in message.forgotten_topics_data:
        for partition in topic.partitions:
            session.forget((topic.topic, topic.topic_id, partition))
    services.sessions.recount(session)
    return session.wanted(), session, True


def _resolve_all(topics: list[FetchTopic], partitions: Partitions) -> list[Wanted]:
    wanted = []
    for topic in topics:
        for requested in topic.partitions:
            wanted.append(_resolve(topic, requested, partitions))
    return wanted


def _resolve(topic: FetchTopic, requested: FetchPartition, partitions: Partitions) -> Wanted:
    each = Wanted(
        topic.topic,
        topic.topic_id,
        requested.partition,
        requested.fetch_offset,
        requested.partition_max_bytes,
        None,
        ErrorCode.NONE,
    )
    _look_up(each, partitions)
    if each.log is not None:
        each.error = check_epoch(requested.current_leader_epoch)
    return each


def wanted_in_slices(
    message: FetchRequest, context: RequestContext, services: FetchServices
) -> Slices[tuple[list[Wanted], FetchSession | None, bool]]:
    """Compute `wanted_by` for many partitions, in slices.

    The session's epoch has already advanced, so no other request of the session runs in between.
    """
    session_id, epoch, pace = message.session_id, message.session_epoch, Pace()
    by_id = context.api_version >= 13
    full = epoch in (FINAL_EPOCH, FIRST_EPOCH)
    session = None
    known: list[Wanted] = []
    if full:
        services.sessions.close(session_id)
    else:
        session = services.sessions.resume(session_id, epoch, uses_topic_ids=by_id, now_ms=context.now_ms)
        known = session.wanted()
    for each in known:
        if each.log is None or each.log.deleted:
            _look_up(each, services.partitions)
        if pace.spent():
            yield None
    named: list[Wanted] = []
    for topic in message.topics:
        for requested in topic.partitions:
            cost = SLICE if _makes_log(topic, requested, services.partitions) else 1
            named.append(_resolve(topic, requested, services.partitions))
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
        session.want((each.topic, each.topic_id, each.partition), each)
        if pace.spent():
            yield None
    for forgotten in () if full else message.forgotten_topics_data:
        for partition in forgotten.partitions:
            session.forget((forgotten.topic, forgotten.topic_id, partition))
            if pace.spent():
                yield None
        if pace.spent():
            yield None
    services.sessions.recount(session)
    return (named, session, False) if full else (session.wanted(), session, True)


def makes_logs(message: FetchRequest, partitions: Partitions) -> bool:
    """Return whether resolving the request's partitions creates log files."""
    return any(
        _makes_log(topic, requested, partitions) for topic in message.topics for requested in topic.partitions
    )


def _makes_log(topic: FetchTopic, requested: FetchPartition, partitions: Partitions) -> bool:
    by_id = topic.topic_id != ZERO_UUID
    hosted = partitions.by_id.get(topic.topic_id) if by_id else partitions.by_name.get(topic.topic)
    return hosted is not None and hosted.makes_log(requested.partition)


def _look_up(wanted: Wanted, partitions: Partitions) -> None:
    """Set the log of one partition, or its error; a session outlives topics."""
    if wanted.topic_id != ZERO_UUID:
        hosted = partitions.by_id.get(wanted.topic_id)
        wanted.error = ErrorCode.UNKNOWN_TOPIC_ID
    else:
        hosted = partitions.by_name.get(wanted.topic)
        wanted.error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    wanted.log = None
    if hosted is None:
        return
    try:
        wanted.log = hosted.log(wanted.partition)
    except ApiError as refused:
        wanted.error = refused.code
    else:
        found = wanted.log is not None
        wanted.error = ErrorCode.NONE if found else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
