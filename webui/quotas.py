"""Client quotas independent of HTTP: entities, the command equivalent to an edit, and the preview of edits.

Used by webui.rest. `{"user": "alice", "client-id": null}` in JSON is `(("user", "alice"), ("client-id",
None))` to control; null is the default entity.

The console shows the command (kafka-configs.sh, and `weir quotas` for shadow mode) beside every edit, so
that a change can be scripted, reviewed or repeated on another cluster. This module only builds its text and
runs nothing.

The preview resolves every connected client, of all gateways that share limits, with the current rules and
with the rules after all edits (control.views.resolve_all). Edits affect the clients to which one of their
entities would apply, or no longer applies. The usage of clients that would share a limit is added up.
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import aclosing
from functools import lru_cache
from itertools import chain
from typing import Final

import msgspec

from broker.control.commands import EntityPairs, QuotaAlteration, QuotaOp
from broker.control.views import ResolvedLimit, Views
from webui.tables.slices import collect, sliced

ENTITY_TYPES: Final = ("user", "client-id", "ip")
LIMIT_KEYS: Final = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
)
ALL_KEYS: Final = (*LIMIT_KEYS, "connection_creation_rate")


def pairs_of(entity: Mapping[str, str | None]) -> EntityPairs:
    """Convert an entity from JSON; sorts its parts by ENTITY_TYPES."""
    return tuple((kind, entity[kind]) for kind in ENTITY_TYPES if kind in entity)


def json_of(pairs: EntityPairs) -> dict[str, str | None]:
    return dict(pairs)


def entity_text(pairs: EntityPairs) -> str:
    """Format an entity as text: "user alice, default client-id"."""
    return ", ".join(f"default {kind}" if name is None else f"{kind} {name}" for kind, name in pairs)


@lru_cache(16_384)
def order_of(pairs: EntityPairs) -> tuple[tuple[int, bool, str], ...]:
    """Return the sort key: users before client ids before addresses; names in order, then the default.
    Cached, because each listing of ten thousand rules calls it for every rule.
    """
    return tuple((ENTITY_TYPES.index(kind), name is None, (name or "").casefold()) for kind, name in pairs)


def shape_of(pairs: EntityPairs) -> str:
    """Return the kind of rule: "user", "client-id", "user+client-id" or "ip"."""
    return "+".join(kind for kind, _ in pairs)


TOOL_TYPES: Final = {"user": "users", "client-id": "clients", "ip": "ips"}


def kafka_configs(bootstrap: str, entity: EntityPairs, ops: Iterable[QuotaOp]) -> str:
    """Return one line for a POSIX shell, quoted where necessary; empty if there are no operations."""
    set_ops = [(op.key, op.value) for op in ops if op.value is not None]
    removed = [op.key for op in ops if op.value is None]
    if not set_ops and not removed:
        return ""
    words = ["kafka-configs.sh", "--bootstrap-server", bootstrap, "--alter"]
    if set_ops:
        words += ["--add-config", ",".join(f"{key}={plain(value)}" for key, value in set_ops)]
    if removed:
        words += ["--delete-config", ",".join(removed)]
    for kind, name in entity:
        words += ["--entity-type", TOOL_TYPES[kind]]
        words += ["--entity-default"] if name is None else ["--entity-name", name]
    return shlex.join(words)


def shell_command(bootstrap: str, edit: QuotaAlteration) -> str:
    """Return the command for all of `edit`: limits with Kafka's tool, shadow mode with Weir's."""
    commands = [kafka_configs(bootstrap, edit.entity, edit.ops)]
    if edit.shadow is not None:
        words = ["weir", "quotas", "set"]
        for kind, name in edit.entity:
            words += [f"--{kind}-default"] if name is None else [f"--{kind}", name]
        commands.append(shlex.join([*words, "--shadow" if edit.shadow else "--enforce"]))
    return " && ".join(command for command in commands if command)


def plain(value: float) -> str:
    """Format without exponent and without a zero fraction: the tool accepts 1048576, not 1e6."""
    return str(int(value)) if value == int(value) else f"{value:.12f}".rstrip("0")


MAX_CLIENTS: Final = 2_000
"""Maximum number of distinct clients; bounds the work of one keystroke."""


class Client(msgspec.Struct, frozen=True):
    """One principal with one client id: the unit that quotas distinguish."""

    principal: str
    client_id: str


class ConnectedClients(msgspec.Struct, frozen=True):
    """The clients of all gateways that share limits, MAX_CLIENTS at most. `unlisted` clients are missing:
    those beyond MAX_CLIENTS, and those that other gateways only count. `unheard` gateways have told nothing.
    """

    clients: Sequence[Client]
    unlisted: int = 0
    unheard: tuple[str, ...] = ()


async def connected_clients(views: Views) -> ConnectedClients:
    here = (Client(row.principal, row.client_id) for row in views.each_connection())
    elsewhere = (
        Client(row.user, row.client_id) if row.connections else None for row in views.clients_elsewhere()
    )
    known = list(dict.fromkeys(await collect(chain(here, elsewhere))))
    unlisted = max(0, len(known) - MAX_CLIENTS) + views.unlisted_clients()
    return ConnectedClients(known[:MAX_CLIENTS], unlisted, tuple(views.unheard_gateways()))


class Reach(msgspec.Struct):
    """The effect on one key. `over` clients currently exceed the new limit; `unmeasured` clients have no
    known usage. `new_bounds` counts the clients of a removed limit by their new bound, None for no limit.
    `outranked` clients match the entity, but a more specific rule applies to them. `shadow`: the limit would
    be measured, not enforced. `unlisted` and `unheard`: see ConnectedClients.
    """

    key: str
    clients: int = 0
    over: int = 0
    unmeasured: int = 0
    new_bounds: dict[float | None, int] = msgspec.field(default_factory=dict)
    outranked: dict[EntityPairs, int] = msgspec.field(default_factory=dict)
    shadow: bool = False
    unlisted: int = 0
    unheard: tuple[str, ...] = ()


Named = frozenset[tuple[str, str | None]]
"""An entity, independent of the order of its parts."""


async def preview(views: Views, edits: Sequence[QuotaAlteration], connected: ConnectedClients) -> list[Reach]:
    """Return one Reach for each key, in the order of the operations, then one for each limit that only enters
    or leaves shadow mode. Evaluates all edits together. Yields to other tasks in between.
    """
    wanted = _wanted(views, edits)
    reaches = {key: Reach(key, unlisted=connected.unlisted, unheard=connected.unheard) for key in wanted}
    names = [(client.principal, client.client_id) for client in connected.clients]
    async with aclosing(sliced(views.resolve_all(names, reaches.keys(), edits), at_once=1)) as slices:
        async for some in slices:
            for now, then in chain.from_iterable(some):
                _count(reaches[now.key], now, then, wanted[now.key])
    return list(reaches.values())


def _wanted(views: Views, edits: Sequence[QuotaAlteration]) -> dict[str, set[Named]]:
    """Return the edited entities of each key."""
    wanted: dict[str, set[Named]] = {}
    for edit in edits:
        row = None if edit.shadow is None else views.quota(edit.entity)
        marked = () if row is None else (limit.key for limit in row.limits)
        for key in (*(op.key for op in edit.ops), *marked):
            wanted.setdefault(key, set()).add(frozenset(edit.entity))
    return wanted


def _count(reach: Reach, now: ResolvedLimit, then: ResolvedLimit, wanted: AbstractSet[Named]) -> None:
    if _is(then.matched, wanted):
        reach.clients += 1
        reach.shadow = then.shadow
        if then.observed is None:
            reach.unmeasured += 1
    elif _is(now.matched, wanted):
        reach.clients += 1
        reach.new_bounds[then.bound] = reach.new_bounds.get(then.bound, 0) + 1
    else:
        steps = [frozenset(probe.entity) for probe in then.probes]
        if then.matched is not None and not wanted.isdisjoint(steps[steps.index(frozenset(then.matched)) :]):
            reach.outranked[then.matched] = reach.outranked.get(then.matched, 0) + 1
        return
    if then.bound is not None and then.observed is not None and then.observed > then.bound:
        reach.over += 1


def _is(matched: EntityPairs | None, wanted: AbstractSet[Named]) -> bool:
    return matched is not None and frozenset(matched) in wanted
