"""The preview of edits of client quotas: the clients that they reach, from which limit to which.

Used by webui.rest before an edit, a removal, an import and an undo. Resolves every connected client, of all
gateways that share limits, with the current rules and with the rules after all edits
(`quota_views.QuotaViews.resolve_all`). The usage of clients that would share a limit is added up. Changes
nothing.
"""

from collections.abc import Generator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import aclosing
from itertools import chain
from typing import Final

import msgspec

from broker.controller.commands import EntityPairs, QuotaAlteration
from broker.controller.rows.fields import RuleEntity
from broker.controller.rows.quotas import FirstWait, ResolvedLimit
from broker.views.console import Views
from webui.tables.slices import collect, free_in_slices, run_in_slices, sliced, sort_in_slices

MAX_CLIENTS: Final = 2_000
"""Maximum number of distinct clients; bounds the work of one keystroke."""

MAX_EXAMPLES: Final = 3

AT_LIMIT: Final = 0.9
"""A client that uses this part of its limit may want more than it uses."""


class ConnectedClient(msgspec.Struct, frozen=True):
    """One principal with one client id: the unit that quotas distinguish."""

    principal: str = msgspec.field(name="user")
    client_id: str


class ConnectedClients(msgspec.Struct, frozen=True):
    """The clients of all gateways that share limits, MAX_CLIENTS at most. `unlisted` clients are missing:
    those beyond MAX_CLIENTS, and those that other gateways only count. `without_report` gateways have not
    reported yet.
    """

    clients: Sequence[ConnectedClient]
    unlisted: int = 0
    without_report: tuple[str, ...] = ()


async def connected_clients(views: Views) -> ConnectedClients:
    here = (ConnectedClient(row.principal, row.client_id) for row in views.live.each_connection())
    remote = (
        ConnectedClient(row.user, row.client_id) if row.connections else None
        for row in views.shares.clients()
    )
    known = list(dict.fromkeys(await collect(chain(here, remote))))
    unlisted = max(0, len(known) - MAX_CLIENTS) + views.shares.unlisted_clients()
    return ConnectedClients(known[:MAX_CLIENTS], unlisted, tuple(sorted(views.shares.without_report())))


class LimitingRule(msgspec.Struct, frozen=True):
    """The rule that limits a client, and its limit; both are None without one."""

    entity: RuleEntity | None = None
    bound: float | None = None

    @classmethod
    def of(cls, limit: ResolvedLimit) -> "LimitingRule":
        return cls(limit.matched, limit.bound)


class MovedClients(msgspec.Struct):
    """The clients whose rule or limit changes in the same way. They share `limits` limits, one for each name
    that the new rule distinguishes. `at_limit` of them use their present limit up and get a higher one or
    none, so they may use more than they do now.
    """

    clients: int = 0
    limits: int = 0
    at_limit: int = 0
    examples: list[ConnectedClient] = msgspec.field(default_factory=list)


class Reach(msgspec.Struct):
    """The effect on one key. `clients` of `counted` come under the edited entities or leave them, `moves` by
    the rule and the limit before and after, those with the most clients first. `over` clients exceed their
    new limit now; `unmeasured` clients have no known usage. `outranked` clients match the entity, but a more
    specific rule applies to them. `emptied` rules limit none of the counted clients any more. `first_wait` is
    the longest first throttle, None if none changes. `shadow`: the limit would be measured, not enforced.
    `unlisted` and `without_report`: see ConnectedClients.
    """

    key: str
    counted: int = 0
    clients: int = 0
    over: int = 0
    unmeasured: int = 0
    moves: dict[tuple[LimitingRule, LimitingRule], MovedClients] = msgspec.field(default_factory=dict)
    outranked: dict[EntityPairs, int] = msgspec.field(default_factory=dict)
    emptied: list[LimitingRule] = msgspec.field(default_factory=list)
    first_wait: FirstWait | None = None
    shadow: bool = False
    unlisted: int = 0
    without_report: tuple[str, ...] = ()


Named = frozenset[tuple[str, str | None]]
"""An entity, independent of the order of its parts."""


class _Count:
    """Counts the clients of one key."""

    def __init__(self, reach: Reach, wanted: AbstractSet[Named]) -> None:
        """`wanted` are the edited entities."""
        self._reach = reach
        self._wanted = wanted
        self._left: set[LimitingRule] = set()
        self._kept: set[EntityPairs] = set()
        self._limits: dict[tuple[LimitingRule, LimitingRule], set[tuple[str, str]]] = {}

    def add(self, client: ConnectedClient, now: ResolvedLimit, then: ResolvedLimit) -> None:
        reach = self._reach
        reach.counted += 1
        self._note_rules(now, then)
        if self._is_wanted(then.matched):
            reach.shadow = then.shadow
            if then.observed is None:
                reach.unmeasured += 1
        elif not self._is_wanted(now.matched):
            self._note_outranked(then)
            return
        reach.clients += 1
        if then.bound is not None and then.observed is not None and then.observed > then.bound:
            reach.over += 1
        self._note_move(client, now, then)
        wait = then.first_wait
        if wait is not None and (reach.first_wait is None or wait.wait_ms > reach.first_wait.wait_ms):
            reach.first_wait = wait

    async def finish(self) -> Reach:
        reach, left = self._reach, (rule for rule in self._left if rule.entity not in self._kept)
        reach.moves = dict(await sort_in_slices(reach.moves.items(), lambda each: -each[1].clients))
        reach.emptied = await sort_in_slices(left, str)
        await free_in_slices(self._limits)
        return reach

    def _note_rules(self, now: ResolvedLimit, then: ResolvedLimit) -> None:
        """Note the rule that limits the client then, and the one that it leaves if that still exists."""
        if then.matched is not None:
            self._kept.add(then.matched)
        if now.matched is None or now.matched == then.matched:
            return
        bound = next((probe.value for probe in then.probes if probe.entity == now.matched), None)
        if bound is not None:
            self._left.add(LimitingRule(now.matched, bound))

    def _note_outranked(self, then: ResolvedLimit) -> None:
        if then.matched is None:
            return
        steps = [frozenset(probe.entity) for probe in then.probes]
        if not self._wanted.isdisjoint(steps[steps.index(frozenset(then.matched)) :]):
            outranked = self._reach.outranked
            outranked[then.matched] = outranked.get(then.matched, 0) + 1

    def _note_move(self, client: ConnectedClient, now: ResolvedLimit, then: ResolvedLimit) -> None:
        change = LimitingRule.of(now), LimitingRule.of(then)
        if change[0] == change[1]:
            return
        move = self._reach.moves.setdefault(change, MovedClients())
        move.clients += 1
        if len(move.examples) < MAX_EXAMPLES:
            move.examples.append(client)
        kinds = {kind for kind, _ in then.matched or ()}
        names = client.principal if "user" in kinds else "", client.client_id if "client-id" in kinds else ""
        limits = self._limits.setdefault(change, set())
        limits.add(names)
        move.limits = len(limits) if kinds else 0
        move.at_limit += _is_at_limit(now) and (then.bound is None or then.bound > (now.bound or 0.0))

    def _is_wanted(self, matched: EntityPairs | None) -> bool:
        return matched is not None and frozenset(matched) in self._wanted


async def preview(views: Views, edits: Sequence[QuotaAlteration], connected: ConnectedClients) -> list[Reach]:
    """Return one Reach for each key, in the order of the operations, then one for each limit that only enters
    or leaves shadow mode. Evaluates all edits together. Yields to other tasks in between.
    """
    wanted = await run_in_slices(_wanted(views, edits))
    counts = {
        key: _Count(
            Reach(key, unlisted=connected.unlisted, without_report=connected.without_report), entities
        )
        for key, entities in wanted.items()
    }
    names = [(client.principal, client.client_id) for client in connected.clients]
    clients = iter(connected.clients)
    async with aclosing(sliced(views.quotas.resolve_all(names, wanted.keys(), edits))) as slices:
        async for some in slices:
            for limits in some:
                client = next(clients)
                for now, then in limits:
                    counts[now.key].add(client, now, then)
    reaches = [await count.finish() for count in counts.values()]
    await free_in_slices(wanted)
    return reaches


def _wanted(views: Views, edits: Sequence[QuotaAlteration]) -> Generator[None, None, dict[str, set[Named]]]:
    """Return the edited entities of each key. A generator for `run_in_slices`."""
    wanted: dict[str, set[Named]] = {}
    for edit in edits:
        marked = () if edit.shadow is None else views.quotas.limited_keys(edit.entity)
        keys = chain((op.key for op in edit.ops), (op.key for op in edit.temporary), marked)
        for key in keys:
            wanted.setdefault(key, set()).add(frozenset(edit.entity))
        yield
    return wanted


def _is_at_limit(limit: ResolvedLimit) -> bool:
    return limit.bound is not None and limit.observed is not None and limit.observed >= AT_LIMIT * limit.bound
