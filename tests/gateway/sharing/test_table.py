"""The table of shares, report by report."""

import pytest

from broker.common.slices import run_through
from broker.gateway.sharing.report import WHOLE, LimitKey, Line, Report
from broker.gateway.sharing.table import LINES_PER_STEP, MAX_GATEWAYS, MISSED, ShareTable, starting_share
from broker.quotas.kinds import QuotaKind

ALICE = LimitKey(QuotaKind.PRODUCE, "alice", None)
BOB = LimitKey(QuotaKind.PRODUCE, "bob", None)


class Script:
    """A table, and the numbers of each gateway's reports."""

    def __init__(self) -> None:
        self.table = ShareTable()
        self.numbers: dict[str, int] = {}

    def says(self, gateway: str, share: int, wanted: int = 0, key: LimitKey = ALICE) -> dict[str, int]:
        """Take the gateway's next report, and return the shares of the limit."""
        self.silent(gateway, {key: Line(0, 0, share, wanted)})
        return self.shares(key)

    def silent(self, gateway: str, lines: dict[LimitKey, Line] | None = None) -> bool:
        self.numbers[gateway] = self.numbers.get(gateway, 0) + 1
        return run_through(self.table.receive(Report(gateway, self.numbers[gateway], lines or {})))

    def shares(self, key: LimitKey = ALICE) -> dict[str, int]:
        division = self.table.divisions.get(key)
        return {} if division is None else division.shares


def test_a_share_is_raised_as_far_as_the_others_leave_space():
    script = Script()
    assert script.says("a", 250_000, 600_000) == {"a": 600_000}
    assert script.says("b", 100_000, 500_000) == {"a": 600_000, "b": 400_000}
    assert script.says("c", 0, 500_000) == {"a": 600_000, "b": 400_000, "c": 0}
    assert script.table.divisions[ALICE].total == WHOLE


def test_a_share_is_lowered_before_another_is_raised_into_the_space():
    script = Script()
    script.says("a", 1_000_000, 1_000_000)
    assert script.says("b", 125_000, 500_000) == {"a": 1_000_000, "b": 125_000}
    assert script.says("a", 500_000, 500_000) == {"a": 500_000, "b": 125_000}
    assert script.says("b", 125_000, 500_000) == {"a": 500_000, "b": 500_000}


@pytest.mark.parametrize(("taken", "granted"), [(499_999, 500_000), (500_000, 500_000), (500_001, 499_999)])
def test_no_share_is_raised_beyond_what_is_free(taken, granted):
    script = Script()
    script.says("a", taken, taken)
    assert script.says("b", 1, 500_000)["b"] == granted


def test_a_gateway_has_what_it_says_that_it_has_even_if_there_is_no_space():
    script = Script()
    script.says("a", 900_000)
    assert script.says("b", 200_000, 800_000) == {"a": 900_000, "b": 200_000}
    assert script.table.divisions[ALICE].total == 1_100_000


def test_a_limit_that_a_gateway_no_longer_reports_is_free():
    script = Script()
    script.says("a", 900_000)
    assert script.says("a", 900_000, key=BOB) == {"a": 900_000}
    assert ALICE not in script.table.divisions
    assert script.says("b", 1, WHOLE) == {"b": WHOLE}


def test_a_report_that_comes_twice_or_too_late_changes_nothing():
    script = Script()
    script.says("a", 300_000)
    late = Report("a", 1, {ALICE: Line(0, 0, 900_000, 900_000)})
    assert run_through(script.table.receive(late)) is None
    script.says("a", 200_000)
    assert run_through(script.table.receive(late)) is None
    assert script.shares() == {"a": 200_000}


@pytest.mark.parametrize("reports", [MISSED - 1, MISSED, MISSED + 1])
def test_a_gateway_is_gone_when_another_has_written_five_reports_since_its_last(reports):
    script = Script()
    script.says("b", 300_000)
    script.says("a", 400_000)
    for _ in range(reports):
        script.silent("b")
    assert ("a" in script.table) is (reports < MISSED)
    assert (script.shares() == {"a": 400_000}) is (reports < MISSED)
    assert script.table.gateways[-1] == "b"


def test_reports_of_several_gateways_do_not_add_up_to_an_absence():
    script = Script()
    script.says("a", 400_000)
    for _ in range(MISSED - 1):
        for name in "bcdef":
            script.silent(name)
    assert "a" in script.table


def test_no_gateway_counts_as_gone_while_none_can_write():
    script = Script()
    script.says("a", 400_000)
    script.says("b", 600_000)
    assert script.says("a", 400_000, 400_000) == {"a": 400_000, "b": 600_000}


def test_a_gateway_that_leaves_frees_its_shares_at_once():
    script = Script()
    script.says("a", 400_000)
    script.says("b", 600_000)
    assert run_through(script.table.receive(Report("a", 2, leaving=True))) == []
    assert script.shares() == {"b": 600_000}
    assert script.table.gateways == ["b"]
    assert run_through(script.table.receive(Report("z", 9, leaving=True))) == []
    assert script.table.gateways == ["b"]


def test_the_starting_share_is_a_quarter_of_an_equal_part():
    assert [starting_share(count) for count in (1, 2, 3, 50)] == [250_000, 125_000, 83_333, 5_000]
    assert starting_share(1_000_000) == 1


@pytest.mark.parametrize(("others", "is_there"), [(-2, True), (-1, True), (0, False)])
def test_for_another_gateway_than_there_can_be_the_most_silent_makes_room(others, is_there):
    """Reports can name gateways that there are not."""
    script = Script()
    script.says("first", 250_000)
    for number in range(MAX_GATEWAYS + others):
        script.silent(f"g{number}")
    assert ("first" in script.table) is is_there
    assert script.shares() == ({"first": 250_000} if is_there else {})
    assert len(script.table.gateways) == min(MAX_GATEWAYS + others + 1, MAX_GATEWAYS)


def test_a_report_of_many_limits_is_taken_in_steps():
    count = 500
    lines = {LimitKey(QuotaKind.PRODUCE, f"u{at}", None): Line(0, 0, 1, 1) for at in range(count)}
    table = ShareTable()
    assert len(list(table.receive(Report("a", 1, lines)))) == -(-count // LINES_PER_STEP)
    assert len(table.divisions) == count
    assert len(list(table.receive(Report("a", 2)))) == count
    assert not table.divisions


def test_a_report_that_comes_after_the_farewell_does_not_bring_the_gateway_back():
    """An append whose connection was given up reaches the log behind the farewell on the next one."""
    script = Script()
    script.says("a", 500_000, 500_000)
    script.says("b", 500_000, 500_000)
    run_through(script.table.receive(Report("a", 3, leaving=True)))
    assert run_through(script.table.receive(Report("a", 2, {ALICE: Line(0, 0, 500_000, 500_000)}))) is None
    assert script.table.gateways == ["b"] and script.shares() == {"b": 500_000}
    assert script.says("b", 500_000, WHOLE) == {"b": WHOLE}


@pytest.mark.parametrize(("more", "is_known"), [(-1, True), (0, False)])
def test_so_many_gateways_that_have_left_are_remembered(more: int, is_known: bool):
    table = ShareTable()
    for name in ("a", *(f"g{number}" for number in range(MAX_GATEWAYS + more))):
        run_through(table.receive(Report(name, 1)))
        run_through(table.receive(Report(name, 2, leaving=True)))
    run_through(table.receive(Report("a", 1)))
    assert table.gateways == ([] if is_known else ["a"])
