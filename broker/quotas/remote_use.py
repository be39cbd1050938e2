"""The use of limits at other gateways, as they report it. `client_quotas` adds it to this gateway's own use.

Limits hold for all gateways together, so the rates of one client or address at all of them are added up.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec
from msgspec.structs import replace

from broker.quotas.entity import Entity
from broker.quotas.kinds import IP_KEYS

Clients = tuple[str | None, str | None]
"""User and client id of the clients that share a limit; None: the rule does not distinguish it. Of the limit
of an address: the address and None.
"""


class SensorUse(msgspec.Struct, frozen=True):
    """The use of one limit at one gateway: `observed` in the unit of `key`, and the connections that it
    throttles. `rule` is the entity that sets the limit for `clients`.
    """

    key: str
    rule: Entity
    clients: Clients
    observed: float
    throttled: int = 0


class KeyUse(msgspec.Struct):
    """The use of the limits of one key at other gateways: `shared` is the sum for the clients of each limit,
    and `throttled` the connections of each rule. `by_gateway` has the use of each limit's clients at each
    gateway. `highest` is the highest use of each address rule, with its gateway, at gateways of an earlier
    version, which do not name the address.
    """

    shared: dict[Clients, SensorUse] = msgspec.field(default_factory=dict)
    highest: dict[Entity, tuple[float, str]] = msgspec.field(default_factory=dict)
    throttled: Counter[Entity] = msgspec.field(default_factory=Counter)
    by_gateway: dict[Clients, dict[str, SensorUse]] = msgspec.field(default_factory=dict)

    def add(self, gateway: str, use: SensorUse) -> None:
        self.by_gateway.setdefault(use.clients, {})[gateway] = use
        self.throttled[use.rule] += use.throttled
        if use.key not in IP_KEYS or use.clients[0] is not None:
            before = self.shared.get(use.clients)
            total = use.observed + (0.0 if before is None else before.observed)
            self.shared[use.clients] = replace(use, observed=total)
        elif use.rule not in self.highest or use.observed > self.highest[use.rule][0]:
            self.highest[use.rule] = use.observed, gateway


NOTHING: Final = KeyUse()

RemoteUse = Mapping[str, KeyUse]
"""By key. `NOTHING` for a key that is missing."""

NO_REMOTE_USE: Final[RemoteUse] = MappingProxyType({})


def remote_use(reported: Iterable[tuple[str, Iterable[SensorUse]]]) -> RemoteUse:
    """Return the use at all other gateways; `reported` has the id and the report of each."""
    found: dict[str, KeyUse] = {}
    for gateway, uses in reported:
        for use in uses:
            found.setdefault(use.key, KeyUse()).add(gateway, use)
    return found
