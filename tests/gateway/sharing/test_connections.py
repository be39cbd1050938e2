"""What one gateway reports of limits on connections: which of them, how many, and its parts."""

import pytest

from broker.common.clock import BASE_MS
from broker.common.slices import Steps, run_through
from broker.gateway.sharing.connections import (
    MAX_BYTES,
    MAX_LINES,
    MAX_WAITING,
    NUMBERS,
    SharedConnections,
)
from broker.gateway.sharing.division import Demand
from broker.gateway.sharing.member import SharingMember
from broker.gateway.sharing.report import WHOLE, Line, Report, SharedKey, read_report, write_report
from broker.gateway.sharing.summary import MAX_NAME
from broker.gateway.sharing.table import ShareTable, connections_of, share_of
from broker.metrics.rate import INT_MAX, Window
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.connections import PER_IP, PER_USER, USER_RATE, ConnectionQuotas, UserLimit
from broker.quotas.shared_connections import ConnectionKey

ALICE = ConnectionKey(PER_USER, "alice")


class One:
    """A gateway among `others`, whose reports have `lines`, at first none."""

    def __init__(self, *others: str, maximum: int = 12) -> None:
        self.quotas = ConnectionQuotas(Window(11, 1_000), shared=True)
        self.quotas.users.set_limits(UserLimit(maximum), UserLimit())
        self.connections = SharedConnections(self.quotas)
        self.member = SharingMember("one", ClientQuotas(shared=True), self.connections)
        self.lines: dict[str, dict[SharedKey, Line]] = {name: {} for name in others}
        self.number = 0
        self.now_ms = BASE_MS
        self.hear()
        for _ in range(3):
            self.report()

    def hear(self) -> None:
        """Read the next report of each other gateway."""
        self.number += 1
        for name, lines in self.lines.items():
            self.receive(Report(name, self.number, lines, has_connections=True))

    def report(self) -> Report:
        """Write the next report, a second after the last one, and read it back with those of the others."""
        self.now_ms += 1_000
        report = run_through(self.member.report(self.now_ms))
        self.receive(report)
        self.hear()
        return report

    def receive(self, report: Report) -> None:
        run_through(self.member.receive(report))

    def log_in(self, count: int, user: str = "alice") -> int:
        return [self.quotas.users.enter(user, self.now_ms) for _ in range(count)].count(None)


def test_shares_of_whole_connections_are_exact() -> None:
    for maximum in (1, 3, 7, 999, 100_000):
        for connections in {0, 1, maximum // 2, maximum - 1, maximum}:
            assert connections_of(share_of(connections, maximum), maximum) == connections


@pytest.mark.parametrize(("opened", "is_reported"), [(1, False), (2, True), (3, True)])
def test_half_of_an_equal_part_is_reported(opened: int, is_reported: bool) -> None:
    one = One("two", "three")
    one.log_in(opened)
    lines = one.report().lines
    assert (ALICE in lines) is is_reported
    if is_reported:
        # Those that two and three may open without a line, 4 each, are not this gateway's.
        assert lines[ALICE] == Line(-(-opened * WHOLE // 12), 0, 4 * WHOLE // 12, 4 * WHOLE // 12, 12)


def test_refused_connections_wait_for_three_reports_unless_there_is_room() -> None:
    one = One("two", "three")
    assert one.log_in(9) == 4
    found = [one.report().lines[ALICE].waiting for _ in range(4)]
    assert found == [5 * WHOLE // 12 + 1] * 3 + [0]
    one.log_in(2)
    one.quotas.users.release("alice")
    one.report()
    assert one.report().lines[ALICE].waiting == 0


@pytest.mark.parametrize("maximum", [0, INT_MAX])
def test_a_limit_that_is_changed_while_a_report_is_made_is_not_in_it(
    maximum: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit of 0 ended the gateway, and of a removed one the others could not read the report."""
    one = One("two")
    one.log_in(6)
    measure = one.connections.measure

    def change_after(least: int, now_ms: int) -> Steps[dict[ConnectionKey, Demand]]:
        found = yield from measure(least, now_ms)
        assert ALICE in found
        one.quotas.users.set_limits(UserLimit(maximum), UserLimit())
        return found

    monkeypatch.setattr(one.connections, "measure", change_after)
    report = run_through(one.member.report(one.now_ms + 1_000))
    assert ALICE not in report.lines
    assert run_through(read_report(run_through(write_report(report)))) == report


def test_what_others_report_is_reported_too_and_left_to_them() -> None:
    one = One("two", "three")
    one.lines["two"][ALICE] = Line(300_000, 500_000, 333_333, 800_000)
    one.hear()
    assert one.report().lines[ALICE] == Line(0, 0, 0, 0, 12)
    assert one.log_in(1) == 0
    one.lines["two"].clear()
    one.hear()
    assert ALICE in one.report().lines, "its own client was refused"


def test_connections_that_others_have_open_leave_the_rest_whatever_the_shares() -> None:
    one = One("two")
    one.lines["two"][ALICE] = Line(10 * WHOLE // 12 + 1, 0, WHOLE // 2, 0)
    one.hear()
    assert one.log_in(12) == 2


@pytest.mark.parametrize("over", [-1, 0, 1])
def test_only_the_fullest_limits_are_reported(over: int) -> None:
    one = One("two", maximum=1_000)
    for number in range(MAX_LINES + over):
        name = f"user-{number}"
        one.quotas.users.counts[name] = 300 + number % 150 + (number == 7)
    one.quotas.users.counts["least"] = 299
    found = one.report().lines
    assert len(found) == min(MAX_LINES + over + 1, MAX_LINES)
    assert (ConnectionKey(PER_USER, "least") in found) is (over < 0)
    assert ConnectionKey(PER_USER, "user-149") in found


def test_names_of_bytes_that_do_not_fit_are_left_out() -> None:
    one = One("two", maximum=10)
    for number in range(200):
        one.quotas.users.counts[f"{number:03}" + "ü" * (MAX_NAME - 3)] = 9
    one.quotas.users.counts["x" * (MAX_NAME + 1)] = 9
    found = one.report().lines
    size = sum(len(key.name.encode()) + NUMBERS + 2 for key in found if isinstance(key, ConnectionKey))
    assert MAX_BYTES - 600 < size <= MAX_BYTES
    assert all(len(key.name) == MAX_NAME for key in found if isinstance(key, ConnectionKey))


def test_a_limit_that_is_not_reported_leaves_an_equal_part() -> None:
    one = One("two", maximum=10)
    name = "x" * (MAX_NAME + 1)
    assert one.log_in(10, name) == 5
    assert one.report().lines == {}
    assert one.log_in(1, name) == 0


def test_refused_connections_of_many_names_are_not_all_remembered() -> None:
    one = One("two")
    for number in range(MAX_WAITING + 10):
        one.connections.refused(ConnectionKey(PER_IP, f"address {number}"))
    one.connections.refused(ConnectionKey(PER_IP, "address 0"))
    assert len(one.connections._refused) == MAX_WAITING
    assert one.connections._refused[ConnectionKey(PER_IP, "address 0")] == 2


def test_thousands_of_users_are_looked_at_in_steps() -> None:
    one = One("two", maximum=100)
    one.quotas.users.counts |= {f"user-{number}": 1 for number in range(10_000)}
    assert sum(1 for _ in one.connections.measure(0, one.now_ms)) >= 10
    assert one.report().lines == {}


# The table


def line(opened: int, held: int, wanted: int) -> Line:
    """A line of a limit of ten connections."""
    return Line(*(each * WHOLE // 10 for each in (opened, 0, held, wanted)), 10)


def table_of(*reports: Report) -> ShareTable:
    table = ShareTable()
    for each in reports:
        run_through(table.receive(each))
    return table


@pytest.mark.parametrize(
    ("others", "granted"),
    [
        ((), WHOLE),
        ((Report("b", 1),), WHOLE),
        ((Report("b", 1, has_connections=True),), WHOLE // 2),
        (
            (Report("b", 1, has_connections=True), Report("c", 1, has_connections=True)),
            3 * WHOLE // 10,
        ),
        ((Report("b", 1, {ALICE: line(0, 0, 0)}, has_connections=True),), WHOLE),
        ((Report("b", 1, {ALICE: line(2, 3, 3)}, has_connections=True),), 7 * WHOLE // 10),
    ],
)
def test_gateways_without_a_line_keep_an_equal_part_unless_they_are_of_an_earlier_version(
    others: tuple[Report, ...], granted: int
) -> None:
    own = Report("a", 1, {ALICE: line(1, 1, 10)}, has_connections=True)
    assert table_of(*others, own).divisions[ALICE].shares["a"] == granted


@pytest.mark.parametrize(
    ("maximum", "connections"), [(1, 0), (2, 1), (3, 1), (7, 3), (40, 20), (99_999, 49_999)]
)
def test_room_for_a_part_of_a_connection_is_left(maximum: int, connections: int) -> None:
    """Two gateways that took parts of the last connection would both keep it from being opened."""
    own = Report("a", 1, {ALICE: Line(0, 0, 0, WHOLE, maximum)}, has_connections=True)
    shares = table_of(Report("b", 1, has_connections=True), own).divisions[ALICE].shares
    assert shares == {"a": share_of(connections, maximum)}


def test_rates_are_divided_without_a_part_for_those_without_a_line() -> None:
    key = ConnectionKey(USER_RATE, "alice")
    own = Report("a", 1, {key: line(1, 1, 10)}, has_connections=True)
    assert table_of(Report("b", 1, has_connections=True), own).divisions[key].shares == {"a": WHOLE}


def test_a_gateway_that_is_gone_keeps_nothing() -> None:
    own = Report("a", 1, {ALICE: line(1, 1, 10)}, has_connections=True)
    table = table_of(Report("b", 1, has_connections=True), own, Report("b", 2, leaving=True))
    assert list(table.with_connections) == ["a"]
    run_through(table.receive(Report("a", 2, {ALICE: line(1, 5, 10)}, has_connections=True)))
    division = table.divisions[ALICE]
    assert (division.shares, division.passed) == ({"a": WHOLE}, WHOLE // 10)
