"""This gateway's clients and addresses, for the consoles of the other gateways. Built by `server.gateway`,
measured by the task that shares limits, once a second while there are other gateways.
"""

from collections.abc import Iterable
from functools import partial
from heapq import nlargest
from itertools import islice
from typing import Final

from broker.common.steps import Steps, nlargest_in_steps
from broker.controller.rows.connections import AddressUse
from broker.controller.rows.quotas import ClientUsage
from broker.gateway.sharing.client_summary import MAX_ADDRESSES, MAX_CLIENTS, MAX_HISTORIES, ClientSummary
from broker.network.clock import TrioClock
from broker.network.socket_server import SocketServer
from broker.quotas.accounts import Account
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.connection_rates import AddressStats
from broker.quotas.request import PERCENT_OF_A_SECOND_PER_NS
from broker.quotas.table import UNLIMITED
from broker.views.live import address_use, history_of

AT_ONCE: Final = 16
"""Rows made between two pauses, at some ten microseconds each."""

COMPARED_AT_ONCE: Final = 512
"""Addresses compared between two pauses."""


class OwnClients:
    """Costs requests nothing: it reads the accounts as of their last update, and the addresses."""

    def __init__(self, gateway: str, server: SocketServer, quotas: ClientQuotas, clock: TrioClock) -> None:
        self._gateway = gateway
        self._server = server
        self._quotas = quotas
        self._clock = clock

    def measure(self) -> Steps[ClientSummary]:
        """Yields after every few rows."""
        now_ms = self._clock.ms()
        accounts = list(self._server.accounts.last)
        busiest = yield from nlargest_in_steps(
            MAX_CLIENTS, accounts, lambda each: sum(each.per_second(now_ms)[:2])
        )
        clients = yield from self._clients(busiest, now_ms)
        known = list(self._server.gate.quotas.addresses)
        addresses = yield from self._addresses(known, now_ms)
        unlisted = len(known) - len(addresses)
        return ClientSummary(self._gateway, clients, len(accounts) - len(clients), addresses, unlisted)

    def _clients(self, accounts: Iterable[Account], now_ms: int) -> Steps[tuple[ClientUsage, ...]]:
        since_ms, is_timed = self._clock.wall_ms() - now_ms, self._quotas.request.active
        found: list[ClientUsage] = []
        histories = 0
        for number, each in enumerate(accounts):
            if number % AT_ONCE == AT_ONCE - 1:
                yield
            bytes_in, bytes_out, requests, ns = each.per_second(now_ms)
            history: tuple[tuple[int, int, int], ...] = ()
            if histories < MAX_HISTORIES and self._is_unlimited(each):
                histories += 1
                history = tuple(history_of(each, now_ms))
            found.append(
                ClientUsage(
                    each.user,
                    each.client_id,
                    each.connections,
                    bytes_in,
                    bytes_out,
                    requests,
                    ns * PERCENT_OF_A_SECOND_PER_NS if is_timed else None,
                    *each.counts[:3],
                    each.since_ms + since_ms,
                    each.last_active_ms + since_ms,
                    (),
                    partial(tuple, history),
                )
            )
        return tuple(found)

    def _addresses(self, known: list[tuple[str, AddressStats]], now_ms: int) -> Steps[tuple[AddressUse, ...]]:
        """Return those that connected last."""
        last: list[tuple[str, AddressStats]] = []
        left = iter(known)
        while some := list(islice(left, COMPARED_AT_ONCE)):
            last = nlargest(MAX_ADDRESSES, last + some, key=lambda each: each[1].last_ms)
            yield
        quotas, found = self._server.gate.quotas, []
        for number, (address, stats) in enumerate(last):
            if number % AT_ONCE == AT_ONCE - 1:
                yield
            found.append(address_use(quotas, address, stats, now_ms))
        return tuple(found)

    def _is_unlimited(self, client: Account) -> bool:
        if self._quotas.callback is not None:
            return False  # it is not asked only for this
        managers = self._quotas.managers.values()
        return all(each.bound(client.user, client.client_id) == UNLIMITED for each in managers if each.active)
