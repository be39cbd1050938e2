"""Fetch: reads record batches and waits up to `max_wait_ms` for `min_bytes`.

Versions 4-18; sessions (KIP-227) from 7, topic ids from 13. Records pass from the page cache to the socket. A
partition without records has empty bytes, never null (librdkafka, kafka-python). A fetch over its byte-rate
quota or its client's request quota gets an empty response with the throttle time, and the byte-rate quota
takes back the recorded bytes. An unknown partition does not end the wait of the others. The replication
throttle applies to replica fetches instead of client quotas. With isolation level 1, records end at the last
stable offset, and the response names the aborted transactions among them. Left out: follower progress on the
leader.
"""

from collections.abc import Awaitable
from typing import Final

from broker.api.fetch.fast_path import FetchFastPath
from broker.api.fetch.many import fetch_many
from broker.api.fetch.partitions import makes_logs, requested_partitions
from broker.api.fetch.pending import (
    PendingFetch,
    PendingReplicaFetch,
    pending_fetch,
    refuse_unprivileged,
    replica_of,
)
from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import DELAYED, Outcome, Response, in_slices
from broker.api.requests.services import FetchServices
from broker.common.errors import ApiError
from broker.partitions.fetching import DelayedFetch
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.fetch import FetchRequest, FetchResponse
from broker.records.slices import SLICE

MANY_BYTES: Final = 8192
"""Request size in bytes, about 250 partitions, above which the handler reads in slices; our own limit."""

SOME_BYTES: Final = 512
"""The same limit, about 15 partitions, for requests that create logs: each takes a millisecond."""


@api(ApiKey.FETCH, versions=(4, 18), services=FetchServices, fast_path=FetchFastPath)
def handle(
    message: FetchRequest, context: RequestContext, services: FetchServices
) -> Outcome | Awaitable[Outcome]:
    replica = replica_of(message)
    if replica >= 0:
        context.count_as("FetchFollower")
        context.exempt = True
    if context.size > MANY_BYTES or services.sessions.size_of(message.session_id) > SLICE:
        return in_slices(fetch_many(message, replica, context, services))
    if context.size > SOME_BYTES and makes_logs(message, services.partitions):
        return in_slices(fetch_many(message, replica, context, services))
    try:
        requested, session, incremental = requested_partitions(message, context, services)
    except ApiError as error:
        return Response(FetchResponse(error_code=error.code))
    kind = PendingFetch
    if replica >= 0:
        kind = PendingReplicaFetch
    refuse_unprivileged(requested, replica, context, services)
    pending = pending_fetch(kind, message, replica, requested, session, incremental, context, services)
    reading = pending.reading
    min_bytes = min(message.min_bytes, reading.max_bytes)
    if reading.read() >= min_bytes or reading.stop_waiting or message.max_wait_ms <= 0:
        return pending.response(fresh=True)
    reading.drop()
    operation = DelayedFetch(message.max_wait_ms, pending, min_bytes)
    keys = [each.log for each in requested if each.log is not None]
    if services.fetches.try_complete_else_watch(operation, keys, context.now_ms):
        return pending.response()
    context.connection.waiting = operation
    return DELAYED
