"""Many rules changed by one commit apply to all clients at the same moment, and each step is short."""

from collections.abc import Iterator

import pytest

from broker.common.slices import run_through
from broker.quotas.bandwidth import RateQuotaManager
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.entity import DEFAULT, Entity, Name
from broker.quotas.kinds import QuotaKind
from broker.quotas.usage import MAX_UPDATED_AT_ONCE

BASE_MS = 1_700_000_000_000
KEY = "producer_byte_rate"
MANY = 3 * MAX_UPDATED_AT_ONCE


def limits(count: int, bound: float | None) -> Iterator[tuple[Entity, str, float | None]]:
    return ((Entity(client_id=f"client-{number}"), KEY, bound) for number in range(count))


def used(quotas: ClientQuotas, count: int) -> None:
    for number in range(count):
        quotas.produce.record("alice", f"client-{number}", 1, BASE_MS)


@pytest.mark.parametrize(
    "count", [MAX_UPDATED_AT_ONCE - 1, MAX_UPDATED_AT_ONCE, MAX_UPDATED_AT_ONCE + 1, MANY]
)
def test_a_new_limit_applies_to_all_clients_from_the_first_step_of_the_switch(
    count: int,
) -> None:
    quotas = ClientQuotas()
    run_through(quotas.switch(run_through(quotas.draft(limits(count, 1_000), ())), BASE_MS))
    used(quotas, count)
    names = [f"client-{number}" for number in range(count)]

    def bounds() -> set[float]:
        return {quotas.produce.max_value_in_window("alice", name, BASE_MS) for name in names}

    drafting = quotas.draft(limits(count, 2_000), ())
    for _ in range(count):
        next(drafting)
    assert bounds() == {10_000}
    steps = quotas.switch(run_through(drafting), BASE_MS)
    next(steps, None)
    assert bounds() == {20_000}
    run_through(steps)
    assert bounds() == {20_000}


@pytest.mark.parametrize(
    ("count", "stops"),
    [
        (MAX_UPDATED_AT_ONCE, 0),
        (MAX_UPDATED_AT_ONCE + 1, MAX_UPDATED_AT_ONCE + 1),
        (MANY, MANY),
        (10 * MANY, 10 * MANY),
    ],
)
def test_unused_sensors_follow_one_at_a_time(count: int, stops: int) -> None:
    quotas = ClientQuotas()
    run_through(quotas.switch(run_through(quotas.draft(limits(count, 1_000), ())), BASE_MS))
    used(quotas, count)
    assert len(list(quotas.switch(run_through(quotas.draft(limits(count, 2_000), ())), BASE_MS))) == stops
    assert {each.bound for each in quotas.produce._usage._sensors.values()} == {2_000}


@pytest.mark.parametrize("rule", [(None, DEFAULT), (DEFAULT, None), (DEFAULT, DEFAULT)])
@pytest.mark.parametrize("used_at_ms", [0, 3])
def test_a_sensor_that_follows_later_has_repaid_as_if_it_had_followed_at_once(
    rule: tuple[Name, Name], used_at_ms: int
) -> None:
    """Throttled from BASE_MS on; the limit is halved 1 s later, and the client records after the switch."""
    at_once, later = (RateQuotaManager(QuotaKind.PRODUCE, paced=True) for _ in range(2))
    changed_ms = BASE_MS + 1_000
    for manager in (at_once, later):
        manager.set_bound(*rule, 1_000, BASE_MS)
        assert manager.record("alice", "app", 14_000, BASE_MS) is not None
    at_once.set_bound(*rule, 500, changed_ms)
    draft = later.draft()
    draft.set_bound(rule, 500)
    later.switch(draft, changed_ms)
    expected = at_once.record("alice", "app", 100, changed_ms + used_at_ms)
    assert expected is not None and expected.throttle_ms == 26_000 - used_at_ms
    found = later.record("alice", "app", 100, changed_ms + used_at_ms)
    assert found is not None and found.throttle_ms == expected.throttle_ms
    run_through(later.catch_up())
    again = [each.record("alice", "app", 0, changed_ms + 10) for each in (at_once, later)]
    assert again[0] is not None and again[1] is not None
    assert again[0].throttle_ms == again[1].throttle_ms


def test_a_client_that_is_seen_between_the_steps_counts_as_running_all_the_same() -> None:
    """It sends 100,000 a second. A limit of 1,000 is set, and the client sends before it is adopted."""
    manager = RateQuotaManager(QuotaKind.PRODUCE, paced=True)
    draft = manager.draft()
    draft.set_bound(("alice", None), 1_000)
    manager.switch(draft, BASE_MS)
    assert manager.record("alice", "app", 1_000, BASE_MS) is None
    run_through(manager.catch_up())
    run_through(manager.recheck_clients([("alice", "app")], BASE_MS))
    run_through(manager.adopt([("alice", "app", 100_000.0)], BASE_MS))
    assert manager.record("alice", "app", 1, BASE_MS) is not None


def test_use_in_shadow_is_forgotten_however_many_rules_are_enforced() -> None:
    quotas = ClientQuotas()
    entities = [Entity(client_id=f"client-{number}") for number in range(MANY)]
    marks = [(entity, True) for entity in entities]
    run_through(quotas.switch(run_through(quotas.draft(limits(MANY, 1_000), marks)), BASE_MS))
    for number in range(MANY):
        assert quotas.record_produce("alice", f"client-{number}", 50_000, BASE_MS) is None
    enforced = run_through(quotas.draft((), [(entity, False) for entity in entities]))
    steps = quotas.switch(enforced, BASE_MS)
    next(steps)
    assert quotas.record_produce("alice", "client-100", 10_000, BASE_MS) is None
    assert quotas.record_produce("alice", "client-100", 1, BASE_MS) is not None
    run_through(steps)
    assert quotas.record_produce("alice", "client-100", 1, BASE_MS) is not None, "cleared once"
    assert quotas.record_produce("alice", "client-101", 10_000, BASE_MS) is None
