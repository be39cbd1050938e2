"""When an alert is pending, fires and is resolved, to the millisecond and to the value."""

import pytest

from broker.controller.rows.alerts import Labels
from broker.metadata.alerts import AlertCondition, AlertRule
from broker.monitoring.alerts.evaluation import MAX_ALERTS, AlertTransition, AtLeast, RuleState

ORDERS: Labels = (("group", "orders"),)
WALL = 1_000_000


class Watch:
    """One rule whose only subject has a value at each time."""

    def __init__(self, **rule: object) -> None:
        self.rule = AlertRule(AlertCondition.LAG, 100.0, **rule)  # type: ignore[arg-type]
        self.state = RuleState()

    def at(self, now_ms: int, value: float | None) -> list[AlertTransition]:
        observed = {} if value is None else {ORDERS: value}
        return self.state.step(self.rule, observed, now_ms, WALL + now_ms)

    @property
    def shown(self) -> str:
        if not self.state.alerts:
            return "none"
        return "firing" if self.state.firing else "pending"


@pytest.mark.parametrize(("value", "shown"), [(99.0, "none"), (100.0, "none"), (100.001, "firing")])
def test_a_value_above_the_threshold_fires(value: float, shown: str) -> None:
    watch = Watch()
    fired = watch.at(0, value)
    assert watch.shown == shown
    assert fired == ([AlertTransition(ORDERS, value, WALL, None)] if shown == "firing" else [])


@pytest.mark.parametrize(("after_ms", "shown"), [(29_999, "pending"), (30_000, "firing"), (30_001, "firing")])
def test_a_value_must_hold_for_its_duration(after_ms: int, shown: str) -> None:
    watch = Watch(for_ms=30_000)
    assert watch.at(0, 101.0) == [] and watch.shown == "pending"
    fired = watch.at(after_ms, 150.0)
    assert watch.shown == shown
    assert [(each.value, each.fired_at_ms) for each in fired] == (
        [(150.0, WALL + after_ms)] if shown == "firing" else []
    )


def test_a_gap_begins_the_duration_anew() -> None:
    watch = Watch(for_ms=30_000)
    watch.at(0, 101.0)
    assert watch.at(20_000, 100.0) == [] and watch.shown == "none"
    watch.at(21_000, 101.0)
    assert watch.at(50_999, 101.0) == [] and watch.shown == "pending"
    assert len(watch.at(51_000, 101.0)) == 1


def test_an_alert_fires_once_and_is_resolved_once() -> None:
    watch = Watch()
    assert len(watch.at(0, 200.0)) == 1
    assert watch.at(5_000, 300.0) == []
    assert watch.at(10_000, 100.0) == [AlertTransition(ORDERS, 100.0, WALL, WALL + 10_000)]
    assert watch.at(15_000, 100.0) == [] and watch.shown == "none"


@pytest.mark.parametrize(("value", "shown"), [(81.0, "firing"), (80.0, "none"), (79.0, "none")])
def test_below_the_threshold_an_alert_fires_on_until_it_is_clear(value: float, shown: str) -> None:
    watch = Watch(clear=80.0)
    watch.at(0, 101.0)
    watch.at(5_000, value)
    assert watch.shown == shown


@pytest.mark.parametrize(("after_ms", "shown"), [(59_999, "firing"), (60_000, "none"), (60_001, "none")])
def test_it_must_be_clear_for_a_while(after_ms: int, shown: str) -> None:
    watch = Watch(clear=80.0, resolve_after_ms=60_000)
    watch.at(0, 101.0)
    assert watch.at(10_000, 70.0) == []
    watch.at(10_000 + after_ms, 70.0)
    assert watch.shown == shown


def test_a_relapse_begins_that_while_anew() -> None:
    watch = Watch(clear=80.0, resolve_after_ms=60_000)
    watch.at(0, 101.0)
    watch.at(10_000, 70.0)
    assert watch.at(40_000, 90.0) == []
    watch.at(50_000, 70.0)
    assert watch.at(109_999, 70.0) == []
    assert watch.at(110_000, 70.0) == [AlertTransition(ORDERS, 70.0, WALL, WALL + 110_000)]


def test_a_subject_that_is_gone_counts_as_zero() -> None:
    watch = Watch()
    watch.at(0, 101.0)
    assert watch.at(5_000, None) == [AlertTransition(ORDERS, 0.0, WALL, WALL + 5_000)]


def unknown_since(watch: Watch) -> int | None:
    (alert,) = watch.state.alerts
    return alert.unknown_since_at_ms


@pytest.mark.parametrize("least", [0.0, 79.0, 80.0])
def test_an_unknown_value_resolves_nothing_and_the_alert_keeps_the_last_known_one(least: float) -> None:
    watch = Watch(clear=80.0)
    watch.at(0, 150.0)
    for now_ms in (5_000, 600_000):
        assert watch.at(now_ms, AtLeast(least)) == [] and watch.shown == "firing"
        assert [alert.value for alert in watch.state.alerts] == [150.0]
        assert unknown_since(watch) == WALL + 5_000
    assert watch.at(605_000, 80.0) == [AlertTransition(ORDERS, 80.0, WALL, WALL + 605_000)]


def test_a_value_that_is_known_to_exceed_is_as_good_as_a_known_one() -> None:
    watch = Watch(clear=80.0)
    assert watch.at(0, AtLeast(100.0)) == [] and watch.shown == "none"
    assert watch.at(1_000, AtLeast(100.5)) == [AlertTransition(ORDERS, 100.5, WALL + 1_000, None)]
    watch.at(2_000, AtLeast(80.5))
    (alert,) = watch.state.alerts
    assert (alert.value, alert.unknown_since_at_ms) == (80.5, None)
    assert type(alert.value) is float and type(watch.state.value) is float


def test_an_unknown_value_is_not_calm() -> None:
    watch = Watch(resolve_after_ms=60_000)
    watch.at(0, 101.0)
    watch.at(10_000, 70.0)
    watch.at(40_000, AtLeast(0.0))
    assert watch.at(70_000, 70.0) == [] and unknown_since(watch) is None
    assert watch.at(129_999, 70.0) == []
    assert len(watch.at(130_000, 70.0)) == 1


def test_a_pending_alert_waits_for_a_known_value() -> None:
    watch = Watch(for_ms=30_000)
    watch.at(0, 101.0)
    assert watch.at(30_000, AtLeast(100.0)) == [] and watch.shown == "pending"
    assert unknown_since(watch) == WALL + 30_000
    assert len(watch.at(31_000, 101.0)) == 1
    other = Watch(for_ms=30_000)
    other.at(0, 101.0)
    other.at(30_000, AtLeast(0.0))
    assert other.at(31_000, 100.0) == [] and other.shown == "none"


def test_where_not_all_was_observed_what_is_missing_is_unknown() -> None:
    watch = Watch()
    watch.at(0, 101.0)
    assert watch.state.step(watch.rule, {}, 5_000, WALL + 5_000, AtLeast(0)) == []
    assert unknown_since(watch) == WALL + 5_000
    assert watch.at(6_000, None) == [AlertTransition(ORDERS, 0.0, WALL, WALL + 6_000)]


def test_the_end_of_a_rule_resolves_what_fires_and_forgets_what_is_pending() -> None:
    firing, pending = Watch(), Watch(for_ms=1)
    firing.at(0, 101.0)
    pending.at(0, 101.0)
    assert firing.state.end(WALL + 7) == [AlertTransition(ORDERS, 101.0, WALL, WALL + 7)]
    assert pending.state.end(WALL + 7) == []
    assert (firing.shown, pending.shown) == ("none", "none")


@pytest.mark.parametrize("count", [MAX_ALERTS - 1, MAX_ALERTS, MAX_ALERTS + 1])
def test_the_highest_values_are_tracked(count: int) -> None:
    watch = Watch()
    observed = {(("group", f"g{number}"),): 101.0 + number for number in range(count)}
    fired = watch.state.step(watch.rule, observed, 0, WALL)
    assert len(fired) == min(count, MAX_ALERTS)
    assert watch.state.unlisted == max(0, count - MAX_ALERTS)
    assert min(each.value for each in fired) == 101.0 + max(0, count - MAX_ALERTS)
    assert watch.state.value == 100.0 + count


def test_one_that_is_tracked_stays_tracked() -> None:
    watch = Watch()
    watch.at(0, 101.0)
    others: dict[Labels, float] = {(("group", f"g{number}"),): 1e6 for number in range(MAX_ALERTS)}
    fired = watch.state.step(watch.rule, {ORDERS: 101.0, **others}, 1, WALL)
    assert len(fired) == MAX_ALERTS - 1 and watch.state.unlisted == 1
    assert ORDERS in [alert.labels for alert in watch.state.alerts]


class LowWatch(Watch):
    """A rule that fires below 20."""

    def __init__(self, **rule: object) -> None:
        super().__init__()
        self.rule = AlertRule(AlertCondition.NETWORK_IDLE, 20.0, **rule)  # type: ignore[arg-type]


@pytest.mark.parametrize(("value", "shown"), [(20.001, "none"), (20.0, "none"), (19.999, "firing")])
def test_a_value_below_the_threshold_of_an_idle_share_fires(value: float, shown: str) -> None:
    watch = LowWatch()
    watch.at(0, value)
    assert (watch.shown, watch.state.value) == (shown, value)


@pytest.mark.parametrize(("value", "shown"), [(39.9, "firing"), (40.0, "none"), (40.1, "none")])
def test_above_the_threshold_it_fires_on_until_it_is_clear(value: float, shown: str) -> None:
    watch = LowWatch(clear=40.0)
    watch.at(0, 19.0)
    watch.at(5_000, value)
    assert watch.shown == shown


def test_a_low_value_must_hold_and_its_end_too() -> None:
    watch = LowWatch(for_ms=30_000, resolve_after_ms=10_000)
    watch.at(0, 10.0)
    assert watch.at(29_999, 10.0) == [] and watch.shown == "pending"
    assert watch.at(30_000, 11.0) == [AlertTransition(ORDERS, 11.0, WALL + 30_000, None)]
    assert watch.at(31_000, 50.0) == [] and watch.shown == "firing"
    assert watch.at(41_000, 60.0) == [AlertTransition(ORDERS, 60.0, WALL + 30_000, WALL + 41_000)]


def test_of_low_values_a_subject_that_is_gone_is_resolved() -> None:
    watch = LowWatch()
    watch.at(0, 10.0)
    assert watch.at(5_000, None) == [AlertTransition(ORDERS, 20.0, WALL, WALL + 5_000)]


@pytest.mark.parametrize("below", [False, True])
def test_a_rule_for_throughput_can_watch_either_side(below: bool) -> None:
    rule = AlertRule(AlertCondition.BYTES_IN, 1_000.0, below=below)
    for value, fires_above in ((999.0, False), (1_000.0, None), (1_001.0, True)):
        state = RuleState()
        state.step(rule, {ORDERS: value}, 0, WALL)
        assert bool(state.firing) is (fires_above is not None and fires_above is not below)


def test_of_low_values_the_lowest_are_tracked() -> None:
    watch = LowWatch()
    observed = {(("group", f"g{number}"),): number / 100 for number in range(MAX_ALERTS + 1)}
    fired = watch.state.step(watch.rule, observed, 0, WALL)
    assert (len(fired), watch.state.unlisted) == (MAX_ALERTS, 1)
    assert max(each.value for each in fired) == 0.99
