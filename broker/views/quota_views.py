"""The quotas with their use, here and at the other gateways that share limits. Part of `console.Views`."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, zip_longest
from typing import Final

from broker.common.principal import ANONYMOUS
from broker.common.slices import Steps
from broker.controller.client_quotas import proposed
from broker.controller.commands import EntityPairs, QuotaAlteration
from broker.controller.control import Control
from broker.controller.rows.connections import AddressRow, ThrottledRow
from broker.controller.rows.quotas import (
    BrokerQuotas,
    ClientUsage,
    MatchType,
    QuotaFilter,
    QuotaRow,
    ResolvedLimit,
)
from broker.quotas.client_quota_requests import Component, EntityFilter
from broker.quotas.client_quota_requests import MatchType as KafkaMatchType
from broker.quotas.entity import Entity
from broker.views.live_quotas import LiveQuotas
from broker.views.quota_rows import QuotaRows, address_key, address_rows, broker_quotas
from broker.views.resolving import ClientIdentity, Resolver, keys_for
from broker.views.upstream_views import ShareViews

_MATCHES: Final = {
    MatchType.EXACT: KafkaMatchType.EXACT,
    MatchType.DEFAULT: KafkaMatchType.DEFAULT,
    MatchType.ANY: KafkaMatchType.SPECIFIED,
}


History = Sequence[tuple[int, int, int]]


class QuotaViews:
    """Builds its rows anew for each call, except those of unused rules (`quota_rows`)."""

    def __init__(self, control: Control, live: LiveQuotas, shares: ShareViews) -> None:
        self._control = control
        self._live = live
        self._shares = shares
        self._rules = QuotaRows(live, shares, rules_decide=not self.callback)

    @property
    def callback(self) -> str:
        """The class of the quota callback that replaces the rules; "" without one."""
        return self._control.config.quotas.callback_class

    def each_quota(
        self, components: Sequence[QuotaFilter] = (), *, strict: bool = False
    ) -> Iterator[QuotaRow | None]:
        """Yield the rules in no order, built lazily: ten thousand rows take a tenth of a second, and the
        caller can pause between them. All are from the same image. None stands for work without a row yet.

        Filters as Kafka does (KIP-546): all components must match; strict excludes entities with other
        types. Raises ApiError INVALID_REQUEST or UNSUPPORTED_VERSION as DescribeClientQuotas does.
        """
        wanted = EntityFilter(
            [Component(each.entity_type, _MATCHES[each.match], each.name) for each in components],
            strict=strict,
        )
        if not components and not strict:
            return self._rules.each(self._control.image.quotas)
        return self._rules.each(self._control.image.quotas, lambda pairs: wanted.matches(Entity.of(pairs)))

    def quota(self, entity: EntityPairs) -> Steps[QuotaRow | None]:
        quotas = self._control.image.quotas
        entry = quotas.get(Entity.of(entity).pairs)
        return None if entry is None else (yield from self._rules.one(entry, quotas))

    def limited_keys(self, entity: EntityPairs) -> tuple[str, ...]:
        """Return the keys of the entity's limits."""
        entry = self._control.image.quotas.get(Entity.of(entity).pairs)
        return () if entry is None else tuple(entry.limits)

    def resolve(
        self,
        user: str | None,
        client_id: str | None,
        ip: str | None = None,
        changes: Sequence[QuotaAlteration] = (),
    ) -> Steps[list[tuple[ResolvedLimit, ResolvedLimit]]]:
        """Return the probes, the match and the use for each key, before and after `changes`.

        None as user is an anonymous connection; without `ip`, the address limit is left out. Raises ApiError
        INVALID_REQUEST as AlterClientQuotas would for `changes`.
        """
        client = ClientIdentity(user or ANONYMOUS, client_id or "", address_key(ip or "", self._ipv6_prefix))
        resolver = yield from self._resolver(changes)
        return (yield from resolver.resolve_keys(client, keys_for(client)))

    def resolve_all(
        self,
        clients: Sequence[tuple[str, str]],
        keys: Collection[str],
        changes: Sequence[QuotaAlteration] = (),
    ) -> Iterator[list[tuple[ResolvedLimit, ResolvedLimit]] | None]:
        """Resolve many (user, client id) pairs for these keys; None stands for work without a result yet.
        Collects the use once for all of them; each client and key takes about 30 us.
        """
        resolver = yield from self._resolver(changes)
        for user, client_id in clients:
            yield (yield from resolver.resolve_keys(ClientIdentity(user, client_id), keys))
        yield from resolver.freed()

    def _resolver(self, alterations: Sequence[QuotaAlteration]) -> Steps[Resolver]:
        image = self._control.image
        others = yield from proposed(alterations, image, self._ipv6_prefix)
        return Resolver(image.quotas, others, self._live, self._shares)

    @property
    def _ipv6_prefix(self) -> int:
        return self._control.config.connections.ipv6_prefix_length

    def each_usage(self) -> Iterator[ClientUsage | None]:
        """Yield client usage in no order, built lazily; at a gateway that shares limits, also that of the
        clients which the other gateways list. None stands for work without a row yet.
        """
        return all_clients(self._live.usage(), self._shares.clients(), self._live.limited_by)

    def each_address(self) -> Iterator[AddressRow | None]:
        """Yield the addresses with a `connection_creation_rate` or a connection in the last hour, built
        lazily; at a gateway that shares limits, also those that the other gateways list. None stands for work
        without a row yet.
        """
        return address_rows(
            self._control.image,
            self._live.addresses(),
            self._live.controller_addresses(),
            self._ipv6_prefix,
            self._shares.addresses(),
        )

    def each_throttled(self) -> Iterator[ThrottledRow]:
        """Yield throttled connections in no order, built lazily; at a gateway that shares limits, also those
        of the other gateways, as far as their reports list them.
        """
        return chain(self._live.throttled(), self._shares.throttled())

    def throttled(self) -> list[ThrottledRow]:
        """As `each_throttled`, the longest remaining time first."""
        return sorted(self.each_throttled(), key=lambda row: -row.remaining_ms)

    def broker_quotas(self) -> BrokerQuotas:
        """Return the limits of the whole broker and of the cluster, with their use."""
        config, image = self._control.config, self._control.image
        topics = image.topics.values()
        return broker_quotas(
            config.broker_quotas,
            self._live.broker_limits(),
            self._live.retry_storm(),
            (len(topics), sum(topic.partitions for topic in topics)),
            image.broker_config_version(str(config.broker.node_id)),
        )


def all_clients(
    own: Iterable[ClientUsage],
    others: Iterable[ClientUsage],
    limited_by: Callable[[str, str], tuple[str, ...]],
) -> Iterator[ClientUsage | None]:
    """Yield the clients of all gateways that share limits, in no order: one that uses several of them is one
    row. `others` are those of other gateways. None stands for work without a row yet. `limited_by` returns
    the keys of the limits of a user and client id.
    """
    there: dict[tuple[str, str], list[ClientUsage]] = {}
    for row in others:
        there.setdefault((row.user, row.client_id), []).append(row)
        yield None
    for row in own:
        same = there.pop((row.user, row.client_id), None)
        yield row if same is None else _together([row, *same], row.limited_by)
    for rows in there.values():
        yield _together(rows, limited_by(rows[0].user, rows[0].client_id))


def _together(rows: Sequence[ClientUsage], limited_by: tuple[str, ...]) -> ClientUsage:
    first = rows[0]
    times = [row.request_percentage for row in rows if row.request_percentage is not None]
    return ClientUsage(
        user=first.user,
        client_id=first.client_id,
        connections=sum(row.connections for row in rows),
        bytes_in_per_s=sum(row.bytes_in_per_s for row in rows),
        bytes_out_per_s=sum(row.bytes_out_per_s for row in rows),
        requests_per_s=sum(row.requests_per_s for row in rows),
        request_percentage=max(times, default=None),
        bytes_in=sum(row.bytes_in for row in rows),
        bytes_out=sum(row.bytes_out for row in rows),
        requests=sum(row.requests for row in rows),
        since_at_ms=min(row.since_at_ms for row in rows),
        last_active_at_ms=max(row.last_active_at_ms for row in rows),
        limited_by=limited_by,
        history=partial(_histories, [row.history for row in rows]),
        nodes=first.nodes,
        gateways=tuple(dict.fromkeys(name for row in rows for name in row.gateways)),
    )


def _histories(histories: Iterable[Callable[[], History]]) -> History:
    """Return the sums of each interval. The last intervals of all are the same, within five seconds."""
    backwards = zip_longest(*(reversed(history()) for history in histories), fillvalue=(0, 0, 0))
    sums = [tuple(map(sum, zip(*rows, strict=True))) for rows in backwards]
    return [(row[0], row[1], row[2]) for row in reversed(sums)]
