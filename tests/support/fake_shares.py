"""Other gateways that share limits, with what the test says that they tell."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from broker.controller.rows.connections import AddressUse
from broker.controller.rows.quotas import ClientUsage
from broker.controller.rows.upstream import (
    DrainRow,
    DrainState,
    GatewaySums,
    Incomplete,
    UpstreamCondition,
    UpstreamRow,
    UpstreamSummary,
)
from broker.quotas.remote_use import Clients, RemoteUse, SensorUse, remote_use
from broker.views.upstream_views import ShareViews
from tests.webui.rows import upstream


@dataclass
class FakeShares(ShareViews):
    """What the other gateways tell."""

    sums: GatewaySums | None = None
    uses: list[tuple[str, SensorUse]] = field(default_factory=list)
    parts: dict[str, float] = field(default_factory=dict)
    client_rows: list[ClientUsage] = field(default_factory=list)
    address_rows: list[AddressUse] = field(default_factory=list)
    not_complete: Incomplete = field(default_factory=Incomplete)

    def others(self) -> GatewaySums | None:
        return self.sums

    def remote_use(self) -> RemoteUse:
        return remote_use((gateway, [use]) for gateway, use in self.uses)

    def clients(self) -> Sequence[ClientUsage]:
        return self.client_rows

    def addresses(self) -> Sequence[AddressUse]:
        return self.address_rows

    def incomplete(self) -> Incomplete:
        return self.not_complete

    def share(self, key: str, clients: Clients, gateway: str) -> float | None:
        return self.parts.get(gateway)


class FakeUpstream:
    """An `UpstreamViewSource` that reads nothing of its cluster."""

    contents: Any = None

    def __init__(self, shares: ShareViews) -> None:
        self.shares = shares

    def row(self) -> UpstreamRow:
        return upstream()

    def summary(self) -> UpstreamSummary:
        return UpstreamSummary("a cluster", UpstreamCondition.CONNECTED, 3, 2)

    def drain(self) -> DrainRow:
        return DrainRow(DrainState.SERVING, 0, 0, (), None, None)
