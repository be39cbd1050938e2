"""The rows of quota rules, of addresses and of the broker's limits, each with its use. Used by `quota_views`.

Ten thousand rows of rules take a tenth of a second, and an open page requests them every second or two, so
the rows of unused rules are cached until their rule changes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

import msgspec

from broker.common.slices import Steps
from broker.config.kinds import LONG_MAX
from broker.config.sections import BrokerQuotaConfig
from broker.config.setting import settings_of
from broker.controller.commands import EntityPairs
from broker.controller.rows.connections import AddressRow, AddressUse
from broker.controller.rows.quotas import (
    BrokerLimit,
    BrokerQuotas,
    ClusterLimit,
    QuotaLimit,
    QuotaRow,
    QuotaUse,
    RetryStormRow,
    RetryStormUse,
    ShadowUse,
    WhiteList,
)
from broker.metadata.image import Image, QuotaEntry
from broker.quotas.connection_rates import canonical_address, counted_address
from broker.quotas.connections import IP_RATE
from broker.quotas.entity import IP, Entity
from broker.views.live_quotas import LiveQuotas
from broker.views.overridden import (
    ClientsByLimit,
    Quotas,
    Rules,
    clients_by_limit,
    rules_in_steps,
)
from broker.views.upstream_views import ShareViews

AddressUses = tuple[AddressUse | None, AddressUse | None]
"""On the broker's listeners, on the controller's."""

_NO_USE: Final[AddressUses] = (None, None)

_SETTINGS: Final = {each.name: setting for each, setting in settings_of(BrokerQuotaConfig)}

_UNUSED: dict[str, QuotaUse] = {}
_UNMARKED: dict[str, ShadowUse] = {}


class QuotaRows:
    def __init__(self, live: LiveQuotas, shares: ShareViews, *, rules_decide: bool = True) -> None:
        """`rules_decide`: no callback replaces the search for a client's rule."""
        self._live = live
        self._shares = shares
        self._rules_decide = rules_decide
        self._rules = Rules({}, ())
        self._cached: dict[EntityPairs, tuple[QuotaEntry, QuotaRow]] = {}
        self._cached_quotas: Quotas = {}

    def each(
        self, quotas: Quotas, wanted: Callable[[EntityPairs], bool] | None = None
    ) -> Iterator[QuotaRow | None]:
        """Yield the rows of the entities that are `wanted`, in no order. Yields None first, for each step of
        collecting their use. Each change of an image's `quotas` creates a new mapping.
        """
        uses: dict[EntityPairs, dict[str, QuotaUse]] = {}
        for use in self._live.quota_use():
            yield None
            if use is not None:
                uses.setdefault(use.entity, {})[use.key] = use
        shadows: dict[EntityPairs, dict[str, ShadowUse]] = {}
        for mark in self._live.shadow_use():
            shadows.setdefault(mark.entity, {})[mark.key] = mark
        cached = self._cached
        if quotas is not self._cached_quotas:
            self._cached_quotas = quotas
            for entity in list(cached):
                yield None
                if entity not in quotas:
                    cached.pop(entity, None)
        connected = yield from self._connected(quotas)

        def ranked(row: QuotaRow) -> QuotaRow:
            return row if connected is None else connected.with_overriding(row)

        for entity, entry in quotas.items():
            # Removed here, so that the uses of thousands of rules are freed in steps.
            used = uses.pop(entity, _UNUSED) if uses else _UNUSED
            if wanted is not None and not wanted(entity):
                yield None
                continue
            if used is not _UNUSED or entry.shadow:
                yield ranked(_row(entry, used, shadows.get(entity, _UNMARKED)))
                continue
            known = cached.get(entity)
            if known is None or known[0] is not entry:
                known = cached[entity] = (entry, _row(entry, _UNUSED, _UNMARKED))
            yield ranked(known[1])

    def one(self, entry: QuotaEntry, quotas: Quotas) -> Steps[QuotaRow]:
        uses = {use.key: use for use in self._live.quota_use_of(entry.entity)}
        marks: Mapping[str, ShadowUse] = _UNMARKED
        if entry.shadow:
            marks = {mark.key: mark for mark in self._live.shadow_use() if mark.entity == entry.entity}
        row = _row(entry, uses, marks)
        connected = yield from self._connected(quotas, Entity.of(entry.entity))
        return row if connected is None else connected.with_overriding(row)

    def _connected(self, quotas: Quotas, only: Entity | None = None) -> Steps[ClientsByLimit | None]:
        """Count the connected clients, those of one rule or all; none if some are unknown. Return None if no
        rule can override another.
        """
        if not self._rules_decide:
            return None
        if quotas is not self._rules.quotas:
            self._rules = yield from rules_in_steps(quotas)
        rules = self._rules
        if not rules.can_override:
            return None
        if self._shares.unlisted_clients() or self._shares.without_report():
            return ClientsByLimit(rules)
        clients = chain(
            self._live.connected_clients(),
            ((row.user, row.client_id) for row in self._shares.clients() if row.connections),
        )
        return (yield from clients_by_limit(rules, clients, only))


def _row(entry: QuotaEntry, uses: Mapping[str, QuotaUse], marks: Mapping[str, ShadowUse]) -> QuotaRow:
    limits = []
    for key, limit in entry.limits.items():
        seen = uses.get(key)
        observed, throttled = (None, 0) if seen is None else (seen.observed, seen.throttled)
        node = None if seen is None else seen.upstream_node
        would = marks.get(key) if entry.shadow else None
        by, at_ms = limit.changed_by, limit.changed_at_ms
        gateway = "" if seen is None else seen.gateway
        limits.append(QuotaLimit(key, limit.value, observed, throttled, at_ms, by, would, node, gateway))
    return QuotaRow(
        entry.entity, tuple(limits), entry.version, entry.changed_at_ms, entry.changed_by, entry.shadow
    )


def address_rows(
    image: Image,
    uses: Iterable[AddressUse],
    controller_uses: Iterable[AddressUse],
    ipv6_prefix: int,
    remote_uses: Iterable[AddressUse] = (),
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
    ruled: dict[str, tuple[QuotaEntry, float]] = {}
    for entity, entry in image.quotas.items():
        if len(entity) == 1 and entity[0][0] == IP and IP_RATE in entry.limits:
            name, value = entity[0][1], entry.limits[IP_RATE].value
            if name is None:
                default = value
                yield _address_row(None, entry, value, value, _NO_USE, ())
            else:
                ruled[name] = entry, value
        yield None
    for name, (entry, value) in ruled.items():
        key = address_key(name, ipv6_prefix)
        yield _address_row(name, entry, value, value, seen.pop(key, _NO_USE), there.get(key, ()))
    for address, both in seen.items():
        yield _address_row(address, None, None, default, both, there.get(address, ()))


def address_key(ip: str, ipv6_prefix: int) -> str:
    """Return the key under which `ip` is counted; an invalid address is returned unchanged."""
    try:
        return counted_address(canonical_address(ip), ipv6_prefix)
    except ValueError:
        return ip


def _address_row(
    address: str | None,
    entry: QuotaEntry | None,
    limit: float | None,
    bound: float | None,
    uses: AddressUses,
    remote_uses: tuple[AddressUse, ...],
) -> AddressRow:
    if entry is None:
        return AddressRow(address, None, bound, 0, 0, "", *uses, remote_uses)
    changed = entry.version, entry.changed_at_ms, entry.changed_by
    return AddressRow(address, limit, bound, *changed, *uses, remote_uses)


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
