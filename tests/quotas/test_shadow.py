"""Shadow mode: limits that are measured and not enforced."""

import random
from collections.abc import Callable
from itertools import pairwise
from sys import float_info
from typing import Final

import pytest

from broker.common.errors import ApiError
from broker.common.slices import run_through
from broker.quotas.bandwidth import RateQuotaManager
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.entity import DEFAULT, Entity, Name
from broker.quotas.kinds import KEY_OF, QuotaKind
from broker.quotas.mutation import MutationQuotaManager
from broker.quotas.quota_metrics import shadow_families
from broker.quotas.request import RequestQuotaManager
from broker.quotas.table import ShadowTotal
from broker.quotas.usage import IDLE_MS, ShadowCount
from tests.quotas.scene import Connection, Scene
from tests.support.clock import ManualClock

CLIENT = ("alice", "app")
RuleKey = tuple[Name, Name]


def shadowed(manager: RateQuotaManager, rule: RuleKey = CLIENT, bound: float = 1_000) -> Scene:
    scene = Scene(manager)
    scene.limit(*rule, bound)
    manager.set_shadow(*rule, is_shadow=True)
    return scene


LATER_MS: Final = 10**12
"""After all throttles."""


def figures(
    manager: RateQuotaManager | MutationQuotaManager, rule: RuleKey = CLIENT
) -> tuple[int, int, int | None]:
    total = manager.shadows[rule]
    return total.times, total.throttled.at(LATER_MS), total.last_ms


@pytest.mark.parametrize(
    ("size", "expected"), [(9_999, (0, 0, None)), (10_000, (0, 0, None)), (11_000, (1, 1_000, 0))]
)
def test_violations_are_counted_and_let_through(size: int, expected: tuple[int, int, int | None]) -> None:
    scene = shadowed(RateQuotaManager(QuotaKind.PRODUCE))
    scene.clock = ManualClock(0)
    assert scene.record(*CLIENT, size) == 0
    assert figures(scene.manager) == expected


def test_throttles_of_several_clients_are_counted_by_client_and_together() -> None:
    total = ShadowTotal()
    one, other = ShadowCount(total), ShadowCount(total)
    one.note(1_000, 5_000)
    other.note(1_000, 5_400)
    assert (one.times, other.times, total.times, total.last_ms) == (1, 1, 2, 5_400)
    for now_ms, expected in [
        (5_700, (700, 300, 700)),
        (6_200, (1_000, 800, 1_200)),
        (9_000, (1_000, 1_000, 1_400)),
    ]:
        assert tuple(each.throttled.at(now_ms) for each in (one, other, total)) == expected


@pytest.mark.parametrize("paced", [True, False])
def test_the_time_of_a_client_far_over_its_limit_grows_as_fast_as_time(paced: bool) -> None:
    scene = shadowed(RateQuotaManager(QuotaKind.PRODUCE, paced=paced))
    scene.clock = ManualClock(0)
    scene.record(*CLIENT, 100_000)
    for _ in range(100):
        scene.clock.advance(100)
        scene.record(*CLIENT, 10_000)
        assert scene.manager.shadows[CLIENT].throttled.at(scene.clock.ms()) == scene.clock.ms()


def union_ms(waits: list[tuple[int, int]]) -> int:
    """Return the total time that at least one wait covers."""
    ends = sorted({end for at, wait_ms in waits for end in (at, at + wait_ms)})
    longest = max(wait_ms for _, wait_ms in waits)
    covered = 0
    for low, high in pairwise(ends):
        near = [wait for wait in waits if low - longest <= wait[0] <= low]
        covered += (high - low) * any(at + wait_ms >= high for at, wait_ms in near)
    return covered


@pytest.mark.parametrize("paced", [True, False])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "build",
    [
        lambda paced: RateQuotaManager(QuotaKind.PRODUCE, paced=paced),
        lambda paced: RateQuotaManager(QuotaKind.FETCH, longest_ms=700, paced=paced),
        lambda _: RequestQuotaManager(),
    ],
)
def test_the_verdicts_are_those_that_enforcing_gives_for_the_same_records(
    build: Callable[[bool], RateQuotaManager], paced: bool, seed: int
) -> None:
    chance = random.Random(seed)
    shadow, enforced = shadowed(build(paced)), Scene(build(paced))
    enforced.limit(*CLIENT, 1_000)
    shadow.clock = enforced.clock = ManualClock(0)
    waits = []
    for _ in range(300):
        shadow.clock.advance(chance.choice((0, 1, 40, 300, 2_500)))
        value = chance.uniform(0, 3_000)
        wait_ms = enforced.record(*CLIENT, value)
        assert shadow.record(*CLIENT, value) == 0
        if wait_ms:
            waits.append((shadow.clock.ms(), wait_ms))
    assert waits
    assert figures(shadow.manager) == (len(waits), union_ms(waits), waits[-1][0])


@pytest.mark.parametrize("seed", range(6))
def test_mutations_are_judged_as_enforcing_would_and_none_is_refused(seed: int) -> None:
    chance = random.Random(seed)
    clock = ManualClock(0)
    shadow, enforced = MutationQuotaManager(), MutationQuotaManager()
    for manager in (shadow, enforced):
        manager.set_bound(*CLIENT, 2)
    shadow.set_shadow(*CLIENT, is_shadow=True)
    refused = waits = 0
    for _ in range(200):
        clock.advance(chance.choice((0, 10, 900, 4_000)))
        strict, partitions = chance.random() < 0.5, chance.randint(1, 12)
        quota = enforced.quota_for(*CLIENT, clock.ms(), strict=strict)
        try:
            quota.record(partitions, clock.ms())
        except ApiError:
            refused += 1
        waits += quota.throttle(clock.ms()) is not None
        unbound = shadow.quota_for(*CLIENT, clock.ms(), strict=strict)
        unbound.record(partitions, clock.ms())
        assert unbound.throttle(clock.ms()) is None
        assert not unbound.is_exceeded
        assert figures(shadow)[0] == waits
    assert 0 < refused < waits


def test_mutations_that_enforcement_would_refuse_are_in_the_rate() -> None:
    manager, now_ms = MutationQuotaManager(), 1_000
    manager.set_bound(*CLIENT, 1)
    manager.set_shadow(*CLIENT, is_shadow=True)
    for _ in range(3):
        manager.quota_for(*CLIENT, now_ms, strict=True).record(20, now_ms)
    sensor = manager.find(*CLIENT)
    assert sensor is not None
    assert (sensor.observed(now_ms), sensor.bucket.measure(now_ms)) == (6.0, -9.0)
    assert figures(manager) == (2, 9_000, now_ms)


def test_a_rule_in_shadow_matches_like_any_other() -> None:
    scene = shadowed(RateQuotaManager(QuotaKind.PRODUCE), ("alice", None))
    scene.limit(DEFAULT, None, 10)
    assert scene.manager.bound(*CLIENT) == 1_000
    assert scene.manager.resolve(*CLIENT).matched == Entity("alice")
    assert scene.record(*CLIENT, 5_000) == 0
    assert scene.record("bob", "app", 5_000) > 0


def test_a_default_rule_counts_for_each_name_and_together() -> None:
    scene = shadowed(RateQuotaManager(QuotaKind.PRODUCE), (DEFAULT, None))
    for user, times in (("alice", 1), ("bob", 2)):
        for _ in range(times):
            scene.record(user, "app", 11_000)
    counts = {each.user: each.shadow.times for each in scene.manager.sensors() if each.shadow is not None}
    assert counts == {"alice": 1, "bob": 2}
    assert scene.manager.shadows[DEFAULT, None].times == 3


def test_a_fetch_in_shadow_is_not_cut() -> None:
    scene = shadowed(RateQuotaManager(QuotaKind.FETCH))
    manager, now_ms = scene.manager, scene.clock.ms()
    assert manager.max_value_in_window(*CLIENT, now_ms) == float_info.max
    manager.set_shadow(*CLIENT, is_shadow=False)
    assert manager.max_value_in_window(*CLIENT, now_ms) == 10_000


def test_a_client_throttled_by_a_rule_is_freed_when_it_goes_into_shadow() -> None:
    scene = Scene(RateQuotaManager(QuotaKind.PRODUCE))
    manager = scene.manager
    scene.limit("alice", None, 1_000)
    scene.limit("bob", None, 1_000)
    throttled = {}
    for user in ("alice", "bob"):
        throttle = manager.record(user, "app", 11_000, scene.clock.ms())
        assert throttle is not None
        throttled[user] = Connection(id=user, principal=user, client_id="app")
        manager.throttle(throttled[user], user, throttle, scene.clock.ms())
    manager.set_shadow("alice", None, is_shadow=True)
    assert manager.throttled.expired(scene.clock.ms()) == ["alice"]
    assert len(manager.throttled) == 1


def test_a_more_specific_rule_in_shadow_releases_clients_that_the_other_throttled() -> None:
    scene = Scene(RateQuotaManager(QuotaKind.PRODUCE))
    manager = scene.manager
    scene.limit("alice", None, 1_000)
    throttle = manager.record(*CLIENT, 11_000, scene.clock.ms())
    assert throttle is not None
    manager.throttle(Connection(principal="alice", client_id="app"), "token", throttle, scene.clock.ms())
    manager.set_shadow(*CLIENT, is_shadow=True)
    assert manager.throttled.pop_expired(scene.clock.ms()) is None
    scene.limit(*CLIENT, 10)
    assert manager.throttled.pop_expired(scene.clock.ms()) == "token"


@pytest.mark.parametrize("paced", [True, False])
def test_enforced_again_a_rule_begins_like_a_new_one(paced: bool) -> None:
    scene = shadowed(RateQuotaManager(QuotaKind.PRODUCE, paced=paced))
    for _ in range(20):
        scene.record(*CLIENT, 50_000)
    scene.manager.set_shadow(*CLIENT, is_shadow=False)
    assert scene.manager.shadows == {}
    assert scene.record(*CLIENT, 10_000) == 0
    assert scene.record(*CLIENT, 1_000) == 1_000


def test_the_rules_total_outlives_its_sensors_and_ends_with_the_mark() -> None:
    scene = shadowed(RateQuotaManager(QuotaKind.PRODUCE))
    scene.record(*CLIENT, 11_000)
    scene.clock.advance(IDLE_MS + 1)
    assert run_through(scene.manager.expire(scene.clock.ms())) == 1
    scene.record(*CLIENT, 11_000)
    assert scene.manager.shadows[CLIENT].times == 2
    scene.manager.set_shadow(*CLIENT, is_shadow=False)
    scene.manager.set_shadow(*CLIENT, is_shadow=True)
    assert scene.manager.shadows[CLIENT].times == 0


def test_marking_twice_keeps_the_count() -> None:
    scene = shadowed(RateQuotaManager(QuotaKind.PRODUCE))
    scene.record(*CLIENT, 11_000)
    scene.manager.set_shadow(*CLIENT, is_shadow=True)
    scene.record(*CLIENT, 11_000)
    assert scene.manager.shadows[CLIENT].times == 2


def test_a_mark_holds_for_all_kinds_and_is_shown_by_key_and_by_sensor() -> None:
    quotas, alice = ClientQuotas(), Entity("alice")
    quotas.apply(alice, "producer_byte_rate", 1_000)
    quotas.apply(alice, "request_percentage", 1)
    quotas.set_shadow(alice, is_shadow=True)
    assert quotas.record_produce("alice", "app", 11_000, 0) is None
    assert quotas.request.record_handled("alice", "app", 500_000_000, 0) is None
    uses = {
        KEY_OF[kind]: (total.times, total.throttled.at(1_000))
        for kind, manager in quotas.managers.items()
        for total in manager.shadows.values()
    }
    assert uses == {
        "producer_byte_rate": (1, 1_000),
        "consumer_byte_rate": (0, 0),
        "request_percentage": (1, 1_000),
        "controller_mutation_rate": (0, 0),
    }
    shown = {
        family.name: [(sample.labels, sample.value) for sample in family.samples]
        for family in filter(None, shadow_families(quotas, 1_000))
    }
    labels = (("user", "alice"), ("client_id", ""))
    assert shown["kafka_server_produce_shadow_throttles_total"] == [(labels, 1)]
    assert shown["kafka_server_request_shadow_throttle_ms_total"] == [(labels, 1_000)]
    assert shown["kafka_server_fetch_shadow_throttles_total"] == []
    assert len(shown) == 8
