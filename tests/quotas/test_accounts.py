"""Client accounts: booked from connections' counters, limited in number."""

from dataclasses import dataclass

import pytest

from broker.quotas.accounts import (
    FAMILIES,
    INTERVAL_MS,
    INTERVALS,
    MAX_ACCOUNTS,
    MAX_CLIENTS,
    Account,
    Accounts,
    RecentCounts,
    families,
)

BEGIN = 1_700_000_000_000


@dataclass(eq=False)
class Connection:
    principal: str = "alice"
    client_id: str | None = "app"
    authenticated: bool = True
    bytes_in: int = 0
    bytes_out: int = 0
    requests: int = 0
    request_ns: int = 0

    def does(self, bytes_in: int, bytes_out: int = 0, requests: int = 1, ns: int = 0) -> None:
        self.bytes_in += bytes_in
        self.bytes_out += bytes_out
        self.requests += requests
        self.request_ns += ns


def account(accounts: Accounts, user: str = "alice", client_id: str = "app") -> Account:
    found = accounts.find(user, client_id)
    assert found is not None
    return found


def test_connections_of_one_client_are_one_account() -> None:
    accounts, first, second, other = Accounts(), Connection(), Connection(), Connection(client_id="other")
    first.does(100, 10, 1, 5)
    second.does(200, 20, 2, 6)
    other.does(1)
    accounts.update([first, second, other], BEGIN)
    assert account(accounts).counts == (300, 30, 3, 11)
    assert account(accounts).connections == 2
    assert account(accounts, client_id="other").counts == (1, 0, 1, 0)
    assert len(accounts) == 2


def test_booked_requests_are_not_booked_again() -> None:
    accounts, connection = Accounts(), Connection()
    connection.does(100)
    accounts.update([connection], BEGIN)
    accounts.update([connection], BEGIN + 1_000)
    assert account(accounts).counts[0] == 100
    assert account(accounts).last_active_ms == BEGIN
    connection.does(50)
    accounts.update([connection], BEGIN + 2_000)
    assert account(accounts).counts[0] == 150
    assert account(accounts).last_active_ms == BEGIN + 2_000


def test_requests_since_the_last_update_are_booked_at_the_close() -> None:
    accounts, connection = Accounts(), Connection()
    connection.does(100)
    accounts.update([connection], BEGIN)
    connection.does(50)
    accounts.closed(connection, BEGIN + 10)
    accounts.update([], BEGIN + 1_000)
    assert account(accounts).counts[:1] == (150,)
    assert account(accounts).connections == 0
    short = Connection(principal="bob")
    short.does(7)
    accounts.closed(short, BEGIN + 1_000)
    assert account(accounts, "bob").counts[0] == 7


def test_a_connection_that_never_logged_in_and_one_that_said_nothing_have_no_account() -> None:
    accounts, stranger, silent = Accounts(), Connection(authenticated=False), Connection()
    stranger.does(1_000)
    accounts.update([stranger, silent], BEGIN)
    accounts.closed(stranger, BEGIN)
    accounts.closed(silent, BEGIN)
    assert len(accounts) == 0


def test_the_login_of_a_connection_is_its_users() -> None:
    accounts, connection = Accounts(), Connection(principal="ANONYMOUS", authenticated=False)
    connection.does(1_000)
    accounts.update([connection], BEGIN)
    connection.principal, connection.authenticated = "alice", True
    connection.does(1)
    accounts.update([connection], BEGIN + 1_000)
    assert [(each.user, each.counts[0]) for each in accounts] == [("alice", 1_001)]


def test_a_null_client_id_is_the_empty_one() -> None:
    accounts, connection = Accounts(), Connection(client_id=None)
    connection.does(1)
    accounts.update([connection], BEGIN)
    assert account(accounts, client_id="").counts[0] == 1


def test_a_client_that_changes_its_name_goes_on_under_the_new_one() -> None:
    accounts, connection = Accounts(), Connection()
    connection.does(100)
    accounts.update([connection], BEGIN)
    connection.client_id = "renamed"
    connection.does(5)
    accounts.update([connection], BEGIN + 1_000)
    assert account(accounts).counts[0] == 100
    assert account(accounts, client_id="renamed").counts[0] == 5


def test_rates_and_history_are_of_the_last_seconds_and_minutes() -> None:
    accounts, connection = Accounts(), Connection()
    for second in range(21):
        connection.does(1_000, 500, 2, 10_000_000)
        accounts.update([connection], BEGIN + second * 1_000)
    rates = account(accounts).per_second(BEGIN + 20_000)
    assert rates == pytest.approx([1_100, 550, 2.2, 11_000_000])
    assert account(accounts).recent.rows(BEGIN + 20_000)[-2][:3] == (5_000, 2_500, 10)


@pytest.mark.parametrize("clients", [16, 17])
def test_where_there_are_too_many_the_idlest_go(clients: int) -> None:
    accounts = Accounts(max_accounts=16)
    for index in range(clients):
        connection = Connection(client_id=f"app {index}")
        connection.does(1)
        accounts.update([connection], BEGIN + index)
    names = {each.client_id for each in accounts}
    assert len(names) == (16 if clients == 16 else 15)
    assert ("app 0" in names, "app 1" in names, "app 2" in names) == (clients == 16, clients == 16, True)


def test_of_equally_busy_clients_the_least_active_is_dropped() -> None:
    accounts = Accounts(max_accounts=8)
    connections = [Connection(client_id=f"app {index}") for index in range(8)]
    for index, connection in enumerate(connections):
        connection.does(100 if index != 5 else 1)
    accounts.update(connections, BEGIN)
    newcomer = Connection(client_id="new")
    newcomer.does(50)
    accounts.update([*connections, newcomer], BEGIN)
    assert {each.client_id for each in accounts} == {"new", *(f"app {i}" for i in range(8) if i != 5)}


def test_an_idle_connection_does_not_bring_a_forgotten_account_back() -> None:
    accounts = Accounts(max_accounts=1)
    idle, busy = Connection(client_id="idle"), Connection(client_id="busy")
    for connection in (idle, busy):
        connection.does(1)
        accounts.update([connection], BEGIN)
    accounts.update([idle, busy], BEGIN + 1_000)
    assert [each.client_id for each in accounts] == ["busy"]
    idle.does(5)
    accounts.update([idle, busy], BEGIN + 2_000)
    assert account(accounts, client_id="idle").counts[0] == 5


def test_the_busiest_have_series() -> None:
    accounts = Accounts()
    connections = [Connection(client_id=f"app {index}") for index in range(MAX_CLIENTS + 5)]
    for index, connection in enumerate(connections):
        connection.does(1_000 + index, index)
    accounts.update(connections, BEGIN)
    shown = {family.name: list(family.samples) for family in filter(None, families(accounts, BEGIN))}
    assert shown.pop("weir_clients_left_out")[0].value == 5
    assert list(shown) == [*(name for name, _ in FAMILIES), "kafka_server_client_connections"]
    assert {len(samples) for samples in shown.values()} == {MAX_CLIENTS}
    series = {sample.labels: sample.value for sample in shown["kafka_server_client_incoming_bytes_total"]}
    assert series[("user", "alice"), ("client_id", f"app {MAX_CLIENTS + 4}")] == 1_000 + MAX_CLIENTS + 4
    assert (("user", "alice"), ("client_id", "app 4")) not in series
    assert MAX_ACCOUNTS == 1_000


START = 1_700_000_000_000
"""An interval begins here."""


def test_each_stretch_has_what_was_counted_in_it() -> None:
    recent = RecentCounts(2, START)
    for at_ms, values in [(0, (1, 10)), (4_999, (2, 20)), (5_000, (4, 40)), (15_000, (8, 80))]:
        recent.add(values, START + at_ms)
    rows = recent.rows(START + 15_000)
    assert len(rows) == INTERVALS
    assert rows[-4:] == [(3, 30), (4, 40), (0, 0), (8, 80)]
    assert set(rows[:-4]) == {(0, 0)}


@pytest.mark.parametrize(("later", "left"), [(INTERVALS - 1, 7), (INTERVALS, 0), (10 * INTERVALS, 0)])
def test_counts_older_than_the_ring_are_gone(later: int, left: int) -> None:
    recent = RecentCounts(1, START)
    recent.add((7,), START)
    rows = recent.rows(START + later * INTERVAL_MS)
    assert (rows[0], sum(row[0] for row in rows)) == ((left,), left)


@pytest.mark.parametrize(
    ("now_ms", "seen_ms", "rate"),
    [
        (12_000, 60_000, 350 / 12),  # the present interval so far and the two before it
        (14_999, 60_000, 350 / 14.999),
        (15_000, 60_000, 250 / 10),  # the first is expired
        (12_000, 4_000, 350 / 4),  # known for four seconds
        (12_000, 10, 350),  # known for less than a second
    ],
)
def test_a_rate_is_over_the_last_ten_to_fifteen_seconds(now_ms: int, seen_ms: int, rate: float) -> None:
    recent = RecentCounts(1, START)
    for at_ms, value in [(0, 100), (5_000, 200), (10_000, 50)]:
        recent.add((value,), START + at_ms)
    assert recent.per_second(seen_ms, START + now_ms) == [pytest.approx(rate)]


def test_a_clock_that_steps_back_loses_nothing() -> None:
    recent = RecentCounts(1, START)
    recent.add((1,), START + 5_000)
    recent.add((2,), START)
    assert recent.rows(START)[-1] == (3,)
