"""The views that a gateway adds to `console.Views`: its upstream cluster, and the other gateways that share
limits.

A broker has neither. Implemented by `gateway.upstream_views` and `gateway.sharing.views`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from broker.controller.rows.connections import AddressUse, ThrottledRow
from broker.controller.rows.quotas import ClientUsage
from broker.controller.rows.upstream import (
    DrainRow,
    GatewayRow,
    GatewaySums,
    Incomplete,
    RefusedRecords,
    ShareRow,
    UpstreamRow,
    UpstreamSummary,
)
from broker.network.connection.channel import Channel
from broker.quotas.remote_use import NO_REMOTE_USE, Clients, RemoteUse
from broker.views.acls import AclViews
from broker.views.connection_search import ConnectionQuery, RemoteConnections
from broker.views.metadata import MetadataViews
from broker.views.readings import Readings
from broker.views.topics import TopicViews

UpstreamOf = Callable[[Channel], tuple[str, int | None]]
"""Returns where a connection is forwarded to: address, "" for none, and node."""


class ShareViews:
    """The gateways of the upstream cluster and their shares of each limit. All calls but `connections` are
    fast. This class is of a server whose limits are its own: it has no other gateways.

    What other gateways report is up to a second old, and that of a lost gateway five seconds.
    """

    def gateways(self) -> Sequence[GatewayRow]:
        """Return all known gateways, this one included."""
        return ()

    def shares(self) -> Iterable[ShareRow]:
        """Yield the shares of all gateways, in no order; rows are built lazily."""
        return ()

    def others(self) -> GatewaySums | None:
        """Return the sums of the other gateways; None if limits are not shared."""
        return None

    def remote_use(self) -> RemoteUse:
        """Return the use of limits that the other gateways report: each the most used ones."""
        return NO_REMOTE_USE

    def unlisted_use(self) -> int:
        """Return how many limits other gateways use beside those."""
        return 0

    def clients(self) -> Iterable[ClientUsage]:
        """Yield the clients of other gateways, without `limited_by`: of each gateway the busiest. The same
        client may be at several.
        """
        return ()

    def unlisted_clients(self) -> int:
        """Return how many clients other gateways have beside those."""
        return 0

    def addresses(self) -> Iterable[AddressUse]:
        """Yield the addresses at other gateways: of each gateway those that connected last."""
        return ()

    def unlisted_addresses(self) -> int:
        """Return how many addresses other gateways have beside those."""
        return 0

    def without_report(self) -> Sequence[str]:
        """Return the ids of other gateways that have not reported their clients and addresses."""
        return ()

    def incomplete(self) -> Incomplete:
        """Return the gateways that do not report all of this."""
        return Incomplete()

    def share(self, key: str, clients: Clients, gateway: str) -> float | None:
        """Return the fraction of a limit that a gateway has, "" for this one; None if each gateway has the
        whole limit, or if it is not known.
        """
        return None

    def throttled(self) -> Iterable[ThrottledRow]:
        """Yield connections that other gateways throttle: of each gateway those with the longest remaining
        time, in no order; rows are built lazily.
        """
        return ()

    def unlisted_throttled(self) -> int:
        """Return how many connections other gateways throttle beside those."""
        return 0

    async def connections(self, query: ConnectionQuery) -> RemoteConnections:
        """Ask the other gateways for their connections. Takes some milliseconds, two seconds at most; the
        answer can be a second old.
        """
        return RemoteConnections()


class ContentViews(Protocol):
    """The views of what a server contains that are about the upstream cluster at a gateway: they show the
    last of its `readings`.
    """

    @property
    def readings(self) -> Readings: ...

    @property
    def topics(self) -> TopicViews: ...

    @property
    def metadata(self) -> MetadataViews: ...

    @property
    def acls(self) -> AclViews: ...


class UpstreamViewSource(Protocol):
    """All calls are fast and synchronous, and return the current state."""

    @property
    def shares(self) -> ShareViews: ...

    @property
    def contents(self) -> ContentViews: ...

    def row(self) -> UpstreamRow: ...

    def summary(self) -> UpstreamSummary: ...

    def drain(self) -> DrainRow:
        """Return whether the gateway is drained."""

    def refused(self) -> Sequence[RefusedRecords]:
        """Return the records of the gateways' topics that no gateway wrote."""

    def upstream_of(self) -> UpstreamOf: ...
