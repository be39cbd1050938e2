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

from broker.api.fetch.fast_path import FetchFastPath
from broker.api.fetch.pending import replica_of
from broker.api.fetch.usual import fetch
from broker.api.registry import api
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, in_slices
from broker.api.requests.services import FetchServices
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.fetch import FetchRequest


@api(ApiKey.FETCH, versions=(4, 18), services=FetchServices, fast_path=FetchFastPath)
def handle(
    message: FetchRequest, context: RequestContext, services: FetchServices
) -> Outcome | Awaitable[Outcome]:
    replica = replica_of(message)
    if replica >= 0:
        context.count_as("FetchFollower")
        context.exempt = True
    return in_slices(fetch(message, replica, context, services))
