"""The rows of quota rules, with their use and the rules that override them. Used by `quota_views`.

Ten thousand rows take a tenth of a second, and an open page requests them every second or two, so the rows of
unused rules are cached until their rule changes.

A rule limits no client if others precede it. The connected clients decide: a limit of which every matching
client comes under another rule is overridden by the rules that these clients come under. If no connected
client matches, a limit is overridden by a rule that precedes it for every possible client.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from itertools import chain
from typing import Final

from msgspec.structs import replace

from broker.common.slices import Steps
from broker.controller.commands import EntityPairs
from broker.controller.rows.quotas import OverriddenBy, QuotaLimit, QuotaRow, ShadowUse, TemporaryQuota
from broker.metadata.image import QuotaEntry, Temporary
from broker.quotas.client_quotas import RuleUse
from broker.quotas.entity import CLIENT_ID, IP, USER, Entity
from broker.quotas.table import matches, overriding
from broker.views.live_quotas import LiveQuotas
from broker.views.resolving import ClientIdentity, steps_for
from broker.views.upstream_views import ShareViews

MAX_CLIENTS: Final = 10_000
"""Distinct clients that are examined, at some microseconds each. With more clients the result is unknown."""

MAX_RULES: Final = 8
"""Overriding rules that are listed."""


Quotas = Mapping[EntityPairs, QuotaEntry]

Shape = tuple[tuple[str, bool], ...]
"""The kinds of an entity's names, and whether each is the default."""


def _shape(entity: EntityPairs) -> Shape:
    return tuple((kind, name is None) for kind, name in entity)


_IN_ORDER: Final = tuple(map(_shape, steps_for(ClientIdentity("user", "client"), "")))


class Rules:
    """The rules of one state of the metadata image, with their shapes in order of precedence."""

    def __init__(self, quotas: Quotas, shapes: Container[Shape]) -> None:
        self.quotas = quotas
        self.shapes = [shape for shape in _IN_ORDER if shape in shapes]
        self._has_defaults = any(is_default for shape in self.shapes for _, is_default in shape)

    @property
    def can_override(self) -> bool:
        return len(self.shapes) > 1

    def matching(self, user: str, client_id: str) -> Iterator[QuotaEntry]:
        """Yield the rules that match a client, in order of precedence."""
        names = {USER: user, CLIENT_ID: client_id}
        for shape in self.shapes:
            entry = self.quotas.get(
                tuple((kind, None if default else names[kind]) for kind, default in shape)
            )
            if entry is not None:
                yield entry

    def preceding(self, rule: EntityPairs, key: str) -> OverriddenBy | None:
        """Return the first rule that precedes this limit for every possible client."""
        if not self._has_defaults or rule[0][0] == IP:
            return None
        entity = Entity.of(rule)
        for above in overriding((entity.user, entity.client_id)):
            entry = self.quotas.get(Entity(*above).pairs)
            if entry is not None and key in entry.limits:
                return OverriddenBy((entry.entity,))
        return None


def rules_in_steps(quotas: Quotas) -> Steps[Rules]:
    shapes = set()
    for entity in quotas:
        shapes.add(_shape(entity))
        yield
    return Rules(quotas, shapes)


class ClientsByLimit:
    """The numbers of clients that match each limit and come under other rules."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._governing: set[tuple[EntityPairs, str]] = set()
        self._overriding: dict[tuple[EntityPairs, str], dict[EntityPairs, int]] = {}

    def add(self, matching: Iterable[QuotaEntry]) -> None:
        """Count a client that these rules match, in order of precedence."""
        first: dict[str, EntityPairs] = {}
        for entry in matching:
            rule = entry.entity
            for key in entry.limits:
                governing = first.setdefault(key, rule)
                if governing is rule:
                    self._governing.add((rule, key))
                else:
                    counts = self._overriding.setdefault((rule, key), {})
                    counts[governing] = counts.get(governing, 0) + 1

    def with_overriding(self, row: QuotaRow) -> QuotaRow:
        """Return the row with the rules that override its limits."""
        found = {limit.key: self.overriding(row.entity, limit.key) for limit in row.limits}
        if not any(found.values()):
            return row
        limits = (replace(limit, overridden_by=found[limit.key]) for limit in row.limits)
        return replace(row, limits=tuple(limits))

    def overriding(self, rule: EntityPairs, key: str) -> OverriddenBy | None:
        """Return the rules because of which this limit applies to no client; None if it applies to some."""
        if (rule, key) in self._governing:
            return None
        counts = self._overriding.get((rule, key))
        if counts is None:
            return self._rules.preceding(rule, key)
        rules = sorted(counts, key=lambda each: (-counts[each], _name(each)))
        return OverriddenBy(tuple(rules[:MAX_RULES]), max(0, len(rules) - MAX_RULES), sum(counts.values()))


def clients_by_limit(
    rules: Rules,
    clients: Iterable[tuple[str, str]],
    only: Entity | None = None,
    max_clients: int = MAX_CLIENTS,
) -> Steps[ClientsByLimit]:
    """Count the clients that match `only`, or all, each once. The result is empty if they are more than
    `max_clients`.
    """
    found, seen = ClientsByLimit(rules), set[tuple[str, str]]()
    for client in clients:
        yield
        if client not in seen and (only is None or matches((only.user, only.client_id), *client)):
            if len(seen) == max_clients:
                return ClientsByLimit(rules)
            seen.add(client)
            found.add(rules.matching(*client))
    return found


def _name(rule: EntityPairs) -> list[tuple[str, str]]:
    return [(kind, name or "") for kind, name in rule]


_UNUSED: dict[str, RuleUse] = {}
_UNMARKED: dict[str, ShadowUse] = {}


class QuotaRows:
    def __init__(
        self, live: LiveQuotas, shares: ShareViews, wall_ms: Callable[[], int], *, rules_decide: bool = True
    ) -> None:
        """`wall_ms` returns the wall clock; `rules_decide`: no callback replaces the search for a client's
        rule.
        """
        self._wall_ms = wall_ms
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
        uses: dict[EntityPairs, dict[str, RuleUse]] = {}
        for use in self._live.quota_use():
            yield None
            if use is not None:
                uses.setdefault(use.entity.pairs, {})[use.key] = use
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
            if used is not _UNUSED or entry.shadow or entry.temporary:
                yield ranked(_row(entry, used, shadows.get(entity, _UNMARKED), self._wall_ms()))
                continue
            known = cached.get(entity)
            if known is None or known[0] is not entry:
                known = cached[entity] = (entry, _row(entry, _UNUSED, _UNMARKED, 0))
            yield ranked(known[1])

    def one(self, entry: QuotaEntry, quotas: Quotas) -> Steps[QuotaRow]:
        entity = Entity.of(entry.entity)
        uses = {use.key: use for use in self._live.quota_use_of(entity)}
        marks: Mapping[str, ShadowUse] = _UNMARKED
        if entry.shadow:
            marks = {mark.key: mark for mark in self._live.shadow_use() if mark.entity == entry.entity}
        row = _row(entry, uses, marks, self._wall_ms())
        connected = yield from self._connected(quotas, entity)
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


def _row(
    entry: QuotaEntry, uses: Mapping[str, RuleUse], marks: Mapping[str, ShadowUse], wall_ms: int
) -> QuotaRow:
    limits = []
    for key, limit in entry.limits.items():
        seen = uses.get(key)
        observed, throttled = (None, 0) if seen is None else (seen.observed, seen.throttled)
        node = None if seen is None else seen.node
        would = marks.get(key) if entry.shadow else None
        by, at_ms = limit.changed_by, limit.changed_at_ms
        gateway = "" if seen is None else seen.gateway
        limits.append(QuotaLimit(key, limit.value, observed, throttled, at_ms, by, would, node, gateway))
    temporary = tuple(temporary_row(key, each, wall_ms) for key, each in entry.temporary.items())
    changed = entry.version, entry.changed_at_ms, entry.changed_by
    return QuotaRow(entry.entity, tuple(limits), *changed, entry.shadow, temporary)


def temporary_row(key: str, each: Temporary, wall_ms: int) -> TemporaryQuota:
    change = each.changes_at_ms
    return TemporaryQuota(
        key,
        each.limit,
        None if each.permanent is None else each.permanent.value,
        each.is_active,
        change,
        None if change is None else max(0, -((wall_ms - change) // 1000)),
        each.changed_at_ms,
        each.changed_by,
    )
