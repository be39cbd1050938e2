"""A callback that decides which clients share a limit: sensors by tags, limits by callback, and no failure
that reaches a client.
"""

import logging
from math import inf, nan
from typing import Any

import pytest

from broker.common.slices import run_through
from broker.quotas.bandwidth import RateQuotaManager
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.entity import DEFAULT, Entity, TagGroup
from broker.quotas.guarded_callback import LOG_EVERY_MS, GuardedCallback
from broker.quotas.kinds import QuotaKind
from broker.quotas.table import UNLIMITED
from broker.quotas.usage import IDLE_MS
from tests.quotas.callbacks import Scripted
from tests.quotas.scene import Connection, Scene

NAME = "acme.quotas:Groups"


class CustomScene(Scene):
    def __init__(self, max_sensors: int = 100) -> None:
        self.callback = Scripted()
        self.guarded = GuardedCallback(self.callback, NAME, lambda: self.clock.ms())
        kind = QuotaKind.PRODUCE
        super().__init__(RateQuotaManager(kind, max_sensors=max_sensors, callback=self.guarded))

    @property
    def sensors(self) -> dict[str, float]:
        return {str(sensor.group): sensor.bound for sensor in self.manager.sensors()}


@pytest.fixture
def scene() -> CustomScene:
    return CustomScene()


def failing() -> Any:
    raise RuntimeError("broken")


def test_clients_with_the_same_tags_share_one_limit_to_the_number(scene: CustomScene) -> None:
    scene.callback.limits["red"] = 1_000
    assert scene.record("red-1", "a", 10_000) == 0  # 1000 B/s over ten whole windows: at the bound
    assert scene.record("blue-1", "a", 999_999) == 0
    assert scene.record("red-2", "b", 1_000) == 1_000  # 1100 B/s: one second over
    throttle = scene.manager.record("red-3", None, 0, scene.clock.ms())
    assert throttle is not None and throttle.rule == TagGroup((("group", "red"),))
    assert scene.sensors == {"group red": 1_000, "group blue": UNLIMITED}


def test_it_is_on_from_the_start_and_stays_when_the_last_rule_goes(scene: CustomScene) -> None:
    assert scene.manager.active
    scene.limit("red", None, 5.0)
    scene.limit("red", None, None)
    assert scene.manager.active


def test_rules_do_nothing_by_themselves_and_are_reported(scene: CustomScene) -> None:
    scene.limit("red", None, 1_000.0)
    scene.limit("red", None, None)
    assert [call for call in scene.callback.calls if call[0] != "limit"] == [
        ("update", QuotaKind.PRODUCE, Entity("red"), 1_000.0),
        ("remove", QuotaKind.PRODUCE, Entity("red")),
    ]
    scene.callback.broken["update"] = failing
    scene.limit("red-1", DEFAULT, 1.0)
    assert scene.record("red-1", "a", 10**9) == 0


def test_the_limit_is_asked_for_once_for_each_tags_and_not_for_each_request(scene: CustomScene) -> None:
    for user in ("red-1", "red-2", "blue-1", "red-1"):
        scene.record(user, "a", 1)
    assert scene.callback.limit_calls() == [{"group": "red"}, {"group": "blue"}]


def test_a_changed_rule_sweeps_every_limit_and_leaves_the_usage(scene: CustomScene) -> None:
    scene.callback.limits["red"] = 1_000
    scene.record("red-1", "a", 11_000)
    scene.record("blue-1", "a", 11_000)
    scene.limit("blue", None, 500.0)
    assert scene.sensors == {"group red": 1_000, "group blue": 500}
    assert scene.record("blue-1", "a", 0) == 12_000  # 1100 against 500, over ten windows


def test_reset_required_sweeps_before_the_record_that_asked(scene: CustomScene) -> None:
    for user in ("red-1", "blue-1"):
        scene.record(user, "a", 11_000)
    scene.callback.limits.update(red=1_000, blue=2_000)
    assert scene.record("red-1", "a", 0) == 0  # no reset was required
    scene.callback.reset = True
    assert scene.record("red-1", "a", 0) == 1_000
    assert scene.sensors == {"group red": 1_000, "group blue": 2_000}
    before = len(scene.callback.limit_calls())
    scene.record("red-1", "a", 0)
    assert len(scene.callback.limit_calls()) == before


def test_a_limit_that_becomes_none_frees_the_clients(scene: CustomScene) -> None:
    scene.callback.limits["red"] = 1_000
    assert scene.record("red-1", "a", 11_000) == 1_000
    scene.limit("red", None, None)
    assert scene.record("red-1", "a", 10**9) == 0
    assert scene.manager.bound("red-1", "a") == UNLIMITED


@pytest.mark.parametrize("is_reset", [False, True])
@pytest.mark.parametrize(("changed", "left_ms"), [(1_100, 0), (1_050, 571), (500, 1_200), (None, 0)])
def test_a_throttled_client_waits_for_what_is_left_under_the_limit_that_is_answered_now(
    scene: CustomScene, changed: float | None, left_ms: int, is_reset: bool
) -> None:
    """Whether limits are swept, or the callback requires it during another client's request."""
    scene.callback.limits["red"] = 1_000
    channel, token = Connection(principal="red-1"), object()
    throttle = scene.manager.record("red-1", "client1", 11_000, scene.clock.ms())
    assert throttle is not None
    scene.manager.throttle(channel, token, throttle, scene.clock.ms())
    if changed is None:
        del scene.callback.limits["red"]
    else:
        scene.callback.limits["red"] = changed
    scene.clock.advance(400)
    assert scene.manager.throttled.pop_expired(scene.clock.ms()) is None
    changes: list[int] = []
    (throttled,) = scene.manager.throttled.all()
    scene.manager.throttled.on_deadline = changes.append
    if is_reset:
        scene.callback.reset = True
        scene.record("blue-1", "a", 1)
    else:
        scene.manager.sweep(scene.clock.ms())
    assert changes == [throttled.end_ms]
    if left_ms:
        scene.clock.advance(left_ms - 1)
        assert scene.manager.throttled.pop_expired(scene.clock.ms()) is None
        scene.clock.advance(1)
    assert scene.manager.throttled.pop_expired(scene.clock.ms()) is token


def test_the_space_in_the_windows_is_of_the_callbacks_limit(scene: CustomScene) -> None:
    scene.callback.limits["red"] = 1_000
    assert scene.manager.max_value_in_window("red-1", "a", scene.clock.ms()) == 10_000
    assert scene.manager.max_value_in_window("blue-1", "a", scene.clock.ms()) > 1e300


def test_an_idle_group_is_forgotten_after_an_hour_and_not_before(scene: CustomScene) -> None:
    scene.record("red-1", "a", 1)
    scene.clock.advance(IDLE_MS)
    assert run_through(scene.manager.expire(scene.clock.ms())) == 0
    scene.clock.advance(1)
    assert run_through(scene.manager.expire(scene.clock.ms())) == 1
    assert scene.sensors == {}


@pytest.mark.parametrize(("groups", "kept"), [(7, 7), (8, 8), (9, 8)])
def test_tags_without_end_take_no_memory_without_end(groups: int, kept: int) -> None:
    scene = CustomScene(max_sensors=8)
    for number in range(groups):
        scene.clock.advance(1)
        scene.record(f"group{number}-1", "a", 1)
    assert len(scene.sensors) == kept
    assert ("group group0" in scene.sensors) is (groups < 9)


@pytest.mark.parametrize(
    "answer", [failing, lambda: None, lambda: 5, lambda: {"group": 7}, lambda: {7: "red"}, lambda: {"a": []}]
)
def test_tags_that_fail_leave_the_client_where_it_was_and_a_new_one_unlimited(
    scene: CustomScene, answer: Any
) -> None:
    scene.callback.limits.update(red=1_000)
    scene.record("red-1", "a", 10_000)
    scene.callback.broken["tags"] = answer
    assert scene.record("red-1", "a", 1_000) == 1_000
    assert scene.record("red-2", "a", 10**9) == 0
    assert scene.manager.bound("red-2", "a") == UNLIMITED and scene.manager.bound("red-1", "a") == 1_000
    assert scene.sensors == {"group red": 1_000}
    assert scene.guarded.failures == {"quota_metric_tags": 4}
    scene.callback.broken.clear()
    assert scene.record("red-2", "a", 0) > 0


@pytest.mark.parametrize(
    "answer", [failing, *(lambda bad=bad: bad for bad in (0, -1, nan, inf, -inf, "x", [], {}))]
)
def test_a_limit_that_fails_stays_what_it_was_and_a_new_one_is_none(scene: CustomScene, answer: Any) -> None:
    scene.callback.limits["red"] = 1_000
    scene.record("red-1", "a", 11_000)
    scene.callback.broken["limit"] = answer
    scene.manager.sweep()
    scene.record("blue-1", "a", 1)
    assert scene.sensors == {"group red": 1_000, "group blue": UNLIMITED}
    assert scene.guarded.failures == {"quota_limit": 2}


def test_a_group_that_is_forgotten_leaves_what_is_known_of_others(scene: CustomScene) -> None:
    scene.callback.limits.update(red=1_000, blue=1_000)
    scene.record("blue-1", "a", 1)
    scene.clock.advance(IDLE_MS + 1)
    scene.record("red-1", "a", 11_000)
    assert run_through(scene.manager.expire(scene.clock.ms())) == 1
    scene.callback.broken["tags"] = failing
    assert scene.record("red-1", "a", 0) == 1_000
    assert scene.record("blue-1", "a", 10**9) == 0


@pytest.mark.parametrize(("clients", "throttle_ms"), [(8, 1_000), (9, 0)])
def test_of_clients_without_end_those_that_asked_last_are_known(clients: int, throttle_ms: int) -> None:
    scene = CustomScene(max_sensors=8)
    scene.callback.limits["red"] = 1_000
    for number in range(clients):
        scene.record(f"red-{number}", "a", 0)
    scene.record(f"red-{clients - 1}", "a", 11_000)
    scene.callback.broken["tags"] = failing
    assert scene.record(f"red-{clients - 1}", "a", 0) == 1_000
    assert scene.record("red-0", "a", 0) == throttle_ms


def test_shadow_mode_is_of_rules_and_so_does_nothing(scene: CustomScene) -> None:
    scene.callback.broken["tags"] = lambda: {"user": "red"}
    scene.callback.limits[""] = 1_000
    scene.limit("red", None, 5.0)
    scene.record("red", "a", 11_000)
    for is_shadow in (True, False):
        scene.manager.set_shadow("red", None, is_shadow=is_shadow)
        assert scene.record("red", "a", 0) == 1_000
    assert scene.sensors == {"user red": 1_000}


def test_a_reset_that_fails_is_none(scene: CustomScene) -> None:
    scene.callback.broken["reset"] = failing
    assert scene.record("red-1", "a", 1) == 0
    assert scene.guarded.failures == {"quota_reset_required": 1}


def test_failures_are_reported_once_a_minute_for_each_method_with_their_number(
    scene: CustomScene, caplog: pytest.LogCaptureFixture
) -> None:
    def calls() -> list[tuple[str, int]]:
        return [(record.__dict__["method"], record.__dict__["times"]) for record in caplog.records]

    scene.callback.broken["tags"] = failing
    with caplog.at_level(logging.ERROR):
        for _ in range(5):
            scene.record("red-1", "a", 1)
        assert calls() == [("quota_metric_tags", 1)]
        scene.clock.advance(LOG_EVERY_MS - 1)
        scene.record("red-1", "a", 1)
        assert calls() == [("quota_metric_tags", 1)]
        scene.clock.advance(1)
        scene.record("red-1", "a", 1)
        assert calls() == [("quota_metric_tags", 1), ("quota_metric_tags", 6)]
    assert caplog.records[0].__dict__["callback"] == NAME
    assert caplog.records[0].exc_info is not None


def test_the_decision_is_shown_without_making_a_sensor(scene: CustomScene) -> None:
    scene.callback.limits["red"] = 1_000
    decision = scene.manager.decide("red-1", "a")
    assert decision is not None and (decision.tags, decision.bound) == ((("group", "red"),), 1_000)
    assert scene.sensors == {}
    scene.callback.broken["tags"] = failing
    decision = scene.manager.decide("red-1", "a")
    assert decision is not None and (decision.tags, decision.bound) == (None, None)
    assert RateQuotaManager(QuotaKind.PRODUCE).decide("red-1", "a") is None


def test_every_kind_of_client_quota_goes_through_it() -> None:
    callback = Scripted()
    callback.limits["red"] = 10
    quotas = ClientQuotas(paced=False, callback=GuardedCallback(callback, NAME, lambda: 0))
    now_ms = 1_700_000_000_000
    assert quotas.record_produce("red-1", "a", 110, now_ms) is not None
    assert quotas.record_fetch("red-1", "a", 110, now_ms) is not None
    assert quotas.request.record_handled("red-1", "a", 1_100_000_000, now_ms) is not None
    quota = quotas.mutation.quota_for("red-1", "a", now_ms, strict=False)
    quota.record(111, now_ms)  # the bucket starts with 110: eleven windows' worth
    throttle = quota.throttle(now_ms)
    assert throttle is not None and throttle.throttle_ms == 100
    assert [call[1] for call in callback.calls if call[0] == "limit"] == [
        QuotaKind.PRODUCE,
        QuotaKind.FETCH,
        QuotaKind.REQUEST,
        QuotaKind.CONTROLLER_MUTATION,
    ]


@pytest.mark.parametrize("changes", [False, True])
def test_a_change_of_the_cluster_sweeps_only_if_the_callback_says_so(changes: bool) -> None:
    callback = Scripted()
    quotas = ClientQuotas(callback=GuardedCallback(callback, NAME, lambda: 0))
    quotas.record_produce("red-1", "a", 1, 1_700_000_000_000)
    callback.limits["red"] = 7
    callback.cluster_changes = changes
    assert quotas.update_cluster_metadata("cluster", 3, {"events": 2, "logs": 1}) is changes
    (sensor,) = quotas.produce.sensors()
    assert sensor.bound == (7 if changes else UNLIMITED)
    ((_, cluster),) = [call for call in callback.calls if call[0] == "cluster"]
    assert (cluster.cluster_id, cluster.topics) == ("cluster", {"events": (3, 3), "logs": (3,)})
