"""Changes of limits while greedy clients are throttled: the bytes of any minute follow the limit's integral.

`tests.quotas.load.worst_minutes` describes the minutes that the check excludes.
"""

import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from broker.common.clock import BASE_MS
from broker.common.slices import run_through
from broker.quotas.bandwidth import RateQuotaManager
from broker.quotas.bucket import BucketQuotaManager
from broker.quotas.entity import DEFAULT, Name
from broker.quotas.kinds import QuotaKind
from broker.quotas.mutation import MutationQuotaManager
from broker.quotas.request import RequestQuotaManager
from tests.quotas.load import MINUTE_MS, Limit, Load, worst_minutes
from tests.quotas.scene import Connection

SECONDS = 90
TOLERANCE = 0.03

Schedule = Callable[[int, float], Iterator[tuple[int, float]]]
"""From the interval of changes in ms and an initial limit: the times and values of the limit."""


def by_one(every_ms: int, base: float) -> Iterator[tuple[int, float]]:
    """Raises the limit step by step, as an automation does."""
    return ((at_ms, base + number) for number, at_ms in enumerate(range(0, SECONDS * 1_000, every_ms)))


def down_by_one(every_ms: int, base: float) -> Iterator[tuple[int, float]]:
    return ((at_ms, max(2 * base - rise, base / 2)) for at_ms, rise in by_one(every_ms, 0))


def to_and_fro(every_ms: int, base: float) -> Iterator[tuple[int, float]]:
    times = range(0, SECONDS * 1_000, every_ms)
    return ((at_ms, base * 10 if number % 2 else base) for number, at_ms in enumerate(times))


def at_random(every_ms: int, base: float) -> Iterator[tuple[int, float]]:
    dice = random.Random(7)
    return ((at_ms, base * dice.uniform(0.5, 4)) for at_ms in range(0, SECONDS * 1_000, every_ms))


def manager_of(algorithm: str, kind: QuotaKind) -> RateQuotaManager:
    if algorithm == "token_bucket":
        return BucketQuotaManager(kind, burst_ms=1_000)
    return RateQuotaManager(kind, paced=True)


SCHEDULES = [by_one, down_by_one, to_and_fro, at_random]
RATES = {"1 a second": 1_000, "200 a second": 5}
ALGORITHMS = ["paced", "token_bucket"]
KINDS = [QuotaKind.PRODUCE, QuotaKind.FETCH]
CLIENTS: dict[str, tuple[float, list[int]]] = {
    "1 x 100 B": (10_000, [100]),
    "4 x 1 kB": (50_000, [1_000] * 4),
    "8 x 16 kB": (50_000, [16_384] * 8),
    "2 x 1 MB and 20 kB": (5_000_000, [1_000_000] * 2 + [20_000]),
}


def combinations() -> Iterator[Any]:
    """All of them, of which 16 have every pair of values in them; the others are slow."""
    for at in itertools.product(range(4), range(2), range(2), range(2), range(4)):
        schedule, rate, algorithm, kind, clients = at
        is_one_of_the_16 = (rate, algorithm, kind) == (
            (schedule + clients) % 2,
            (schedule // 2 + clients) % 2,
            (schedule + clients // 2) % 2,
        )
        every, sizes = list(RATES)[rate], list(CLIENTS)[clients]
        yield pytest.param(
            SCHEDULES[schedule],
            RATES[every],
            ALGORITHMS[algorithm],
            KINDS[kind],
            *CLIENTS[sizes],
            id=f"{SCHEDULES[schedule].__name__}-{every}-{ALGORITHMS[algorithm]}-{KINDS[kind].value}-{sizes}",
            marks=() if is_one_of_the_16 else pytest.mark.slow,
        )


@pytest.mark.parametrize(("schedule", "every_ms", "algorithm", "kind", "base", "sizes"), list(combinations()))
def test_the_bytes_of_any_minute_are_the_integral_of_the_limit(
    schedule: Schedule, every_ms: int, algorithm: str, kind: QuotaKind, base: float, sizes: list[int]
) -> None:
    manager = manager_of(algorithm, kind)
    limit = Limit(SECONDS)
    changes = limit.steps(schedule(every_ms, base), lambda value, now: _set(manager, value, now))
    load = Load(manager, sizes, seconds=SECONDS, is_fetch=kind is QuotaKind.FETCH)
    load.run(changes)
    above, below = worst_minutes(load, limit)
    assert above <= TOLERANCE
    assert below <= TOLERANCE


def _set(manager: RateQuotaManager, value: float, now_ms: int) -> None:
    manager.set_bound("alice", None, value, now_ms)


def test_four_clients_under_a_limit_that_is_raised_by_one_each_second_get_the_limit() -> None:
    """50,000 bytes a second and one more each second: 3,001,770 in the first minute."""
    manager = manager_of("paced", QuotaKind.PRODUCE)
    limit = Limit(SECONDS)
    changes = limit.steps(by_one(1_000, 50_000), lambda value, now: _set(manager, value, now))
    load = Load(manager, [1_000] * 4, seconds=SECONDS)
    load.run(changes)
    assert limit.allowed(0, MINUTE_MS) == pytest.approx(3_001_770)
    assert load.through(0, MINUTE_MS) == 3_006_000


@pytest.mark.parametrize(
    ("algorithm", "every_ms", "particular"),
    [
        pytest.param(
            ALGORITHMS[algorithm],
            [1_000, 5][rate],
            [20_000, 50_000, 100_000][limit],
            marks=() if (algorithm + rate + limit) % 2 else pytest.mark.slow,
        )
        for algorithm, rate, limit in itertools.product(range(2), range(2), range(3))
    ],
)
def test_clients_that_are_moved_to_a_more_particular_rule_and_back_get_what_governs_them(
    algorithm: str, every_ms: int, particular: float
) -> None:
    """The specific rule's limit applies while it exists, the user's otherwise."""
    manager = manager_of(algorithm, QuotaKind.PRODUCE)
    manager.set_bound("alice", None, 50_000, BASE_MS)
    clients = [Connection(id=str(number), principal="alice", client_id="app") for number in range(4)]
    limit = Limit(SECONDS)

    def put(value: float, now_ms: int) -> None:
        manager.set_bound("alice", "app", None if value == 50_000.5 else particular, now_ms)
        run_through(manager.recheck_clients([(each.principal, each.client_id) for each in clients], now_ms))

    times = range(0, SECONDS * 1_000, every_ms)
    values = [(at_ms, particular if number % 2 else 50_000.5) for number, at_ms in enumerate(times)]
    load = Load(manager, [1_000] * 4, seconds=SECONDS, clients=clients)
    load.run(limit.steps(values, put))
    above, below = worst_minutes(load, limit)
    assert above <= TOLERANCE
    assert below <= TOLERANCE


@pytest.mark.parametrize("algorithm", ["paced", "token_bucket"])
@pytest.mark.parametrize("rule", [("alice", DEFAULT), (DEFAULT, "app"), (DEFAULT, DEFAULT), (None, "app")])
def test_a_rule_of_any_level_that_changes_is_followed(algorithm: str, rule: tuple[Name, Name]) -> None:
    manager = manager_of(algorithm, QuotaKind.PRODUCE)
    limit = Limit(SECONDS)
    changes = limit.steps(at_random(1_000, 50_000), lambda value, now: manager.set_bound(*rule, value, now))
    load = Load(manager, [1_000] * 4, seconds=SECONDS)
    load.run(changes)
    above, below = worst_minutes(load, limit)
    assert above <= TOLERANCE
    assert below <= TOLERANCE


def test_each_of_those_that_a_default_rule_stands_for_gets_its_limit() -> None:
    manager = manager_of("paced", QuotaKind.PRODUCE)
    limit = Limit(SECONDS)
    changes = limit.steps(
        at_random(1_000, 50_000), lambda value, now: manager.set_bound(DEFAULT, None, value, now)
    )
    clients = [Connection(principal=user, client_id="app") for user in ("alice", "bob", "carol")]
    load = Load(manager, [1_000] * 3, seconds=SECONDS, clients=clients)
    load.run(changes)
    assert load.through(0, MINUTE_MS) / 3 == pytest.approx(limit.allowed(0, MINUTE_MS), rel=0.002)


def held_for(manager: RateQuotaManager, wait_ms: int) -> Connection:
    """A client that exceeded 1,000 a second by this amount, throttled since BASE_MS."""
    client = Connection(principal="alice", client_id="app")
    manager.set_bound("alice", None, 1_000, BASE_MS)
    throttle = manager.record("alice", "app", 10_000 + wait_ms, BASE_MS)
    assert throttle is not None and throttle.throttle_ms == wait_ms
    manager.throttle(client, client, throttle, BASE_MS)
    return client


def left_ms(manager: RateQuotaManager, now_ms: int) -> int:
    (row,) = manager.throttled.rows(now_ms)
    return row.remaining_ms


def test_the_same_limit_again_changes_nothing_at_all() -> None:
    manager = manager_of("paced", QuotaKind.PRODUCE)
    held_for(manager, 4_000)
    sensor, (throttled,) = manager.find("alice", "app"), manager.throttled.all()
    assert sensor is not None
    changes: list[int] = []
    pace = sensor.pace
    manager.throttled.on_deadline = changes.append
    before = (throttled.end_ms, throttled.due_ms, throttled.serial, throttled.bound)
    for passed_ms in (0, 1, 3_999):
        manager.set_bound("alice", None, 1_000, BASE_MS + passed_ms)
    assert (throttled.end_ms, throttled.due_ms, throttled.serial, throttled.bound) == before
    assert (sensor.pace is pace, changes, manager.has_new_rules) == (True, [], True)
    assert manager.throttled.expired(BASE_MS + 3_999) == []
    assert len(manager.throttled.expired(BASE_MS + 4_000)) == 1


def test_the_row_shows_the_limit_and_the_rule_that_hold_the_client_now() -> None:
    manager = manager_of("paced", QuotaKind.PRODUCE)
    held_for(manager, 4_000)
    manager.set_bound("alice", "app", 500, BASE_MS + 1_000)
    (row,) = manager.throttled.rows(BASE_MS + 1_000)
    assert (row.bound, str(row.entity), row.remaining_ms) == (500, "user alice client-id app", 6_000)
    assert (row.observed, row.throttle_ms, row.since_ms) == (1_400, 7_000, 1_000)


@pytest.mark.parametrize(("longest_ms", "left"), [(5_999, 4_999), (6_000, 5_000), (7_001, 6_000)])
def test_a_wait_that_becomes_longer_is_cut_to_the_longest_throttle(longest_ms: int, left: int) -> None:
    manager = RateQuotaManager(QuotaKind.PRODUCE, longest_ms=longest_ms, paced=True)
    held_for(manager, 4_000)
    for _ in range(3):
        manager.set_bound("alice", None, 500, BASE_MS + 1_000)
        assert left_ms(manager, BASE_MS + 1_000) == left
        manager.set_bound("alice", None, 499.9999, BASE_MS + 1_000)


def test_a_throttle_before_the_longest_throttle_was_lowered_is_not_shortened() -> None:
    manager = manager_of("paced", QuotaKind.PRODUCE)
    held_for(manager, 4_000)
    manager.longest_ms = 2_000
    manager.set_bound("alice", None, 500, BASE_MS + 1_000)
    assert left_ms(manager, BASE_MS + 1_000) == 3_000
    manager.set_bound("alice", None, 1_000, BASE_MS + 2_000)
    assert left_ms(manager, BASE_MS + 2_000) == 1_000


def test_a_limit_that_is_removed_frees_at_once_and_set_again_finds_the_debt() -> None:
    manager = manager_of("paced", QuotaKind.PRODUCE)
    client = held_for(manager, 4_000)
    manager.set_bound("alice", None, None, BASE_MS + 1_000)
    assert manager.throttled.expired(BASE_MS + 1_000) == [client]
    assert manager.record("alice", "app", 5_000, BASE_MS + 1_000) is None
    manager.set_bound("alice", None, 2_000, BASE_MS + 5_000)
    owing = manager.record("alice", "app", 0, BASE_MS + 5_000)
    # Of 14,000, 5 s at the former limit are repaid.
    assert owing is not None and owing.throttle_ms == 4_500


def test_a_client_that_goes_to_a_rule_of_their_own_takes_along_their_share_of_the_debt() -> None:
    """Four connections owe 54,000 together; one leaves with a quarter of it, and the others owe the rest."""
    manager = manager_of("paced", QuotaKind.PRODUCE)
    manager.set_bound("alice", None, 1_000, BASE_MS)
    clients = [Connection(id=name, principal="alice", client_id=name) for name in "abcd"]
    for client in clients:
        throttle = manager.record("alice", client.client_id, 13_500, BASE_MS)
        assert throttle is not None
        manager.throttle(client, client, throttle, BASE_MS)
    manager.set_bound("alice", "d", 2_000, BASE_MS)
    run_through(manager.recheck_clients([("alice", name) for name in "abcd"], BASE_MS))
    waits = {row.connection_id: row.remaining_ms for row in manager.throttled.rows(BASE_MS)}
    assert waits == {"a": 3_500, "b": 13_500, "c": 27_000, "d": 6_750}
    for name, wait_ms in (("a", 40_500), ("d", 6_750)):
        owing = manager.record("alice", name, 0, BASE_MS)
        assert owing is not None and owing.throttle_ms == wait_ms


@pytest.mark.parametrize(("used", "wait_ms"), [(1_000, 0), (5_000, 0), (5_001, 1), (9_000, 2_000)])
def test_only_use_beyond_the_limit_moves_to_another_rule(used: int, wait_ms: int) -> None:
    """5,000 are allowed in 5 s. A client that used no more starts under the other rule as in Kafka."""
    manager = manager_of("paced", QuotaKind.PRODUCE)
    manager.set_bound("alice", None, 1_000, BASE_MS)
    assert manager.record("alice", "app", used, BASE_MS) is None
    manager.set_bound("alice", "app", 2_000, BASE_MS + 5_000)
    run_through(manager.recheck_clients([("alice", "app")], BASE_MS + 5_000))
    throttle = manager.record("alice", "app", 20_000, BASE_MS + 5_000)
    assert (0 if throttle is None else throttle.throttle_ms) == wait_ms
    again = manager.record("alice", "app", 0, BASE_MS + 5_000)
    assert (again is None) is (used <= 5_000)


def test_the_others_of_a_rule_that_no_client_broke_keep_their_burst_when_one_leaves() -> None:
    manager = manager_of("paced", QuotaKind.PRODUCE)
    manager.set_bound("alice", None, 1_000, BASE_MS)
    for name in "ab":
        assert manager.record("alice", name, 4_000, BASE_MS) is None
    manager.set_bound("alice", "b", 2_000, BASE_MS)
    run_through(manager.recheck_clients([("alice", "a"), ("alice", "b")], BASE_MS))
    assert manager.record("alice", "a", 2_000, BASE_MS) is None
    assert manager.record("alice", "b", 0, BASE_MS) is not None


@pytest.mark.parametrize(
    ("changed", "left"),
    [(25, 2_000), (49, 1_020), (50, 1_000), (100, 500), (110, 0), (None, 0)],
)
def test_request_time_is_waited_for_one_window_at_most_under_any_limit(
    changed: float | None, left: int
) -> None:
    """5.5 s of a thread's time are 55 % over ten seconds, of which 50 % allow all but one second."""
    manager = RequestQuotaManager()
    client = Connection(principal="alice", client_id="app")
    manager.set_bound("alice", None, 50, BASE_MS)
    throttle = manager.record_handled("alice", "app", 11_000_000_000, BASE_MS)
    assert throttle is not None and throttle.throttle_ms == 1_000
    manager.throttle(client, client, throttle, BASE_MS)
    manager.set_bound("alice", None, changed, BASE_MS)
    assert left_ms(manager, BASE_MS) == min(left, 1_000)


def test_the_rest_of_a_wait_for_mutations_is_repaid_under_the_changed_limit() -> None:
    manager = MutationQuotaManager()
    client = Connection(principal="alice", client_id="app")
    manager.set_bound("alice", None, 1, BASE_MS)
    quota = manager.quota_for("alice", "app", BASE_MS, strict=False)
    quota.record(31, BASE_MS)
    throttle = quota.throttle(BASE_MS)
    assert throttle is not None and throttle.throttle_ms == 20_000
    manager.throttle(client, client, throttle, BASE_MS)
    manager.set_bound("alice", None, 2, BASE_MS + 10_000)
    assert manager.throttled.rows(BASE_MS + 10_000)[0].remaining_ms == 5_000
    manager.set_bound("alice", None, 0.5, BASE_MS + 12_000)
    assert manager.throttled.rows(BASE_MS + 12_000)[0].remaining_ms == 12_000
    sensor = manager.find("alice", "app")
    assert sensor is not None and sensor.bucket.measure(BASE_MS + 12_000) == -6


def test_two_hundred_changes_a_second_leave_no_pile_of_former_ends() -> None:
    manager = manager_of("paced", QuotaKind.PRODUCE)
    held_for(manager, 60_000)
    for number in range(10_000):
        manager.set_bound("alice", None, 1_000 + number % 2, BASE_MS + number * 5)
    assert len(manager.throttled._queue) <= 2 + 256
    # 50,020 were repaid in 49,995 ms, and 1,001 a second repays the rest.
    assert left_ms(manager, BASE_MS + 50_000) == 9_965
