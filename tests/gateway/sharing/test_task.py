"""The task of a gateway that shares limits, on a mock clock with a topic in memory."""

import logging
from collections.abc import Callable

import pytest
import trio
import trio.testing
from msgspec.structs import replace

from broker.common.slices import Steps, run_through
from broker.gateway.sharing import task
from broker.gateway.sharing.client_summary import (
    ClientSummary,
    client_key_of,
    read_in_steps,
    write_in_steps,
)
from broker.gateway.sharing.member import LEASE_MS, SharingMember
from broker.gateway.sharing.report import WHOLE, LimitKey, Report, read_report
from broker.gateway.sharing.signing import Records
from broker.gateway.sharing.summary import Summary, key_of, read_summary, write_summary
from broker.gateway.sharing.task import MAX_BYTES, SHARES_TIMEOUT_MS, SharingTask
from broker.gateway.sharing.views import Summaries
from broker.network.clock import TrioClock
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.entity import Entity
from broker.quotas.kinds import QuotaKind
from tests.gateway.sharing.test_client_summary import SUMMARY as CLIENTS
from tests.gateway.sharing.test_summary import SUMMARY
from tests.quotas.scene import Connection
from tests.support.memory_log import MemoryLog, MemoryTopic

ALICE = LimitKey(QuotaKind.PRODUCE, "alice", None)
LIMIT = 1_000_000
REQUEST = 25_000


class Gateway:
    """A gateway with a client of alice that uses as much as it may, over `connections` connections."""

    def __init__(
        self,
        name: str,
        topic: MemoryTopic,
        connections: int = 0,
        *,
        has_summaries: bool = False,
        keeps_clients: bool = True,
        lists: bool = False,
    ) -> None:
        """`lists`: it also reports its clients."""
        self.clock = TrioClock()
        self.quotas = ClientQuotas(shared=True)
        self.quotas.apply(Entity("alice"), "producer_byte_rate", LIMIT, self.clock.ms())
        self.member = SharingMember(name, self.quotas)
        self.log = MemoryLog(topic, append_s=0.01, read_s=0.005)
        self.summaries = Summaries(
            self._measured,
            keeps_clients=keeps_clients,
            measure_clients=self._measured_clients if lists else None,
        )
        self.task = SharingTask(
            self.member,
            self.log,
            self.clock,
            Records(),
            summaries=self.summaries if has_summaries else None,
        )
        self.measured = 0
        self.connections = connections
        self.passed = 0
        self.scope = trio.CancelScope()
        self.ended = trio.Event()

    def _measured(self) -> Steps[Summary]:
        yield
        self.measured += 1
        return replace(SUMMARY, gateway=self.member.gateway, address=f"{self.measured}")

    def _measured_clients(self) -> Steps[ClientSummary]:
        yield
        return replace(CLIENTS, gateway=self.member.gateway, clients=(), unlisted_clients=self.measured)

    async def run(self) -> None:
        with self.scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.task.run)
                for _ in range(self.connections):
                    nursery.start_soon(self._produce)
        self.ended.set()

    async def _produce(self) -> None:
        connection = Connection(principal="alice", client_id="app")
        throttled = self.quotas.produce.throttled
        while True:
            throttle = self.quotas.record_produce("alice", "app", REQUEST, self.clock.ms())
            self.passed += REQUEST
            if throttle is not None:
                self.quotas.throttle(connection, connection, throttle, self.clock.ms())
                while connection in [each.channel for each in throttled.all()]:
                    await trio.sleep(0.05)
                    throttled.expired(self.clock.ms())
            await trio.sleep(0.001)


@pytest.fixture
def topic() -> MemoryTopic:
    return MemoryTopic()


Make = Callable[..., Gateway]


@pytest.fixture
def start(topic: MemoryTopic, nursery: trio.Nursery) -> Make:
    """Start a gateway."""

    def make(name: str, connections: int = 0, **how: bool) -> Gateway:
        gateway = Gateway(name, topic, connections, **how)
        nursery.start_soon(gateway.run)
        return gateway

    return make


def published(topic: MemoryTopic, gateway: str) -> list[Summary]:
    return [read_summary(each.value or b"") for each in topic.entries if each.key == key_of(gateway)]


def reports(topic: MemoryTopic) -> list[Report]:
    return [run_through(read_report(entry.value or b"")) for entry in topic.entries]


async def test_a_report_is_written_every_second(autojump_clock, start, topic):
    start("a")
    await trio.sleep(3.5)
    assert [(report.gateway, report.number) for report in reports(topic)] == [("a", n) for n in (1, 2, 3, 4)]
    assert [entry.key for entry in topic.entries] == [b"a"] * 4


async def test_a_report_waits_until_the_one_before_it_is_read(autojump_clock, start, topic):
    gateway = start("a")
    gateway.log.read_s = 1.4
    await trio.sleep(1.4)
    await trio.sleep(3.5)
    assert [report.number for report in reports(topic)] == [1, 2, 3]


async def test_but_for_three_seconds_at_most(autojump_clock, start, topic):
    gateway = start("a")
    await trio.sleep(0.5)
    gateway.log.read_s = 60
    await trio.sleep(7)
    assert [report.number for report in reports(topic)] == [1, 2, 3, 4]


async def test_two_gateways_divide_a_limit_by_their_clients(autojump_clock, start):
    first, second = start("a", 15), start("b", 5)
    await trio.sleep(20)
    total = first.member.shares[ALICE] + second.member.shares[ALICE]
    assert WHOLE * 0.98 <= total <= WHOLE
    # A quarter in equal parts, three quarters 3 to 1.
    assert first.member.shares[ALICE] == pytest.approx(687_500, rel=0.05)
    before = first.passed + second.passed
    await trio.sleep(10)
    assert first.passed + second.passed - before == pytest.approx(10 * LIMIT, rel=0.02)


async def test_a_gateway_that_stops_frees_its_shares(autojump_clock, start, topic):
    first, second = start("a", 10), start("b", 10)
    await trio.sleep(10)
    first.scope.cancel()
    await trio.sleep(2.1)
    assert second.member.table.gateways == ["b"]
    assert second.member.shares[ALICE] == WHOLE
    assert next(report for report in reports(topic) if report.leaving).gateway == "a"


@pytest.mark.parametrize(("lived_s", "behind_s"), [(0.5, 2), (1.5, 2), (2.5, 0)])
async def test_the_successor_of_a_lone_gateway_that_was_killed_has_its_limits_after_four_seconds(
    mock_clock, start, topic, lived_s: float, behind_s: int
):
    """It begins with its eighth, and opens no connection of a limit on open ones while it is behind: one that
    has reported twice may be there, and not know of it.
    """
    first = start("a", 10)
    mock_clock.autojump_threshold = 0
    await trio.sleep(lived_s)
    first.log.is_away = True
    assert len(reports(topic)) == int(lived_s) + 1
    member = start("b", 10).member
    await trio.sleep(0.1)
    shares = []
    for tenth in range(50):
        shares.append(member.shares.get(ALICE, member.other_share))
        assert member.is_behind is (tenth < 10 * behind_s)
        await trio.sleep(0.1)
    assert set(shares[:20]) == {WHOLE // 8}
    assert max(shares[:40]) < WHOLE and set(shares[40:]) == {WHOLE}


async def test_the_farewell_delays_the_end_by_a_second_at_most(autojump_clock, start):
    gateway = start("a")
    await trio.sleep(2.5)
    gateway.log.append_s = 60
    gateway.scope.cancel()
    begin = trio.current_time()
    await gateway.ended.wait()
    assert trio.current_time() - begin == pytest.approx(1)


async def test_a_gateway_takes_its_own_report_without_reading_it(autojump_clock, start, monkeypatch):
    """Of three gateways it would be a third of what is read."""
    read = []

    def noting(data):
        report = yield from read_report(data)
        read.append(report.number)
        return report

    monkeypatch.setattr(task, "read_report", noting)
    first = start("a", 10)
    await trio.sleep(5.5)
    assert first.task.announced.is_set() and first.member.shares
    assert read == []
    start("b", 10)
    await trio.sleep(5.5)
    assert len(read) >= 10


async def test_shares_last_four_seconds_from_the_beginning_of_the_last_written_report(
    mock_clock, start, topic, caplog
):
    first, second = start("a", 10), start("b", 10)
    mock_clock.autojump_threshold = 0
    await trio.sleep(10.5)
    first.log.is_away = True
    before = first.member.shares[ALICE]
    begun_ms = (first.member.lease_ends_ms or 0) - LEASE_MS
    assert before > WHOLE // 3
    assert first.clock.ms() - begun_ms < 1_000
    left_s = (begun_ms + 4_000 - first.clock.ms()) / 1_000
    await trio.sleep(left_s - 0.001)
    assert first.member.shares[ALICE] == before
    assert not first.member.has_expired
    await trio.sleep(0.001)
    await trio.testing.wait_all_tasks_blocked()
    assert first.member.shares[ALICE] == WHOLE // 8
    await trio.sleep(2)
    assert first.member.shares[ALICE] == WHOLE // 8
    assert second.member.shares[ALICE] == WHOLE
    assert "the shares of this gateway have expired" in [each.getMessage() for each in caplog.records]
    first.log.is_away = False
    # A share rises only after the other gateway has reported that its own fell, so the sum may be smaller.
    for _ in range(40):
        await trio.sleep(0.5)
        assert first.member.shares[ALICE] + second.member.shares[ALICE] <= WHOLE
    assert not first.member.has_expired
    assert first.member.shares[ALICE] == pytest.approx(WHOLE / 2, rel=0.1)
    assert second.member.shares[ALICE] == pytest.approx(WHOLE / 2, rel=0.1)


async def test_a_gateway_alone_keeps_a_quarter_of_each_limit_when_its_lease_has_ended(autojump_clock, start):
    """Another one may have started where it cannot be heard."""
    gateway = start("a", 10)
    await trio.sleep(10)
    assert gateway.member.shares[ALICE] == gateway.member.other_share == WHOLE
    gateway.log.is_away = True
    await trio.sleep(6)
    assert gateway.member.shares[ALICE] == gateway.member.other_share == WHOLE // 4
    gateway.log.is_away = False
    await trio.sleep(3)
    assert gateway.member.shares[ALICE] == gateway.member.other_share == WHOLE


@pytest.mark.parametrize(("what", "left_s"), [("append_s", 1.489), ("read_s", 1.984)])
async def test_after_a_request_without_a_response_the_lease_has_time_left_for_another_one(
    mock_clock, start, what: str, left_s: float
):
    """0.4 s were left after an append, and none after a read."""
    gateway = start("a", 10)
    gateway.log.timeout_s = SHARES_TIMEOUT_MS / 1_000
    mock_clock.autojump_threshold = 0
    await trio.sleep(10.5)
    ends_ms = gateway.member.lease_ends_ms or 0
    before_s = getattr(gateway.log, what)
    setattr(gateway.log, what, 60)
    await trio.sleep(0.6)
    setattr(gateway.log, what, before_s)
    while gateway.member.lease_ends_ms == ends_ms:  # noqa: ASYNC110 - nothing announces it
        await trio.sleep(0.001)
    assert (ends_ms - gateway.clock.ms()) / 1_000 == pytest.approx(left_s, abs=0.002)


async def test_a_gateway_that_writes_reports_and_reads_none_keeps_its_shares_for_four_seconds(
    mock_clock, start, caplog
):
    """It kept them for as long as it wrote: one that came later passed its starting share besides."""
    first = start("a", 10)
    mock_clock.autojump_threshold = 0
    await trio.sleep(10.5)
    assert first.member.shares[ALICE] == WHOLE
    first.log.is_unreadable = True
    begun_ms = (first.member.lease_ends_ms or 0) - LEASE_MS
    second = start("b", 10)
    left_s = (begun_ms + 4_000 - first.clock.ms()) / 1_000
    await trio.sleep(left_s - 0.001)
    assert (first.member.shares[ALICE], second.member.shares[ALICE]) == (WHOLE, WHOLE // 8)
    await trio.sleep(0.001)
    await trio.testing.wait_all_tasks_blocked()
    # The first one knows of no other, and the second one hears what the first one has.
    assert (first.member.shares[ALICE], first.member.other_share) == (WHOLE // 4, WHOLE // 4)
    await trio.sleep(6)
    assert [each.getMessage() for each in caplog.records] == [
        "cannot read the reports of gateways",
        "the shares of this gateway have expired",
    ]
    begin = first.passed + second.passed
    for _ in range(20):
        await trio.sleep(0.5)
        assert first.member.shares[ALICE] == WHOLE // 4
        assert WHOLE * 0.6 <= second.member.shares[ALICE] <= WHOLE * 0.75
    assert 9 * LIMIT <= first.passed + second.passed - begin <= 10 * LIMIT
    assert first.member.has_expired
    first.log.is_unreadable = False
    await trio.sleep(8)
    assert not first.member.has_expired
    assert first.member.shares[ALICE] == pytest.approx(WHOLE / 2, rel=0.1)
    assert second.member.shares[ALICE] == pytest.approx(WHOLE / 2, rel=0.1)


async def test_a_report_whose_append_failed_renews_the_lease_when_it_is_read(autojump_clock, start):
    gateway = start("a", 10)
    await trio.sleep(10)
    gateway.log.unsure = 100
    await trio.sleep(20)
    assert not gateway.member.has_expired
    assert gateway.member.shares[ALICE] == WHOLE


async def test_a_log_that_does_not_answer_is_reported_within_five_seconds(autojump_clock, start, caplog):
    gateway = start("a", 10)
    await trio.sleep(10)
    gateway.log.append_s = gateway.log.read_s = 60
    await trio.sleep(2.9)
    assert [each.getMessage() for each in caplog.records] == []
    await trio.sleep(1.2)
    assert caplog.records[0].getMessage() == "cannot write the reports of gateways"
    assert gateway.task.is_failing


async def test_shares_expire_while_the_log_is_away_and_each_change_is_one_line(autojump_clock, start, caplog):
    caplog.set_level(logging.INFO)
    first, second = start("a", 10), start("b", 10)
    await trio.sleep(10)
    first.log.is_away = second.log.is_away = True
    await trio.sleep(30)
    assert first.task.is_failing
    assert first.member.shares[ALICE] == second.member.shares[ALICE] == WHOLE // 8
    first.log.is_away = second.log.is_away = False
    await trio.sleep(5)
    assert not first.task.is_failing
    lines = [record.getMessage() for record in caplog.records]
    assert sorted(lines) == [
        *["can read the reports of gateways again"] * 2,
        *["can write the reports of gateways again"] * 2,
        *["cannot read the reports of gateways"] * 2,
        *["cannot write the reports of gateways"] * 2,
        *["the shares of this gateway have expired"] * 2,
    ]
    assert WHOLE * 0.95 <= first.member.shares[ALICE] + second.member.shares[ALICE] <= WHOLE


@pytest.mark.parametrize("left", [0, 30])
async def test_a_log_that_has_lost_records_is_read_from_its_beginning_and_no_share_expires(
    autojump_clock, start, topic, caplog, left: int
):
    """Reading went on when the log was as long again."""
    first, second = start("a", 10, has_summaries=True), start("b", 10, has_summaries=True)
    await trio.sleep(60)
    assert topic.end > 200
    topic.cut(left)
    for _ in range(30):
        await trio.sleep(0.1)
        assert first.member.shares[ALICE] + second.member.shares[ALICE] <= WHOLE
    third = start("c", 10)
    await trio.sleep(10)
    for gateway in (first, second, third):
        assert sorted(gateway.member.table.gateways) == ["a", "b", "c"]
        assert gateway.member.shares[ALICE] == pytest.approx(WHOLE / 3, rel=0.1)
    assert list(first.summaries.others(first.clock.ms())) == ["b"]
    assert [record.getMessage() for record in caplog.records] == [
        "the topic of reports has lost records, and is read from its beginning"
    ] * 2


async def test_a_gateway_that_starts_without_the_log_writes_when_it_is_there(autojump_clock, start, topic):
    gateway = start("a")
    gateway.log.is_away = True
    await trio.sleep(10.2)
    assert topic.entries == []
    gateway.log.is_away = False
    await trio.sleep(1)
    assert [report.number for report in reports(topic)] == [1]


async def test_a_new_gateway_reads_the_log_before_it_writes(autojump_clock, start, topic):
    for name in ("x", "y", "z"):
        topic.append(name.encode(), b'{"version":1,"gateway":"%s","number":7,"limits":[]}' % name.encode())
    topic.compact()
    gateway = start("a", 1)
    await trio.sleep(0.5)
    assert gateway.member.other_share == WHOLE // 16


async def test_invalid_reports_are_skipped_with_a_line(autojump_clock, start, topic, caplog):
    topic.append(b"x", b"nonsense")
    topic.append(b"y", None)
    gateway = start("a")
    await trio.sleep(0.5)
    assert [record.getMessage() for record in caplog.records] == ["unreadable report"]
    assert gateway.member.table.gateways == ["a"]
    topic.append(b"x", b"more")
    topic.append(b"x", b"too soon for a line")
    await trio.sleep(0.4)
    assert len(caplog.records) == 1
    await trio.sleep(0.6)
    topic.append(b"x", b"more")
    await trio.sleep(0.5)
    assert len(caplog.records) == 2


@pytest.mark.parametrize(("over", "is_read"), [(-1, True), (0, True), (1, False)])
async def test_a_record_that_is_too_large_is_not_read(
    autojump_clock, start, topic, caplog, over: int, is_read: bool
):
    report = b'{"version":1,"gateway":"x","number":1,"limits":[]}'
    topic.append(b"x", report.ljust(MAX_BYTES + over))
    gateway = start("a")
    await trio.sleep(0.5)
    assert ("x" in gateway.member.table.gateways) is is_read
    assert len(caplog.records) == (not is_read)


async def test_an_append_that_may_have_failed_does_not_delay_the_next(autojump_clock, start, topic):
    gateway = start("a")
    gateway.log.unsure = gateway.log.lost = 1
    await trio.sleep(3.5)
    assert [report.number for report in reports(topic)] == [2, 3, 4]


async def test_summaries_are_reported_once_a_second_while_there_are_others(autojump_clock, start, topic):
    first = start("a", has_summaries=True)
    await trio.sleep(3.5)
    assert first.measured == 4
    assert published(topic, "a") == []
    second = start("b", has_summaries=True)
    await trio.sleep(5)
    assert [each.address for each in published(topic, "a")][:3] == ["5", "6", "7"]
    for gateway, other in ((first, "b"), (second, "a")):
        (summary,) = gateway.summaries.others(gateway.clock.ms()).values()
        assert summary == published(topic, other)[-1]
        assert gateway.summaries.own is not None


async def test_a_lost_gateways_summary_is_gone_after_five_seconds(autojump_clock, start):
    first, second = start("a", has_summaries=True), start("b", has_summaries=True)
    await trio.sleep(5.5)
    assert list(first.summaries.others(first.clock.ms())) == ["b"]
    second.log.is_away = True
    await trio.sleep(4)
    assert list(first.summaries.others(first.clock.ms())) == ["b"]
    await trio.sleep(1.5)
    assert list(first.summaries.others(first.clock.ms())) == []
    second.log.is_away = False
    await trio.sleep(2)
    assert list(first.summaries.others(first.clock.ms())) == ["b"]


async def test_a_gateway_that_stops_takes_its_summary_with_it(autojump_clock, start):
    first, second = start("a", has_summaries=True), start("b", has_summaries=True)
    await trio.sleep(5.5)
    second.scope.cancel()
    await second.ended.wait()
    await trio.sleep(0.1)
    assert list(first.summaries.others(first.clock.ms())) == []


async def test_without_a_console_summaries_are_read_too(autojump_clock, start, topic):
    """They say where clients go when the gateway drains."""
    first, second = start("a", has_summaries=True), start("b", has_summaries=True, keeps_clients=False)
    await trio.sleep(5)
    assert list(first.summaries.others(first.clock.ms())) == ["b"]
    assert list(second.summaries.others(second.clock.ms())) == ["a"]


async def test_summaries_from_before_the_start_are_not_read(autojump_clock, start, topic):
    topic.append(key_of("old"), write_summary(replace(SUMMARY, gateway="old")))
    topic.append(key_of("odd"), b"nonsense")
    gateway = start("a", has_summaries=True)
    await trio.sleep(0.5)
    assert list(gateway.summaries.others(gateway.clock.ms())) == []
    topic.append(key_of("new"), write_summary(replace(SUMMARY, gateway="new")))
    await trio.sleep(0.1)
    assert list(gateway.summaries.others(gateway.clock.ms())) == ["new"]


async def test_a_summary_that_cannot_be_read_is_one_line_and_harms_no_report(
    autojump_clock, start, topic, caplog
):
    gateway = start("a", has_summaries=True)
    await trio.sleep(0.5)
    topic.append(key_of("odd"), b"nonsense")
    await trio.sleep(5)
    assert [record.getMessage() for record in caplog.records] == ["unreadable report"]
    assert [report.number for report in reports_of("a", topic)] == [1, 2, 3, 4, 5, 6]
    assert gateway.member.table.gateways == ["a"]


async def test_a_summary_that_cannot_be_written_is_one_line_and_harms_no_report(
    autojump_clock, start, topic, caplog
):
    gateway, _ = start("a", has_summaries=True), start("b")
    await trio.sleep(0.5)
    gateway.log.max_bytes = 300
    await trio.sleep(5)
    gateway.log.max_bytes = 1_000_000
    await trio.sleep(2)
    assert [record.getMessage() for record in caplog.records] == ["cannot write the summary of gateways"]
    assert [report.number for report in reports_of("a", topic)] == list(range(1, 9))
    assert published(topic, "a")


async def test_clients_are_told_once_a_second_while_there_are_others(autojump_clock, start, topic):
    first = start("a", has_summaries=True, lists=True)
    await trio.sleep(3.5)
    assert client_summaries(topic, "a") == []
    second = start("b", has_summaries=True, lists=True)
    third = start("c", has_summaries=True, keeps_clients=False)
    await trio.sleep(5)
    assert [each.unlisted_clients for each in client_summaries(topic, "a")][:3] == [5, 6, 7]
    (received,) = first.summaries.clients(first.clock.ms()).values()
    assert received == client_summaries(topic, "b")[-1]
    assert list(second.summaries.clients(second.clock.ms())) == ["a"]
    # One without a console does not read what the others tell.
    assert list(third.summaries.clients(third.clock.ms())) == []
    assert client_summaries(topic, "c") == []


async def test_clients_are_gone_with_their_gateway(autojump_clock, start):
    first, second = start("a", has_summaries=True, lists=True), start("b", has_summaries=True, lists=True)
    await trio.sleep(5.5)
    second.log.is_away = True
    await trio.sleep(4)
    assert list(first.summaries.clients(first.clock.ms())) == ["b"]
    await trio.sleep(1.5)
    assert list(first.summaries.clients(first.clock.ms())) == []
    second.log.is_away = False
    await trio.sleep(2)
    assert list(first.summaries.clients(first.clock.ms())) == ["b"]
    second.scope.cancel()
    await second.ended.wait()
    await trio.sleep(0.1)
    assert list(first.summaries.clients(first.clock.ms())) == []


async def test_clients_that_cannot_be_read_are_one_line_and_harm_no_report(
    autojump_clock, start, topic, caplog
):
    topic.append(client_key_of("old"), b"nonsense")
    gateway = start("a", has_summaries=True, lists=True)
    await trio.sleep(0.5)
    assert caplog.records == []
    for data in (b"nonsense", run_through(write_in_steps(CLIENTS)).replace(b"10.0.0.7", b"no address")):
        topic.append(client_key_of("odd"), data)
        await trio.sleep(2)
    assert [record.getMessage() for record in caplog.records] == ["unreadable report"] * 2
    assert dict(gateway.summaries.clients(gateway.clock.ms())) == {}
    topic.append(client_key_of("new"), run_through(write_in_steps(replace(CLIENTS, gateway="new"))))
    await trio.sleep(0.1)
    assert list(gateway.summaries.clients(gateway.clock.ms())) == ["new"]
    assert gateway.member.table.gateways == ["a"]


async def test_clients_that_cannot_be_written_are_one_line(autojump_clock, start, topic, caplog):
    gateway, _ = start("a", has_summaries=True, lists=True), start("b")
    gateway.log.max_bytes = len(write_summary(replace(SUMMARY, gateway="a", address="100")))
    large = replace(CLIENTS, clients=CLIENTS.clients * 20)
    gateway.summaries.measure_clients = lambda: iter_result(large)
    await trio.sleep(5)
    gateway.log.max_bytes = 1_000_000
    await trio.sleep(2)
    assert [record.getMessage() for record in caplog.records] == ["cannot write the clients of gateways"]
    assert [report.number for report in reports_of("a", topic)] == list(range(1, 8))
    assert client_summaries(topic, "a") and published(topic, "a")


def iter_result(result: ClientSummary) -> Steps[ClientSummary]:
    yield
    return result


def client_summaries(topic: MemoryTopic, gateway: str) -> list[ClientSummary]:
    records = [each.value or b"" for each in topic.entries if each.key == client_key_of(gateway)]
    return [run_through(read_in_steps(each)) for each in records]


def reports_of(gateway: str, topic: MemoryTopic) -> list[Report]:
    return [
        run_through(read_report(each.value or b"")) for each in topic.entries if each.key == gateway.encode()
    ]
