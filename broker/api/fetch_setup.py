"""Sets up a Fetch once its partitions are known. Called by `a01_fetch` and `fetch_many`."""

from broker.api.byte_quotas import fetch_max_bytes
from broker.api.context import RequestContext
from broker.api.fetch_pending import PendingFetch
from broker.api.fetch_replica import refuse_unprivileged, replica_reading
from broker.api.services import FetchServices
from broker.protocol.messages.fetch import FetchRequest
from broker.services.fetch_sessions import FetchSession
from broker.services.fetching import Reading, Wanted


def pending_fetch(
    kind: type[PendingFetch],
    message: FetchRequest,
    replica: int,
    wanted: list[Wanted],
    session: FetchSession | None,
    incremental: bool,
    context: RequestContext,
    services: FetchServices,
) -> PendingFetch:
    """Return a fetch that has read nothing yet.

    `kind` builds its response; `replica` is negative for a consumer.
    """
    max_bytes = min(message.max_bytes, services.max_bytes)
    if replica >= 0:
        refuse_unprivileged(wanted, context, services)
        reading = replica_reading(replica, wanted, max_bytes, services)
    else:
        if services.quotas.fetch_active:
            max_bytes = fetch_max_bytes(services.quotas, context, max_bytes)
        reading = Reading(wanted, max_bytes)
    return kind(services, context, reading, session, incremental)
