"""Sets up a Fetch once its partitions are known. Called by `a01_fetch` and `fetch_many`."""

from broker.api.broker import Broker
from broker.api.byte_quotas import fetch_max_bytes
from broker.api.context import RequestContext
from broker.api.fetch_pending import PendingFetch
from broker.api.fetch_replica import refuse_unprivileged, replica_reading
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
    broker: Broker,
) -> PendingFetch:
    """Return a fetch that has read nothing yet.

    `kind` builds its response; `replica` is negative for a consumer.
    """
    max_bytes = min(message.max_bytes, broker.fetch_config.max_bytes)
    if replica >= 0:
        refuse_unprivileged(wanted, context, broker)
        reading = replica_reading(replica, wanted, max_bytes, broker)
    else:
        if broker.quotas.fetch_active:
            max_bytes = fetch_max_bytes(broker.quotas, context, max_bytes)
        reading = Reading(wanted, max_bytes)
    return kind(broker, context, reading, session, incremental)
