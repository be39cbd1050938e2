"""Finds the rule that applies to a client, its current use, and the result under other rules.

Called by `quota_views` for REST, pages and the preview of an edit. Looks rules up in the metadata image in
the order of the quota managers, so that hypothetical rules can be resolved too. For clients that a lowered
limit would throttle for long at first, `first_wait` finds a higher one to begin with.

If the same clients share a sensor before and after, the use is the sensor's value. Otherwise no sensor has
measured these clients together, and the use is the sum of their accounts: all bytes of their connections,
slightly more than quotas count. If gateways share limits, this is so at each of them, as far as they report
it.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import chain
from math import ceil, floor, log10
from typing import Final, NamedTuple

from broker.common.slices import Steps, freed
from broker.controller.client_quotas import Altered
from broker.controller.commands import EntityPairs
from broker.controller.rows.quotas import (
    ClientUsage,
    Decided,
    FirstWait,
    GatewayUse,
    MeasuredBy,
    NodeUse,
    ProbeRow,
    ResolvedLimit,
)
from broker.controller.rows.upstream import GatewaySums
from broker.metadata.image import QuotaEntry
from broker.quotas.entity import CLIENT_ID, DEFAULT, IP, USER, Name
from broker.quotas.kinds import CLIENT_KEYS, IP_KEYS
from broker.quotas.remote_use import NOTHING, Clients, RemoteUse
from broker.quotas.table import probes
from broker.views.live_quotas import LiveQuotas
from broker.views.upstream_views import ShareViews

USE_OF: Final[dict[str, Callable[[ClientUsage], float | None]]] = {
    "producer_byte_rate": lambda usage: usage.bytes_in_per_s,
    "consumer_byte_rate": lambda usage: usage.bytes_out_per_s,
    "request_percentage": lambda usage: usage.request_percentage,
}
"""The client's account by quota key; accounts do not count controller mutations."""

Group = tuple[EntityPairs, str | None, str | None]
"""The clients that share a sensor: the rule, and the user and client id that it distinguishes."""


class ClientIdentity(NamedTuple):
    """The client in question; `ip` "" leaves out address limits."""

    user: str
    client_id: str
    ip: str = ""


class Matched(NamedTuple):
    entity: EntityPairs
    bound: float
    shadow: bool


ByGateway = dict[str, float]
"""The use of a limit at each gateway, "" for this one."""


class Measured(NamedTuple):
    """The uses of a limit by gateway; `incomplete` gateways may have some more."""

    uses: Mapping[str, GatewayUse]
    by: MeasuredBy | None
    incomplete: frozenset[str]

    @classmethod
    def by_quota(cls, uses: Mapping[str, GatewayUse], incomplete: frozenset[str]) -> "Measured":
        return cls(uses, MeasuredBy.QUOTA if uses else None, incomplete - uses.keys())


class EditedRules:
    """The rules of the image, with some of them replaced."""

    def __init__(
        self, quotas: Mapping[EntityPairs, QuotaEntry], others: Mapping[EntityPairs, Altered]
    ) -> None:
        self._quotas = quotas
        self._others = others

    def at(self, entity: EntityPairs, key: str) -> Matched | None:
        """Return the entity's own limit."""
        other = self._others.get(entity)
        if other is not None:
            bound = other.limits.get(key)
            return None if bound is None else Matched(entity, bound, other.shadow)
        entry = self._quotas.get(entity)
        limit = None if entry is None else entry.limits.get(key)
        return None if entry is None or limit is None else Matched(entity, limit.value, entry.shadow)

    def match(self, steps: Iterable[EntityPairs], key: str) -> Matched | None:
        """Return the first limit found."""
        return next((found for step in steps if (found := self.at(step, key)) is not None), None)


class Resolver:
    """A view of the current rules and of the rules with `others`. Reads each live view at most once."""

    def __init__(
        self,
        quotas: Mapping[EntityPairs, QuotaEntry],
        others: dict[EntityPairs, Altered],
        live: LiveQuotas,
        shares: ShareViews,
    ) -> None:
        self._altered = others
        self._now = EditedRules(quotas, {})
        self._then = EditedRules(quotas, others) if others else self._now
        self._live = live
        self._shares = shares
        self._others: GatewaySums | None = shares.others()
        self._incomplete = shares.incomplete()
        self._remote_use: RemoteUse = shares.remote_use()
        self._usage: list[ClientUsage] | None = None
        self._throttled: dict[str, Counter[Clients]] = {}
        self._sums: dict[tuple[EditedRules, str], dict[Group, ByGateway]] = {}
        self._first_waits: dict[tuple[str, Group | None, Group, float], FirstWait] = {}

    def freed(self) -> Steps[None]:
        """Free the rules and sums a few at a time; the resolver is of no use afterwards."""
        yield from freed(self._altered)
        for each in self._sums.values():
            yield from freed(each)
        yield from freed(self._usage or [])

    def resolve_keys(
        self, client: ClientIdentity, keys: Collection[str]
    ) -> Steps[list[tuple[ResolvedLimit, ResolvedLimit]]]:
        """Resolve those of `keys` that exist for the client."""
        limits = []
        for key in keys_for(client):
            if key in keys:
                limits.append((yield from self.resolve(client, key)))
        return limits

    def resolve(self, client: ClientIdentity, key: str) -> Steps[tuple[ResolvedLimit, ResolvedLimit]]:
        """Return the current and the hypothetical limit. The first call that needs all clients takes long."""
        steps = steps_for(client, key)
        decided = None if key in IP_KEYS else self._live.decided(client.user, client.client_id, key)
        if decided is not None:
            before, after = (
                self._callback_limit(client, key, steps, rules, decided) for rules in (self._now, self._then)
            )
            return before, after
        current = self._now.match(steps, key)
        now = yield from self._limit(client, key, steps, self._now, current, current)
        if self._then is self._now:
            return now, now
        proposed_match = self._then.match(steps, key)
        return now, (yield from self._limit(client, key, steps, self._then, proposed_match, current))

    def _callback_limit(
        self,
        client: ClientIdentity,
        key: str,
        steps: list[EntityPairs],
        rules: EditedRules,
        decided: Decided,
    ) -> ResolvedLimit:
        """Return the limit that a callback decides. Its result under hypothetical rules is unknown."""
        found = [(step, rules.at(step, key)) for step in steps]
        rows = tuple(
            ProbeRow(step, None if at is None else at.bound, False, _shadow(at)) for step, at in found
        )
        bound, observed = decided.bound, decided.observed
        by = None if observed is None else MeasuredBy.QUOTA
        wait_ms = None if bound is None or observed is None else self._live.wait_ms(key, observed, bound)
        nodes = () if bound is None else self._nodes(client, key, bound)
        return ResolvedLimit(key, rows, None, bound, observed, by, False, wait_ms, decided, nodes)

    def _limit(
        self,
        client: ClientIdentity,
        key: str,
        steps: list[EntityPairs],
        rules: EditedRules,
        matched: Matched | None,
        current: Matched | None,
    ) -> Steps[ResolvedLimit]:
        """Return the limit; `present` is the current rule, which identifies the sensor."""
        rows = []
        for step in steps:
            found = rules.at(step, key)
            is_match = matched is not None and step == matched.entity
            rows.append(ProbeRow(step, None if found is None else found.bound, is_match, _shadow(found)))
        measured = yield from self._measured(client, key, rules, matched, current)
        observed, by = _total(measured.uses), measured.by
        uses = sorted(measured.uses.values(), key=lambda each: each.gateway)
        gateways = () if self._others is None else tuple(uses)
        unlisted = tuple(sorted(measured.incomplete))
        if matched is None:
            return ResolvedLimit(
                key, tuple(rows), None, None, observed, by, gateways=gateways, unlisted=unlisted
            )
        wait_ms = None if observed is None else self._live.wait_ms(key, observed, matched.bound)
        nodes = self._nodes(client, key, matched.bound) if by is MeasuredBy.QUOTA else ()
        return ResolvedLimit(
            key,
            tuple(rows),
            matched.entity,
            matched.bound,
            observed,
            by,
            matched.shadow,
            wait_ms,
            nodes=nodes,
            gateways=gateways,
            unlisted=unlisted,
            first_wait=None if rules is self._now else self._first_wait(client, key, matched, current),
        )

    def _first_wait(
        self, client: ClientIdentity, key: str, matched: Matched, current: Matched | None
    ) -> FirstWait | None:
        """Return the first throttle of a hypothetical rule. A limit that leaves shadow mode begins anew."""
        if matched == current or matched.shadow or key in IP_KEYS:
            return None
        if current is not None and current.shadow:
            return FirstWait(0)
        user, client_id = client.user, client.client_id
        group = _group(matched.entity, user, client_id)
        former = None if current is None else _group(current.entity, user, client_id)
        known = (key, former, group, matched.bound)
        if known not in self._first_waits:
            share = self._shares.share(key, group[1:], "")

            def wait_ms(bound: float) -> int:
                bound = bound if share is None else bound * share
                return self._live.first_wait_ms(key, user, client_id, matched.entity, bound)

            self._first_waits[known] = first_wait(wait_ms, matched.bound)
        return self._first_waits[known]

    def _nodes(self, client: ClientIdentity, key: str, bound: float) -> tuple[NodeUse, ...]:
        return () if key in IP_KEYS else self._live.nodes(key, client.user, client.client_id, bound)

    def _measured(
        self,
        client: ClientIdentity,
        key: str,
        rules: EditedRules,
        matched: Matched | None,
        current: Matched | None,
    ) -> Steps[Measured]:
        use = USE_OF.get(key)
        if matched is not None and current is not None and matched.entity == current.entity:
            group = _group(matched.entity, client.user, client.client_id)
            # The same edit can move other clients under the limit or away from it.
            same = rules is self._now or use is None
            if not same:
                now, then = (yield from self._sum_of(self._now, key)), (yield from self._sum_of(rules, key))
                same = now.get(group) == then.get(group)
            if same:
                found = yield from self._at_sensors(client, key, matched, group[1:])
                if found.uses or use is None:
                    return found
        if use is None:
            return Measured({}, None, frozenset())
        if matched is None:
            own: ByGateway = {}
            for each in (yield from self._clients()):
                if (each.user, each.client_id) == (client.user, client.client_id):
                    _add(own, each, use(each))
            incomplete = self._incomplete.clients - own.keys()
        else:
            sums = yield from self._sum_of(rules, key)
            own = sums.get(_group(matched.entity, client.user, client.client_id), {})
            incomplete = self._incomplete.clients
        uses = {gateway: GatewayUse(gateway, observed) for gateway, observed in own.items()}
        return Measured(uses, MeasuredBy.CONNECTIONS if uses else None, incomplete)

    def _at_sensors(
        self, client: ClientIdentity, key: str, matched: Matched, clients: Clients
    ) -> Steps[Measured]:
        """Return what the quotas measure of the limit, here and at the other gateways."""
        uses: dict[str, GatewayUse] = {}
        observed = self._live.observed(key, *client)
        if key in IP_KEYS:
            if observed is not None:
                uses[""] = GatewayUse("", observed)
            for each in self._shares.addresses():
                if each.address == client.ip:
                    uses[each.gateway] = GatewayUse(each.gateway, each.rate)
            return Measured.by_quota(uses, self._incomplete.addresses)
        if observed is not None:
            throttled = (yield from self._throttled_by(key))[clients]
            uses[""] = GatewayUse("", observed, throttled, self._share(key, clients, "", matched))
        for gateway, use in self._remote_use.get(key, NOTHING).by_gateway.get(clients, {}).items():
            share = self._share(key, clients, gateway, matched)
            uses[gateway] = GatewayUse(gateway, use.observed, use.throttled, share)
        return Measured.by_quota(uses, self._incomplete.uses)

    def _share(self, key: str, clients: Clients, gateway: str, matched: Matched) -> float | None:
        if self._now.at(matched.entity, key) != matched:
            return None
        share = self._shares.share(key, clients, gateway)
        return None if share is None else share * matched.bound

    def _throttled_by(self, key: str) -> Steps[Counter[Clients]]:
        """Return the number of connections that the limits of each clients throttle here."""
        if key not in self._throttled:
            found: Counter[Clients] = Counter()
            if self._others is not None:
                for each in self._live.throttled_clients(key):
                    found[each] += 1
                    yield
            self._throttled[key] = found
        return self._throttled[key]

    def _sum_of(self, rules: EditedRules, key: str) -> Steps[Mapping[Group, ByGateway]]:
        """Return the total use of the clients that would share a sensor, by group and gateway."""
        if (rules, key) not in self._sums:
            sums: dict[Group, ByGateway] = {}
            for each in (yield from self._clients()):
                yield
                matched = rules.match(steps_for(ClientIdentity(each.user, each.client_id), key), key)
                if matched is not None:
                    group = _group(matched.entity, each.user, each.client_id)
                    _add(sums.setdefault(group, {}), each, USE_OF[key](each))
            self._sums[rules, key] = sums
        return self._sums[rules, key]

    def _clients(self) -> Steps[list[ClientUsage]]:
        """Return the clients of this gateway and of the others; one can be there several times."""
        if self._usage is None:
            usage = []
            for each in chain(self._live.usage(), self._shares.clients()):
                usage.append(each)
                yield
            self._usage = usage
        return self._usage


def _add(uses: ByGateway, client: ClientUsage, observed: float | None) -> None:
    if observed is not None:
        gateway = client.gateways[0] if client.gateways else ""
        uses[gateway] = uses.get(gateway, 0.0) + observed


def _total(uses: Mapping[str, GatewayUse]) -> float | None:
    """Return the use of a limit, which all gateways share."""
    return sum(each.observed for each in uses.values()) if uses else None


def keys_for(client: ClientIdentity) -> tuple[str, ...]:
    return (*CLIENT_KEYS, *(IP_KEYS if client.ip else ()))


def steps_for(client: ClientIdentity, key: str) -> list[EntityPairs]:
    """Return the entities to look up, in order."""
    if key in IP_KEYS:
        return [((IP, client.ip),), ((IP, None),)]
    return [_pairs(*rule) for rule in probes(client.user, client.client_id)]


def _pairs(user: Name, client_id: Name) -> EntityPairs:
    """Return `Entity(user, client_id).pairs`, optimized for the thousands of probes of a preview."""
    of_user = () if user is None else ((USER, None if user is DEFAULT else user),)
    of_client = () if client_id is None else ((CLIENT_ID, None if client_id is DEFAULT else client_id),)
    return of_user + of_client


def _group(entity: EntityPairs, user: str, client_id: str) -> Group:
    kinds = {kind for kind, _ in entity}
    return (entity, user if USER in kinds else None, client_id if CLIENT_ID in kinds else None)


def _shadow(found: Matched | None) -> bool:
    return found is not None and found.shadow


GENTLE_MS: Final = 2_000
"""A first throttle up to this long needs no gentler start."""

_HALVINGS: Final = 24
_DOUBLINGS: Final = 64


def first_wait(wait_ms: Callable[[float], int], bound: float) -> FirstWait:
    """Return the first throttle under `bound` and, if it is longer than GENTLE_MS, about the lowest limit
    whose first throttle is not. `wait_ms` returns the first throttle of a limit; higher limits have shorter
    ones.
    """
    wait = wait_ms(bound)
    if wait <= GENTLE_MS:
        return FirstWait(wait)
    low = high = bound
    for _ in range(_DOUBLINGS):
        low, high = high, high * 2
        if wait_ms(high) <= GENTLE_MS:
            break
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if wait_ms(middle) <= GENTLE_MS else (middle, high)
    gentler = round_up(high)
    return FirstWait(wait, gentler, wait_ms(gentler))


def round_up(limit: float) -> float:
    """Round up to two significant digits."""
    step = 10.0 ** (floor(log10(limit)) - 1)
    return float(f"{ceil(limit / step - 1e-9) * step:.12g}")
