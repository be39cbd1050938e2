"""ShareFetch: acquires records for a member of a share group, and acknowledges earlier ones. (KIP-932)

Versions 1-2. A share session remembers the member's partitions: epoch 0 opens it, each request has the next
epoch, and -1 closes it and releases what the member holds. The acknowledgements of the request are stored
first. The fetch then waits up to `max_wait_ms` for `min_bytes` of records that it can acquire; of several
waiting members one acquires what becomes available, and records do not wait until the states of other
partitions are loaded. The response has the acquired ranges with their delivery counts, and whole batches
around them. Records are never null. A fetch over its byte-rate quota or its client's request quota gets no
records, and they count as not delivered. An unknown partition does not end the wait of the others. An unknown
topic id is UNKNOWN_TOPIC_ID of its partitions (Kafka: UNKNOWN_SERVER_ERROR of the request); that of a topic
which is deleted within the session is UNKNOWN_TOPIC_OR_PARTITION. The first response of a session names all
partitions that records can be acquired from, later ones those with records or an error, and once those that
are new in the session or had an error before. Version 2 can ask for at most `max_records` without whole
batches (KIP-1206). It can renew the locks of records, too: such a request fetches nothing, and its limits
must be 0 (KIP-1222).
"""

from broker.api.registry import api
from broker.api.requests.byte_quotas import fetch_max_bytes
from broker.api.requests.context import RequestContext
from broker.api.requests.delayed_operations import DelayedShareFetch
from broker.api.requests.outcome import DELAYED, Outcome, Response, outcome_of
from broker.api.requests.services import ShareServices
from broker.api.share.acknowledgements import Acknowledging, Failure, is_too_large
from broker.api.share.fetch_pending import (
    BATCH_OPTIMIZED,
    RECORD_LIMIT,
    PendingShareFetch,
    WantedPartition,
)
from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Slices
from broker.coordinator.share.sessions import FINAL_EPOCH, FIRST_EPOCH, MemberKey, ShareSession
from broker.coordinator.share.states import SharePartitionKey
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from broker.security.acl.acl import Operation


@api(ApiKey.SHARE_FETCH, versions=(1, 2), services=ShareServices)
def handle(message: ShareFetchRequest, context: RequestContext, services: ShareServices) -> Slices[Outcome]:
    group_id, member_id = message.group_id, message.member_id
    if not group_id or not member_id or _is_too_large(message):
        return _refused(ErrorCode.INVALID_REQUEST)
    if not services.security.allows_group(context, Operation.READ, group_id):
        return _refused(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    has_acknowledgements = any(
        partition.acknowledgement_batches for topic in message.topics for partition in topic.partitions
    )
    if message.is_renew_ack and _fetches(message):
        return _refused(ErrorCode.INVALID_REQUEST, "A request that renews locks cannot fetch")
    if message.share_acquire_mode not in (BATCH_OPTIMIZED, RECORD_LIMIT):
        return _refused(ErrorCode.INVALID_REQUEST, "Unknown share acquire mode")
    try:
        session = _session(message, MemberKey(group_id, member_id), has_acknowledgements, context, services)
    except ApiError as error:
        return _refused(error.code, error.message)
    by_id = services.partitions.by_id
    session.known_topics.update(each.topic_id for each in message.topics if each.topic_id in by_id)
    epoch = message.share_session_epoch
    keys = session.rotated(epoch)
    acknowledging = Acknowledging(group_id, member_id, context, services, renews=message.is_renew_ack)
    if has_acknowledgements:
        yield from acknowledging.acknowledge(message.topics)
    if epoch == FINAL_EPOCH:
        services.sessions.close(session.key)
        yield from acknowledging.release(keys)
        keys = []
    return acknowledging.then(
        lambda: outcome_of(_fetch(message, session, keys, acknowledging.results, context, services))
    )


def _fetches(message: ShareFetchRequest) -> bool:
    return any((message.max_wait_ms, message.min_bytes, message.max_bytes, message.max_records))


def _is_too_large(message: ShareFetchRequest) -> bool:
    return is_too_large(message.topics) or is_too_large(message.forgotten_topics_data)


def _refused(error: ErrorCode, why: str | None = None) -> Response:
    return Response(ShareFetchResponse(error_code=error, error_message=why))


def _session(
    message: ShareFetchRequest,
    member: MemberKey,
    has_acknowledgements: bool,
    context: RequestContext,
    services: ShareServices,
) -> ShareSession:
    """Return the member's session after the request's changes. Raises ApiError."""
    sessions, epoch = services.sessions, message.share_session_epoch
    if epoch == FINAL_EPOCH:
        return sessions.find(member)
    named = [
        SharePartitionKey(member.group_id, topic.topic_id, partition.partition_index)
        for topic in message.topics
        for partition in topic.partitions
    ]
    if epoch == FIRST_EPOCH:
        if has_acknowledgements:
            raise ApiError(ErrorCode.INVALID_REQUEST, "A new session has nothing to acknowledge")
        return sessions.open(member, context.connection.id, named)
    session = sessions.resume(member, epoch)
    forgotten = (
        SharePartitionKey(member.group_id, topic.topic_id, index)
        for topic in message.forgotten_topics_data
        for index in topic.partitions
    )
    sessions.update(session, named, forgotten)
    return session


def _fetch(
    message: ShareFetchRequest,
    session: ShareSession,
    keys: list[SharePartitionKey],
    acknowledged: dict[SharePartitionKey, Failure],
    context: RequestContext,
    services: ShareServices,
) -> Slices[Outcome]:
    """Fetch from the partitions at once or, after a wait, as a delayed operation."""
    wanted: list[WantedPartition] = []
    failures: dict[SharePartitionKey, Failure] = {}
    is_fetched = message.max_records > 0 and message.max_bytes > 0
    max_bytes = min(message.max_bytes, services.max_bytes)
    if services.quotas.fetch_active:
        max_bytes = fetch_max_bytes(services.quotas, context, max_bytes)
    pending = PendingShareFetch(
        message, session, wanted, failures, acknowledged, max_bytes, context, services
    )
    loaded = [key for key in keys if services.share.is_loaded(key)] if is_fetched else []
    unloaded = [key for key in keys if not services.share.is_loaded(key)] if is_fetched else []

    def want(key: SharePartitionKey) -> Slices[None]:
        try:
            wanted.append((yield from _wanted(key, session, context, services)))
        except ApiError as error:
            failures[key] = Failure(error.code, error.message)
        yield None

    for key in loaded:
        yield from want(key)
    if unloaded:
        pending.try_acquire()
    for key in unloaded:
        yield from want(key)
        pending.try_last()
    has_results = not wanted and (failures or acknowledged)
    if (
        not is_fetched
        or has_results
        or message.share_session_epoch == FINAL_EPOCH
        or message.max_wait_ms <= 0
    ):
        return pending.response()
    operation = DelayedShareFetch(message.max_wait_ms, pending)
    watched = [watch for each in wanted for watch in (each.log, each.share)]
    if services.waiting.try_complete_else_watch(operation, watched, context.now_ms):
        return pending.response()
    context.connection.waiting = operation
    return DELAYED


def _wanted(
    key: SharePartitionKey, session: ShareSession, context: RequestContext, services: ShareServices
) -> Slices[WantedPartition]:
    """Return the partition with its log and its share partition. Raises ApiError."""
    topic = services.partitions.by_id.get(key.topic_id)
    if topic is None and key.topic_id in session.known_topics:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
    if not services.security.allows_topic(context, Operation.READ, topic.name):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    log = topic.log(key.partition)
    if log is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    log.check_usable()
    return WantedPartition(key, log, (yield from services.share.load(key, log)))
