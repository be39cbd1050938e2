"""The broker's own resolver, with invented rules and usage. Part of the fake broker."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from broker.common.slices import Steps
from broker.controller.client_quotas import proposed
from broker.controller.commands import EntityPairs, QuotaAlteration
from broker.controller.rows.quotas import ClientUsage, Decided, NodeUse, QuotaRow
from broker.metadata.image import Image, Limit, QuotaEntry
from broker.quotas.remote_use import Clients
from broker.views.quota_views import QuotaViews, all_clients
from broker.views.resolving import ClientIdentity, Resolver, steps_for
from tests.support.fake_shares import FakeShares
from tests.webui.rows import NOW_MS


class FakeResolving:
    """What `QuotaViews.resolve` and `resolve_all` answer of `rows`, `usage_rows`, `observed`."""

    rows: dict[EntityPairs, QuotaRow]
    usage_rows: list[ClientUsage]
    observed: dict[EntityPairs, dict[str, float]]
    decisions: dict[str, Decided]
    at_nodes: dict[str, tuple[NodeUse, ...]]
    remote_shares: FakeShares
    throttled_here: dict[str, list[Clients]]

    resolve = QuotaViews.resolve
    resolve_all = QuotaViews.resolve_all
    _ipv6_prefix = 128

    def each_usage(self) -> Iterator[ClientUsage | None]:
        return all_clients(list(self.usage_rows), self.remote_shares.clients(), lambda _user, _client: ())

    def _resolver(self, changes: Sequence[QuotaAlteration]) -> Steps[Resolver]:
        image = replace(Image(), quotas={entity: quota_entry(row) for entity, row in self.rows.items()})
        live = FakeLive(
            self.rows, self.usage_rows, self.observed, self.decisions, self.at_nodes, self.throttled_here
        )
        others = yield from proposed(changes, image, 128)
        return Resolver(image.quotas, others, live, self.remote_shares)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class FakeLive:
    """The live values that the resolver reads."""

    rows: Mapping[EntityPairs, QuotaRow]
    usage_rows: Sequence[ClientUsage]
    use: Mapping[EntityPairs, Mapping[str, float]]
    decisions: Mapping[str, Decided]
    at_nodes: Mapping[str, tuple[NodeUse, ...]]
    throttled: Mapping[str, Sequence[Clients]]

    def throttled_clients(self, key: str) -> Sequence[Clients]:
        return self.throttled.get(key, ())

    def usage(self) -> Sequence[ClientUsage]:
        return self.usage_rows

    def observed(self, key: str, user: str, client_id: str, ip: str) -> float | None:
        """What was made up for the rule that governs."""
        for step in steps_for(ClientIdentity(user, client_id, ip), key):
            row = self.rows.get(step)
            if row is not None and row.value(key) is not None:
                return self.use.get(step, {}).get(key)
        return None

    def decided(self, user: str, client_id: str, key: str) -> Decided | None:
        return self.decisions.get(key)

    def nodes(self, key: str, user: str, client_id: str, bound: float) -> tuple[NodeUse, ...]:
        return self.at_nodes.get(key, ())

    def first_wait_ms(self, key: str, user: str, client_id: str, entity: EntityPairs, bound: float) -> int:
        """By the use that was made up for the rule, which it keeps."""
        return self.wait_ms(key, self.use.get(entity, {}).get(key, 0.0), bound)

    def wait_ms(self, key: str, observed: float, bound: float) -> int:
        return max(round((observed - bound) / bound * 10_000), 0)


def quota_entry(row: QuotaRow) -> QuotaEntry:
    limits = {each.key: Limit(each.value, each.changed_at_ms, each.changed_by) for each in row.limits}
    return QuotaEntry(row.entity, limits, row.version, row.changed_at_ms, row.changed_by, row.shadow)


def usage(
    user: str, client_id: str, bytes_in: float = 0.0, bytes_out: float = 0.0, **more: Any
) -> ClientUsage:
    """A client that has done as much for five minutes."""
    row = ClientUsage(
        user=user,
        client_id=client_id,
        connections=1,
        bytes_in_per_s=bytes_in,
        bytes_out_per_s=bytes_out,
        requests_per_s=10.0,
        request_percentage=None,
        bytes_in=int(bytes_in * 300),
        bytes_out=int(bytes_out * 300),
        requests=3_000,
        since_at_ms=NOW_MS - 300_000,
        last_active_at_ms=NOW_MS,
        limited_by=(),
        history=lambda: ((int(bytes_in * 5), int(bytes_out * 5), 50),) * 60,
    )
    return replace(row, **more)
