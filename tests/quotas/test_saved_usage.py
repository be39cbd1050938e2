"""What limits remember across a restart, of every kind of limit and algorithm, in exact numbers."""

from collections.abc import Callable
from sys import float_info
from typing import Any

import pytest

from broker.common.clock import BASE_MS
from broker.common.slices import run_through
from broker.metrics.rate import Window
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.connections import ConnectionQuotas, Limits, Throttled, TooFastOfUser, UserLimit
from broker.quotas.entity import DEFAULT, Entity
from broker.quotas.kinds import QuotaKind
from broker.quotas.saved_usage import LEAST_WORTH_S, Saved, UsageOfClients
from broker.server.parts.quota_usage import decode, encode

WINDOW = Window(11, 1_000)
WALL_MS = 1_800_000_000_000
ALICE = Entity(user="alice")

Quotas = Callable[[], ClientQuotas]
ALGORITHMS: dict[str, Quotas] = {
    "paced": ClientQuotas,
    "rate": lambda: ClientQuotas(paced=False),
    "token_bucket": lambda: ClientQuotas(paced=False, burst_ms=1_000),
}


class Run:
    """One run of a server: its clock starts anew, and `later_ms` of the wall clock have passed."""

    def __init__(
        self,
        quotas: ClientQuotas | None = None,
        after: "Run | None" = None,
        *,
        later_ms: int = 0,
        now_ms: int = BASE_MS,
        window: Window = WINDOW,
        limit: dict[str, float] | None = None,
    ) -> None:
        self.quotas = quotas or ClientQuotas()
        self.connections = ConnectionQuotas(window, paced=True)
        self.listener = self.connections.add_listener("L")
        self.now_ms = now_ms
        self.wall_ms = WALL_MS if after is None else after.wall_ms + later_ms
        self.usage = UsageOfClients(self.quotas, {"broker": self.connections}, window, window)
        for key, value in (limit or {"producer_byte_rate": 1_000}).items():
            self.quotas.apply(ALICE, key, value)
        self.after = after

    def resume(self) -> int:
        assert self.after is not None
        return self.usage.resume(decode(encode(self.after.saved())), self.now_ms, self.wall_ms)

    def saved(self) -> Saved:
        saved = run_through(self.usage.collect(self.now_ms, self.wall_ms, always=True))
        assert saved is not None
        return saved

    def passes(self, ms: int) -> None:
        self.now_ms += ms
        self.wall_ms += ms

    def owes_8_seconds(self) -> None:
        """Let alice send 18 s' worth at once, and repay ten seconds of it."""
        self.produce(18_000)
        self.passes(10_000)

    def produce(self, nbytes: int, user: str = "alice", client_id: str = "app") -> int:
        throttle = self.quotas.record_produce(user, client_id, nbytes, self.now_ms)
        return 0 if throttle is None else throttle.throttle_ms


@pytest.mark.parametrize("algorithm", ["paced", "token_bucket"])
@pytest.mark.parametrize(
    ("later_ms", "wait_ms"), [(0, 8_000), (1, 7_999), (3_000, 5_000), (7_999, 1), (8_000, 0), (60_000, 0)]
)
def test_a_client_that_owes_8_seconds_waits_5_after_a_restart_3_seconds_later(algorithm, later_ms, wait_ms):
    first = Run(ALGORITHMS[algorithm]())
    if algorithm == "paced":
        first.owes_8_seconds()
    else:
        assert first.produce(9_000) == 8_000
    # The other run's clock shows another time.
    second = Run(ALGORITHMS[algorithm](), first, later_ms=later_ms, now_ms=BASE_MS + 77)
    assert second.resume() == 1
    assert second.produce(0) == wait_ms


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_without_a_restart_the_same_client_waits_as_long(algorithm):
    once = Run(ALGORITHMS[algorithm]())
    once.produce(20_000)
    once.passes(2_000)
    again = Run(ALGORITHMS[algorithm](), once, later_ms=1_500)
    again.resume()
    once.passes(1_500)
    for nbytes in (0, 500, 700, 0):
        assert again.produce(nbytes) == once.produce(nbytes)
        once.passes(100)
        again.passes(100)


@pytest.mark.parametrize("algorithm", ["paced", "rate"])
def test_usage_below_the_limit_is_remembered_window_by_window(algorithm):
    first = Run(ALGORITHMS[algorithm]())
    for _ in range(9):
        assert first.produce(1_000) == 0
        first.passes(1_000)
    second = Run(ALGORITHMS[algorithm](), first, later_ms=1_000)
    second.resume()
    (sensor,) = second.quotas.produce.sensors_of("alice", "app")
    assert sensor.observed(second.now_ms) == 900
    assert second.produce(1_000) == 0, "ten seconds' worth"
    assert second.produce(100) == 100
    fresh = Run(ALGORITHMS[algorithm]())
    assert fresh.produce(10_000) == 0, "without it there are ten seconds' worth again"


@pytest.mark.parametrize(("stepped_ms", "wait_ms"), [(-3_600_000, 8_000), (-1, 8_000), (3_600_000, 0)])
def test_a_clock_that_was_set_back_repays_nothing_and_adds_nothing(stepped_ms, wait_ms):
    first = Run()
    first.owes_8_seconds()
    second = Run(None, first, later_ms=stepped_ms)
    assert second.resume() == 1
    assert second.produce(0) == wait_ms


def test_every_kind_of_a_clients_limit_is_remembered():
    limits = {
        "producer_byte_rate": 1_000,
        "consumer_byte_rate": 1_000,
        "request_percentage": 1,
        "controller_mutation_rate": 2,
    }
    first = Run(limit=limits)
    now_ms = first.now_ms
    first.produce(12_000)
    first.quotas.record_fetch("alice", "app", 12_000, now_ms)
    first.quotas.request.record_handled("alice", "app", 120_000_000, now_ms)
    first.passes(10_000)
    first.quotas.mutation.quota_for("alice", "app", now_ms, strict=False).record(26, first.now_ms)
    second = Run(None, first, later_ms=500, limit=limits)
    assert second.resume() == 4
    now_ms = second.now_ms
    quota = second.quotas.mutation.quota_for("alice", "app", now_ms, strict=False)
    quota.record(0, now_ms)
    throttles = [
        second.quotas.record_produce("alice", "app", 0, now_ms),
        second.quotas.record_fetch("alice", "app", 0, now_ms),
        second.quotas.request.record_handled("alice", "app", 0, now_ms),
        quota.throttle(now_ms),
    ]
    assert [each and (each.kind, each.throttle_ms) for each in throttles] == [
        (QuotaKind.PRODUCE, 1_500),
        (QuotaKind.FETCH, 1_500),
        (QuotaKind.REQUEST, 1_500),
        (QuotaKind.CONTROLLER_MUTATION, 1_500),
    ]


@pytest.mark.parametrize("rate", [2.0**63, 1e20, 1e307, float_info.max])
def test_a_rate_of_mutations_that_nobody_reaches_owes_nothing_after_a_restart(rate):
    limit = {"controller_mutation_rate": rate}
    before = Run(limit=limit)
    for _ in range(3):
        before.quotas.mutation.quota_for("alice", "app", before.now_ms, strict=True).record(50, before.now_ms)
        before.passes(1_000)
    after = Run(after=before, limit=limit)
    after.resume()
    quota = after.quotas.mutation.quota_for("alice", "app", after.now_ms, strict=True)
    quota.record(50, after.now_ms)
    assert not quota.is_exceeded


def test_the_debt_of_each_upstream_node_is_its_own():
    first = Run()
    for node, nbytes in ((1, 12_000), (2, 13_000)):
        first.quotas.at_node(node).produce.record("alice", "app", nbytes, first.now_ms)
    first.passes(10_000)
    second = Run(None, first, later_ms=1_000)
    assert second.resume() == 2
    waits: list[Any] = [
        second.quotas.at_node(node).produce.record("alice", "app", 0, second.now_ms) for node in (1, 2, 3)
    ]
    assert [each and each.throttle_ms for each in waits] == [1_000, 2_000, None]


def test_a_debt_of_a_gateway_that_shares_its_limits_is_kept():
    first = Run(ClientQuotas(shared=True))
    assert first.produce(5_000) == 0
    assert first.produce(0) == 5_000
    second = Run(ClientQuotas(shared=True), first, later_ms=2_000)
    second.resume()
    assert second.produce(0) == 3_000


def test_each_rate_of_new_connections_is_remembered():
    def run(after: Run | None = None, later_ms: int = 0) -> Run:
        made = Run(None, after, later_ms=later_ms, now_ms=BASE_MS + later_ms * 7)
        made.connections.set_broker_limits(Limits(creation_rate=3))
        made.connections.set_listener_limits("L", Limits(creation_rate=2))
        made.connections.set_ip_rate(DEFAULT, 1)
        made.connections.users.set_limits(UserLimit(), UserLimit(0.1))
        return made

    first = run()
    for _ in range(21):
        first.connections.record(first.listener, first.now_ms)
    for _ in range(10):
        first.connections.rate.record(first.now_ms)
    for _ in range(10):
        assert first.connections.check_address(first.listener, "10.0.0.1", first.now_ms) is None
    assert first.connections.users.enter("alice", first.now_ms) is None
    second = run(first, later_ms=250)
    assert second.resume() == 4
    now_ms = second.now_ms
    assert second.connections.rate.record(now_ms) == round((32 - 30) / 3 * 1_000) - 250
    assert second.listener.rate.record(now_ms) == 1_000 - 250
    assert second.connections.check_address(second.listener, "10.0.0.1", now_ms) == Throttled(750, 0.1, 1)
    assert second.connections.enter(second.listener, "10.0.0.2", now_ms) is None
    assert second.connections.users.enter("alice", now_ms) == TooFastOfUser(9_750, 0.1)


def test_rates_by_kafkas_rule_are_remembered_in_windows():
    runs = []
    for _ in range(2):
        quotas = ConnectionQuotas(WINDOW)
        quotas.add_listener("L")
        quotas.set_listener_limits("L", Limits(creation_rate=5))
        runs.append((quotas, UsageOfClients(ClientQuotas(), {"broker": quotas}, WINDOW, WINDOW)))
    (quotas, usage), (again, resumed) = runs
    waits = [quotas.record(quotas.listeners["L"], BASE_MS) for _ in range(51)]
    assert waits[-1] == 200
    saved = run_through(usage.collect(BASE_MS, WALL_MS))
    assert saved is not None
    assert resumed.resume(saved, BASE_MS + 9, WALL_MS + 100) == 1
    assert again.record(again.listeners["L"], BASE_MS + 9) == 300


def test_what_has_no_limit_any_more_is_dropped_and_what_has_another_rule_keeps_its_sensor():
    first = Run()
    first.quotas.apply(Entity(client_id="app"), "producer_byte_rate", 1_000)
    first.produce(18_000, user="bob")
    first.owes_8_seconds()
    first.connections.set_ip_rate("10.0.0.1", 1)
    first.connections.check_address(first.listener, "10.0.0.1", first.now_ms)
    assert len(first.saved().entries) == 3
    second = Run(None, first)
    assert second.resume() == 1, "alice's: there is no rule for the client id, and none for the address"
    assert (second.produce(0), second.produce(0, user="bob")) == (8_000, 0)
    third = Run(None, first, limit={"consumer_byte_rate": 1})
    assert third.resume() == 0


def test_a_limit_that_changed_meanwhile_repays_at_the_old_one_until_then():
    first = Run()
    first.owes_8_seconds()
    second = Run(None, first, later_ms=2_000, limit={"producer_byte_rate": 100})
    second.resume()
    assert second.produce(0) == 60_000


@pytest.mark.parametrize(
    ("window", "observed"), [(WINDOW, 800), (Window(6, 1_000), 0), (Window(11, 2_000), 0)]
)
def test_windows_of_another_length_are_dropped(window, observed):
    first = Run()
    first.produce(8_000)
    second = Run(ClientQuotas(window), first, window=window)
    assert second.resume() == 1
    (sensor,) = second.quotas.produce.sensors_of("alice", "app")
    assert sensor.observed(second.now_ms) == observed


def test_debts_are_kept_whatever_the_windows_are():
    first = Run()
    first.owes_8_seconds()
    second = Run(ClientQuotas(Window(6, 1_000)), first, window=Window(6, 1_000))
    second.resume()
    assert second.produce(0) == 8_000


@pytest.mark.parametrize(
    ("before", "after", "wait_ms"),
    [
        ("rate", "paced", 8_000),
        ("rate", "token_bucket", 0),
        ("paced", "token_bucket", 7_000),
        ("paced", "rate", 0),
    ],
)
def test_another_algorithm_goes_on_with_what_it_knows(before, after, wait_ms):
    first = Run(ALGORITHMS[before]())
    if before == "paced":
        first.owes_8_seconds()
    else:
        first.produce(18_000)
    second = Run(ALGORITHMS[after](), first)
    assert second.resume() == 1
    assert second.produce(0) == wait_ms


def test_a_client_that_is_paced_and_has_credit_keeps_its_windows_too():
    first = Run()
    first.produce(12_000)
    first.passes(12_900)
    assert first.produce(100) == 0
    (entry,) = first.saved().entries
    assert entry.spent == -800 and [total for *_, total in entry.samples][-1] == 100
    second = Run(None, first, later_ms=100)
    second.resume()
    assert [second.produce(1_000), second.produce(500), second.produce(0)] == [0, 100, 600]


def test_a_callbacks_groups_start_anew():
    class Callback:
        pass

    run = Run()
    run.produce(18_000)
    saved = run.saved()
    grouped = Run()
    grouped.quotas.callback = Callback()  # type: ignore[assignment]
    assert grouped.saved().entries == []
    assert grouped.usage.resume(saved, BASE_MS, WALL_MS) == 0


@pytest.mark.parametrize(
    ("nbytes", "is_saved"),
    [(int(LEAST_WORTH_S * 1_000) - 1, False), (int(LEAST_WORTH_S * 1_000), True), (51, True)],
)
def test_next_to_nothing_is_not_saved(nbytes, is_saved):
    run = Run()
    run.produce(nbytes)
    assert bool(run.saved().entries) is is_saved


def test_what_was_repaid_or_has_left_the_windows_is_not_saved():
    run = Run()
    run.owes_8_seconds()
    run.passes(7_000)
    assert len(run.saved().entries) == 1
    run.passes(1_000)
    assert run.saved().entries == []


def test_nothing_is_collected_again_until_something_changes():
    run = Run()

    def collected() -> bool:
        return run_through(run.usage.collect(run.now_ms, run.wall_ms)) is not None

    assert (collected(), collected()) == (True, False)
    run.passes(10)
    run.produce(18_000)
    assert (collected(), collected()) == (True, False)
    run.passes(3_000)
    assert not collected(), "what is repaid follows from the time"
    run.quotas.apply(ALICE, "producer_byte_rate", 500, run.now_ms)
    assert (collected(), collected()) == (True, False)


@pytest.mark.parametrize("sensors", [1, 2, 10_000])
def test_ten_thousand_active_entities_are_collected_one_at_a_time(sensors):
    run = Run()
    run.quotas.apply(Entity(user=DEFAULT), "producer_byte_rate", 1_000)
    for number in range(sensors):
        run.produce(18_000, user=f"u{number}")
    pauses = 0
    steps = run.usage.collect(run.now_ms, run.wall_ms)
    while True:
        try:
            next(steps)
            pauses += 1
        except StopIteration as end:
            saved = end.value
            break
    assert len(saved.entries) == sensors
    # Two rates of connections, of the broker and the listener, are looked at besides.
    assert pauses == sensors + 2
