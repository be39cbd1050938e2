"""The quotas with their use, here and at the other gateways that share limits. Part of `console.Views`."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, zip_longest
from typing import Final

import msgspec

from broker.common.principal import ANONYMOUS
from broker.common.slices import Steps
from broker.config.kinds import LONG_MAX
from broker.config.sections import BrokerQuotaConfig
from broker.config.setting import settings_of
from broker.controller.client_quotas import proposed
from broker.controller.commands import EntityPairs, QuotaAlteration
from broker.controller.control import Control
from broker.controller.rows.connections import AddressRow, AddressUse, ThrottledRow
from broker.controller.rows.quotas import (
    BrokerLimit,
    BrokerQuotas,
    ClientUsage,
    ClusterLimit,
    MatchType,
    QuotaFilter,
    QuotaRow,
    ResolvedLimit,
    RetryStormRow,
    RetryStormUse,
    WhiteList,
)
from broker.metadata.image import Image, QuotaEntry
from broker.quotas.client_quota_requests import Component, EntityFilter
from broker.quotas.client_quota_requests import MatchType as KafkaMatchType
from broker.quotas.connection_rates import canonical_address, counted_address
from broker.quotas.connections import IP_RATE
from broker.quotas.entity import IP, Entity
from broker.views.live_quotas import LiveQuotas
from broker.views.quota_rows import QuotaRows, temporary_row
from broker.views.resolving import ClientIdentity, Resolver, keys_for
from broker.views.upstream_views import ShareViews

_MATCHES: Final = {
    MatchType.EXACT: KafkaMatchType.EXACT,
    MatchType.DEFAULT: KafkaMatchType.DEFAULT,
    MatchType.ANY: KafkaMatchType.SPECIFIED,
}

AddressUses = tuple[AddressUse | None, AddressUse | None]
"""On the broker's listeners, on the controller's."""

_NO_USE: Final[AddressUses] = (None, None)

_SETTINGS: Final = {each.name: setting for each, setting in settings_of(BrokerQuotaConfig)}

History = Sequence[tuple[int, int, int]]


class QuotaViews:
    """Builds its rows anew for each call, except those of unused rules (`quota_rows`)."""

    def __init__(self, control: Control, live: LiveQuotas, shares: ShareViews) -> None:
        self._control = control
        self._live = live
        self._shares = shares
        self._rules = QuotaRows(live, shares, control.wall_ms, rules_decide=not self.callback)

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
            self._control.wall_ms(),
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


def address_rows(
    image: Image,
    uses: Iterable[AddressUse],
    controller_uses: Iterable[AddressUse],
    ipv6_prefix: int,
    remote_uses: Iterable[AddressUse] = (),
    wall_ms: int = 0,
) -> Iterator[AddressRow | None]:
    """Yield rows in no order; None stands for work without a row yet. `remote_uses` is the use at other
    gateways.

    Different spellings of an address are one row, and so are all addresses with the same first `ipv6_prefix`
    bits; the row has the first of them.
    """
    seen: dict[str, AddressUses] = {use.address: (use, None) for use in uses}
    for use in controller_uses:
        seen[use.address] = (seen.get(use.address, _NO_USE)[0], use)
    there: dict[str, tuple[AddressUse, ...]] = {}
    for use in remote_uses:
        there[use.address] = (*there.get(use.address, ()), use)
        seen.setdefault(use.address, _NO_USE)
        yield None
    default: float | None = None
    ruled: dict[str, QuotaEntry] = {}
    for entity, entry in image.quotas.items():
        if len(entity) == 1 and entity[0][0] == IP:
            name = entity[0][1]
            if name is None:
                default = _ip_limit(entry)
                yield _address_row(None, entry, default, _NO_USE, (), wall_ms)
            else:
                ruled[name] = entry
        yield None
    for name, entry in ruled.items():
        key = address_key(name, ipv6_prefix)
        yield _address_row(name, entry, default, seen.pop(key, _NO_USE), there.get(key, ()), wall_ms)
    for address, both in seen.items():
        yield _address_row(address, None, default, both, there.get(address, ()), wall_ms)


def address_key(ip: str, ipv6_prefix: int) -> str:
    """Return the key under which `ip` is counted; an invalid address is returned unchanged."""
    try:
        return counted_address(canonical_address(ip), ipv6_prefix)
    except ValueError:
        return ip


def _ip_limit(entry: QuotaEntry) -> float | None:
    """Return the limit in force."""
    limit = entry.limits.get(IP_RATE)
    return None if limit is None else limit.value


def _address_row(
    address: str | None,
    entry: QuotaEntry | None,
    default: float | None,
    uses: AddressUses,
    remote_uses: tuple[AddressUse, ...],
    wall_ms: int,
) -> AddressRow:
    if entry is None:
        return AddressRow(address, None, default, 0, 0, "", *uses, remote_uses)
    limit = _ip_limit(entry)
    temporary = entry.temporary.get(IP_RATE)
    return AddressRow(
        address,
        limit,
        default if limit is None else limit,
        entry.version,
        entry.changed_at_ms,
        entry.changed_by,
        *uses,
        remote_uses,
        None if temporary is None else temporary_row(IP_RATE, temporary, wall_ms),
    )


def _key(field: str) -> str:
    """Return the key of a field of the section."""
    return _SETTINGS[field].key


def broker_quotas(
    config: BrokerQuotaConfig,
    limits: Sequence[BrokerLimit],
    storm: RetryStormUse,
    counts: tuple[int, int],
    version: int,
) -> BrokerQuotas:
    """Return the row; `counts` are the numbers of topics and partitions."""
    topics, partitions = counts
    return BrokerQuotas(
        is_enabled=config.quota_enabled,
        limits=tuple(limits),
        white_lists=(
            WhiteList(_key("white_list_users"), config.white_list_users),
            WhiteList(_key("white_list_client_ids"), config.white_list_client_ids),
            WhiteList(_key("white_list_listeners"), config.white_list_listeners),
        ),
        cluster=(
            ClusterLimit(_key("topic_count"), _limit_or_none(config.topic_count), topics),
            ClusterLimit(_key("partition_count"), _limit_or_none(config.partition_count), partitions),
        ),
        retry_storm=RetryStormRow(
            config.retry_storm_backoff, config.retry_storm_max_delay_ms, *msgspec.structs.astuple(storm)
        ),
        version=version,
    )


def _limit_or_none(value: int) -> int | None:
    return None if value >= LONG_MAX else value
