"""One gateway's reports, and what it has in force, round by round."""

import pytest

from broker.common.clock import BASE_MS
from broker.common.slices import run_through
from broker.gateway.sharing.member import SETTLED, SharingMember
from broker.gateway.sharing.report import MAX_AMOUNT, WHOLE, LimitKey, Line, Report
from broker.gateway.sharing.table import MISSED, starting_share
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.entity import Entity
from broker.quotas.kinds import QuotaKind
from tests.quotas.scene import Connection

LIMIT = 1_000_000
ALICE = LimitKey(QuotaKind.PRODUCE, "alice", None)


class Gateway:
    """A member with quotas, and a client that uses alice's limit as it is told."""

    def __init__(self, name: str) -> None:
        self.quotas = ClientQuotas(shared=True)
        self.quotas.apply(Entity("alice"), "producer_byte_rate", LIMIT, BASE_MS)
        self.member = SharingMember(name, self.quotas)

    def use(self, nbytes: int, at_ms: int) -> None:
        self.quotas.record_produce("alice", "app", nbytes, BASE_MS + at_ms)

    def wait(self, nbytes: int, at_ms: int) -> None:
        """Throttle a client for what was recorded before."""
        throttle = self.quotas.record_produce("alice", "app", nbytes, BASE_MS + at_ms)
        assert throttle is not None
        self.quotas.throttle(Connection(principal="alice"), None, throttle, BASE_MS + at_ms)

    def report(self, at_ms: int) -> Report:
        return run_through(self.member.report(BASE_MS + at_ms))

    def receive(self, *reports: Report, at_ms: int = 0) -> None:
        for report in reports:
            run_through(self.member.receive(report))
        run_through(self.member.enforce(BASE_MS + at_ms))

    @property
    def bound(self) -> float:
        sensor = self.quotas.produce.find("alice", "app")
        assert sensor is not None
        return sensor.bound


def other(number: int, share: int, passed: int = 0, waiting: int = 0, wanted: int = 0) -> Report:
    return Report("other", number, {ALICE: Line(passed, waiting, share, wanted)})


def test_a_gateway_alone_has_a_quarter_of_each_limit_until_it_has_read_its_first_report():
    """All before it in the log is read then, and no other gateway has written anything."""
    gateway = Gateway("a")
    gateway.use(1, 0)
    report = gateway.report(1_000)
    assert (gateway.member.other_share, gateway.bound) == (250_000, LIMIT / 4)
    gateway.receive(report)
    assert (gateway.member.other_share, gateway.bound) == (WHOLE, LIMIT)
    assert gateway.member.is_alone and not gateway.member.is_settled


def test_a_gateway_that_reads_another_one_before_its_first_report_is_not_alone():
    gateway = Gateway("a")
    gateway.use(1, 0)
    report = gateway.report(1_000)
    gateway.receive(Report("b", 7), report)
    assert not gateway.member.is_alone
    assert (gateway.member.other_share, gateway.bound) == (
        starting_share(2),
        LIMIT * starting_share(2) / WHOLE,
    )
    gateway.receive(Report("b", 8, leaving=True))
    assert gateway.member.is_alone and gateway.bound == LIMIT


def test_a_gateway_alone_gives_up_the_whole_when_it_reads_of_another_one():
    gateway = Gateway("a")
    gateway.use(1, 0)
    gateway.receive(gateway.report(1_000))
    gateway.receive(Report("b", 1))
    assert not gateway.member.is_alone and gateway.bound == LIMIT * starting_share(2) / WHOLE


@pytest.mark.parametrize(
    ("number", "is_behind"), [(SETTLED - 1, True), (SETTLED, False), (SETTLED + 1, False)]
)
def test_the_second_of_two_that_begin_together_knows_it(number: int, is_behind: bool):
    gateway = Gateway("b")
    gateway.receive(*(Report("a", each) for each in range(1, number + 1)))
    assert not gateway.member.is_behind
    gateway.receive(gateway.report(1_000))
    assert gateway.member.is_behind == is_behind
    for each in range(2, SETTLED + 1):
        assert gateway.member.is_behind == is_behind
        report = gateway.report(each * 1_000)
        assert not (gateway.member.is_behind and each == SETTLED)
        gateway.receive(report)


def test_one_that_begins_beside_two_that_began_together_is_behind_the_first_of_them():
    gateway = Gateway("c")
    gateway.receive(Report("a", 1), Report("b", 1), gateway.report(1_000))
    assert gateway.member.table.alone_before(SETTLED) == ["a"] and gateway.member.is_behind


def test_one_is_behind_another_one_that_has_become_alone():
    gateway = Gateway("c")
    gateway.receive(Report("x", 50), Report("a", 1), Report("x", 51, leaving=True), gateway.report(1_000))
    assert gateway.member.is_behind


def test_one_that_begins_beside_new_ones_that_were_never_alone_is_not_behind():
    gateway = Gateway("c")
    gateway.receive(Report("x", 50), Report("a", 1), gateway.report(1_000))
    assert not gateway.member.is_behind


def test_a_gateway_that_uses_a_limit_alone_raises_its_share_to_the_whole():
    gateway = Gateway("a")
    gateway.receive(Report("b", 1))
    gateway.use(200_000, 0)
    for number in range(1, SETTLED):
        report = gateway.report(number * 10)
        assert report.lines == {ALICE: Line(200_000, 0, 125_000, 125_000)}
        gateway.receive(report)
    report = gateway.report(SETTLED * 10)
    assert report.lines == {ALICE: Line(200_000, 0, 125_000, WHOLE)}
    assert gateway.bound == LIMIT / 8
    gateway.receive(report)
    assert gateway.member.shares == {ALICE: WHOLE}
    assert gateway.bound == LIMIT


@pytest.fixture
def settled() -> Gateway:
    """A gateway with all of alice's limit, of which it uses 400,000 a second; another one is there."""
    gateway = Gateway("a")
    gateway.receive(Report("other", 1))
    gateway.use(400_000, 0)
    for number in range(1, SETTLED + 1):
        gateway.receive(gateway.report(number * 10))
    assert gateway.member.shares == {ALICE: WHOLE}
    return gateway


def test_a_gateway_that_joins_begins_at_the_floor_and_rises_with_its_third_report():
    """A new gateway of a rolling upgrade takes no share from the one that serves all clients."""
    gateway = Gateway("a")
    gateway.receive(other(1, WHOLE, 1_000_000, 0, WHOLE))
    gateway.use(200_000, 0)
    floor = starting_share(2)
    for number in range(1, SETTLED):
        assert gateway.member.other_share == floor
        report = gateway.report(number * 10)
        assert report.lines[ALICE].share == report.lines[ALICE].wanted == floor
        gateway.receive(report)
        assert gateway.bound <= LIMIT * floor / WHOLE
    report = gateway.report(SETTLED * 10)
    assert report.lines[ALICE].share <= floor < report.lines[ALICE].wanted
    gateway.receive(report)
    # The other one has not made room yet.
    assert gateway.bound <= LIMIT * floor / WHOLE


def test_a_share_that_is_too_large_is_lowered_at_once_and_reported(settled):
    """By use, 4 to 1. The other begins with its eighth, which the limit does not have left."""
    settled.receive(other(2, 125_000, 100_000))
    assert settled.member.shares == {ALICE: 800_000}
    assert settled.bound == LIMIT * 0.8
    assert settled.report(50).lines == {ALICE: Line(400_000, 0, 800_000, 800_000)}


def test_a_share_is_raised_only_when_the_gateway_reads_its_own_report(settled):
    settled.receive(other(2, 125_000, 100_000))
    settled.receive(settled.report(50))
    settled.receive(Report("other", 3))
    assert settled.member.shares == {ALICE: 800_000}
    report = settled.report(60)
    assert report.lines == {ALICE: Line(400_000, 0, 800_000, WHOLE)}
    assert settled.bound == LIMIT * 0.8
    settled.receive(report)
    assert settled.bound == LIMIT


def test_a_report_that_another_one_has_followed_raises_nothing(settled):
    """The later one, which others may have read, says that the gateway has less."""
    settled.receive(other(2, 125_000, 100_000))
    settled.receive(settled.report(50))
    settled.receive(Report("other", 3))
    first, second = settled.report(60), settled.report(70)
    settled.receive(first)
    assert settled.member.shares == {ALICE: 800_000}
    settled.receive(second)
    assert settled.member.shares == {ALICE: WHOLE}


def test_a_lost_report_raises_nothing_and_the_share_that_was_in_force_stays(settled):
    settled.report(50)
    settled.receive(other(2, 0, 100_000))
    assert settled.member.shares == {ALICE: WHOLE}


@pytest.mark.parametrize(("passed", "share"), [(8_163, WHOLE), (8_164, 979_998), (8_165, 979_995)])
def test_a_share_is_lowered_if_it_exceeds_its_part_by_more_than_a_fiftieth(settled, passed, share):
    """400,000 of 408,163 are 980,000.1 millionths."""
    settled.receive(other(2, 0, passed))
    assert settled.report(50).lines[ALICE].share == share


def test_an_idle_limit_is_not_reported_and_the_starting_share_applies_to_it(settled):
    report = settled.report(3_000)
    assert report.lines == {}
    assert settled.member.shares == {}
    assert settled.bound == LIMIT / 8
    settled.receive(report)
    assert settled.member.table.divisions == {}


@pytest.mark.parametrize(("used", "is_reported"), [(7_812, False), (7_813, True)])
def test_use_of_less_than_a_sixteenth_of_the_starting_share_is_not_reported(used, is_reported):
    gateway = Gateway("a")
    gateway.receive(Report("other", 1))
    gateway.use(used, 0)
    assert (ALICE in gateway.report(10).lines) is is_reported
    assert gateway.bound == LIMIT / 8


def test_waiting_clients_are_reported(settled):
    settled.use(2_000_000, 40)
    settled.wait(100_000, 40)
    line = settled.report(50).lines[ALICE]
    assert line.passed == WHOLE
    assert line.waiting == 2_500_000 // 3


def test_nothing_is_lowered_after_a_report_that_was_not_received(settled):
    """Otherwise every variation of the use would lower the share, and nothing could raise it."""
    settled.receive(other(2, 0, 100_000))
    assert settled.report(50).lines[ALICE].share == 800_000
    settled.use(100_000, 3_000)
    assert settled.report(3_010).lines[ALICE] == Line(100_000, 0, 800_000, 500_000)


def test_without_the_others_a_gateway_keeps_its_share_for_four_seconds(settled):
    """Its last report that is in the log was begun at 30 ms."""
    settled.receive(other(2, 125_000, 100_000))
    for second in range(1, 4):
        settled.use(400_000, second * 1_000)
        settled.report(second * 1_000)
        assert settled.bound == LIMIT * 0.8
    for at_ms, bound in ((4_029, 0.8), (4_030, 0.125), (4_031, 0.125), (60_000, 0.125)):
        settled.receive(at_ms=at_ms)
        assert settled.bound == LIMIT * bound
        assert settled.member.has_expired is (at_ms >= 4_030)
    settled.use(100_000, 60_400)
    report = settled.report(60_500)
    assert report.lines[ALICE].wanted == report.lines[ALICE].share == 125_000
    settled.receive(report, at_ms=60_600)
    assert not settled.member.has_expired
    assert settled.bound == LIMIT / 8
    settled.receive(settled.report(60_700), at_ms=60_701)
    assert settled.bound == LIMIT / 2


def test_a_report_that_is_read_back_renews_the_lease_from_its_own_beginning(settled):
    """Late, when the next one has been made, too: it is in the log."""
    report = settled.report(2_000)
    settled.report(2_900)
    settled.receive(report, at_ms=4_029)
    for at_ms, bound in ((5_999, 1), (6_000, 0.125)):
        settled.receive(at_ms=at_ms)
        assert settled.bound == LIMIT * bound


def test_an_earlier_report_that_is_read_back_late_does_not_shorten_the_lease(settled):
    first, second = settled.report(2_000), settled.report(3_000)
    settled.receive(second, first, at_ms=3_001)
    assert settled.member.lease_ends_ms == BASE_MS + 7_000


def test_before_its_first_report_is_read_back_a_gateway_has_no_lease():
    gateway = Gateway("a")
    gateway.use(1, 0)
    gateway.report(10)
    gateway.receive(at_ms=60_000)
    assert not gateway.member.has_expired
    assert gateway.bound == LIMIT / 4


def test_a_gateway_that_the_others_have_given_up_begins_again_with_the_starting_share(settled):
    for number in range(2, 6):
        settled.receive(Report("other", number))
        assert settled.member.shares == {ALICE: WHOLE}
    settled.receive(Report("other", 6))
    assert "a" not in settled.member.table
    assert settled.member.shares == {ALICE: 125_000}
    assert settled.bound == LIMIT / 8
    settled.receive(settled.report(100))
    assert settled.member.shares == {ALICE: WHOLE}


def test_a_farewell_is_the_next_report(settled):
    farewell = settled.member.farewell()
    assert farewell == Report("a", SETTLED + 1, {}, leaving=True)
    settled.receive(farewell)
    assert settled.member.table.gateways == ["other"]
    assert settled.member.table.divisions == {}


def test_a_changed_limit_applies_to_the_present_share_at_once(settled):
    settled.receive(other(2, 125_000, 100_000))
    settled.quotas.apply(Entity("alice"), "producer_byte_rate", 2 * LIMIT, BASE_MS)
    assert settled.bound == 1_600_000


def beside_a_silent_one(reports: int) -> tuple[Gateway, Report]:
    """A gateway that has read so many of its own reports since the other one's last, and its next report."""
    gateway = Gateway("a")
    for number in range(1, SETTLED + 1):
        gateway.use(1, number * 1_000)
        gateway.receive(other(number, 500_000, 500_000), gateway.report(number * 1_000))
    at_ms = SETTLED * 1_000
    for _ in range(reports):
        at_ms += 1_000
        gateway.use(500_000, at_ms)
        gateway.receive(gateway.report(at_ms))
    gateway.use(500_000, at_ms + 1_000)
    report = gateway.report(at_ms + 1_000)
    return gateway, report


@pytest.mark.parametrize(
    ("reports", "wanted", "share"), [(MISSED - 2, 600_000, 500_000), (MISSED - 1, WHOLE, WHOLE)]
)
def test_the_report_that_frees_the_shares_of_a_silent_gateway_wants_its_part_of_them(reports, wanted, share):
    """And not the next one, a second later. It lowers nothing before the others have seen it."""
    gateway, report = beside_a_silent_one(reports - 1)
    assert report.lines[ALICE].wanted == wanted
    assert report.lines[ALICE].share <= 500_000
    gateway.receive(report)
    assert ("other" in gateway.member.table) is (reports < MISSED - 1)
    assert gateway.member.shares[ALICE] == share


def test_a_gateway_that_was_only_slow_keeps_what_it_has():
    """Its report comes just before the one that would have freed its shares."""
    gateway, report = beside_a_silent_one(MISSED - 2)
    gateway.receive(other(SETTLED + 1, 500_000, 500_000), report)
    assert gateway.member.shares[ALICE] + 500_000 <= WHOLE


@pytest.mark.parametrize("percent", [1e-300, 5e-324])
def test_a_limit_of_any_size_is_divided(percent: float) -> None:
    """Kafka allows whatever is greater than 0."""
    quotas = ClientQuotas(shared=True)
    quotas.apply(Entity("alice"), "request_percentage", percent, BASE_MS)
    member = SharingMember("a", quotas)
    run_through(member.receive(Report("b", 1)))
    for second in range(1, 6):
        now_ms = BASE_MS + second * 1_000
        quotas.request.record_handled("alice", "app", 20_000_000, now_ms - 500)
        report = run_through(member.report(now_ms))
        run_through(member.receive(report))
        run_through(member.enforce(now_ms))
        sensor = quotas.request.find("alice", "app")
        assert sensor is not None and 0 < sensor.bound <= percent
    assert report.lines[LimitKey(QuotaKind.REQUEST, "alice", None)].passed == MAX_AMOUNT
