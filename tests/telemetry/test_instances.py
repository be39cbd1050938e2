"""The client instances and their expiry. (Kafka: ClientMetricsManagerTest)"""

import logging

import pytest

from broker.common.errors import ErrorCode
from broker.common.slices import run_through
from broker.telemetry.instance import uuid_bytes, uuid_text
from broker.telemetry.latest import Point, PushedPoints, Shape
from broker.telemetry.manager import WARNING_MS, TelemetryManager
from broker.telemetry.subscription import MAX_PREFIXES, Effective
from tests.telemetry.scene import Scene, client

FIVE_MINUTES = 300_000


def test_without_a_subscription_there_is_an_id_and_nothing_to_push() -> None:
    instance = Scene().join()
    assert any(instance.id) and instance.subscription_id != 0
    assert instance.effective == Effective((), FIVE_MINUTES)


def test_an_id_that_is_reserved_or_taken_is_not_given_out() -> None:
    """The scene's first two ids are both reserved."""
    scene = Scene()
    instance = scene.join()
    assert int.from_bytes(instance.id, "big") == 2
    scene.made -= 1
    assert int.from_bytes(scene.join(2).id, "big") == 3


def test_subscriptions_are_united_at_the_shortest_interval() -> None:
    scene = Scene()
    scene.subscribe("a", metrics="org.b.,org.a.", interval_ms="2000")
    scene.subscribe("b", metrics="org.c.,org.a.", interval_ms="1000", match="client_id=client-1")
    scene.subscribe("c", interval_ms="3600000", match="client_id=client-3")
    assert scene.join(1).effective == Effective(("org.a.", "org.b.", "org.c."), 1_000)
    assert scene.join(2).effective == Effective(("org.a.", "org.b."), 2_000)
    scene.subscribe("a")
    assert scene.join(3).effective == Effective((), 3_600_000)
    assert scene.join(4).effective == Effective((), FIVE_MINUTES)


def test_all_metrics_swallow_every_prefix() -> None:
    scene = Scene()
    scene.subscribe("a", metrics="org.a.")
    scene.subscribe("b", metrics="org.b.,*")
    assert scene.join().effective.metrics == ("*",)


@pytest.mark.parametrize(
    ("metrics", "interval_ms", "instance_id", "expected"),
    [
        (("*",), 100, "AAAAAQAAAAIAAAADAAAABA", 899_611_813),
        (("*",), 100, "Xy3Kfg4SQv-AnJf5TKsQ2A", -1_466_502_399),
        ((), FIVE_MINUTES, "AAAAAQAAAAIAAAADAAAABA", -725_132_326),
        ((), FIVE_MINUTES, "Xy3Kfg4SQv-AnJf5TKsQ2A", 1_238_324_350),
    ],
)
def test_the_subscription_id_is_that_of_kafka(
    metrics: tuple[str, ...], interval_ms: int, instance_id: str, expected: int
) -> None:
    """Java's results of CRC32C and Uuid.hashCode."""
    assert Effective(metrics, interval_ms).subscription_id(uuid_bytes(instance_id)) == expected


def test_different_subscriptions_have_different_ids_and_equal_ones_the_same() -> None:
    every = [
        Effective(metrics, ms) for metrics in ((), ("a",), ("b",), ("a", "b")) for ms in (100, 101, 300_000)
    ]
    assert len({each.subscription_id(bytes(16)) for each in every}) == len(every)
    assert Effective(("a", "b"), 100).subscription_id(b"x" * 16) == Effective(
        ("a", "b"), 100
    ).subscription_id(b"x" * 16)


@pytest.mark.parametrize(
    "text", ["", "AAAA", "AAAAAQAAAAIAAAADAAAABB", "AAAAAQAAAAIAAAADAAAABA==", "A" * 23, "é" * 22]
)
def test_invalid_ids_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        uuid_bytes(text)


def test_ids_are_written_as_kafka_writes_them() -> None:
    assert uuid_text(b"\xfb\xff" * 8) == "-__7__v_-__7__v_-__7_w"
    assert uuid_bytes("-__7__v_-__7__v_-__7_w") == b"\xfb\xff" * 8


@pytest.mark.parametrize(("interval_ms", "expiry_ms"), [(100, 60_000), (20_000, 60_000), (20_001, 60_003)])
def test_an_instance_is_forgotten_after_three_intervals_and_a_minute_at_least(
    interval_ms: int, expiry_ms: int
) -> None:
    scene = Scene()
    scene.subscribe(metrics="*", interval_ms=str(interval_ms))
    scene.join()
    assert scene.manager.next_deadline() == scene.now_ms + expiry_ms
    scene.manager.expire(scene.now_ms + expiry_ms - 1)
    assert len(scene.manager) == 1
    scene.manager.expire(scene.now_ms + expiry_ms)
    assert len(scene.manager) == 0 and scene.manager.next_deadline() is None


def test_whoever_is_heard_of_stays_also_where_it_is_refused() -> None:
    scene = Scene()
    quiet, loud = scene.join(1), scene.join(2)
    scene.now_ms += 3 * FIVE_MINUTES - 1
    assert scene.push(loud, subscription_id=0) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    scene.manager.expire(scene.now_ms + 1)
    assert list(scene.manager) == [loud] and quiet.gone
    assert scene.manager.next_deadline() == scene.now_ms + 3 * FIVE_MINUTES


def test_an_interval_that_becomes_shorter_brings_the_end_nearer() -> None:
    scene = Scene()
    instance = scene.join()
    scene.subscribe(metrics="*", interval_ms="100")
    scene.get(instance)
    assert scene.manager.next_deadline() == scene.now_ms + 60_000
    scene.manager.expire(scene.now_ms + 60_000)
    assert len(scene.manager) == 0


def test_an_instance_goes_with_its_connection_and_an_unknown_one_changes_nothing() -> None:
    scene = Scene()
    first, second = scene.join(1), scene.join(2)
    scene.manager.disconnected("nobody's")
    assert len(scene.manager) == 2
    scene.manager.disconnected(first.client.connection_id)
    scene.manager.disconnected(first.client.connection_id)
    assert list(scene.manager) == [second]


def test_an_instance_that_moved_outlives_its_first_connection() -> None:
    scene = Scene()
    instance = scene.join()
    first, moved = instance.client, client(1, connection_id="elsewhere")
    scene.get(instance, moved)
    scene.manager.disconnected(first.connection_id)
    assert list(scene.manager) == [instance]
    scene.manager.disconnected("elsewhere")
    assert instance.gone


def test_a_connection_that_makes_up_ids_has_one_instance() -> None:
    scene = Scene()
    for number in range(5_000):
        run_through(scene.manager.get(number.to_bytes(15, "big") + b"\x07", client(), scene.now_ms))
    assert len(scene.manager) == 1
    assert len(scene.manager._deadlines) < 2_000


def test_of_more_instances_than_there_is_space_for_the_least_recently_seen_is_removed() -> None:
    scene = Scene(max_instances=3)
    first, second, third = (scene.join(number) for number in (1, 2, 3))
    scene.get(first)
    assert scene.manager.evicted == 0
    scene.join(4)
    assert second.gone and not first.gone and not third.gone
    assert (len(scene.manager), scene.manager.evicted) == (3, 1)


def test_a_cache_that_is_too_small_is_reported_once_in_five_minutes(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene(max_instances=1)
    with caplog.at_level(logging.WARNING):
        for number in range(1, 5):
            scene.join(number)
        assert len(caplog.records) == 1
        scene.now_ms += WARNING_MS
        scene.join(5)
        assert len(caplog.records) == 1
        scene.now_ms += 1
        scene.join(6)
        assert len(caplog.records) == 2


def test_subscriptions_with_too_many_prefixes_are_reported_once_in_five_minutes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = Scene()
    scene.subscribe("a", metrics=",".join(f"{at:x}." for at in range(MAX_PREFIXES)))
    with caplog.at_level(logging.WARNING):
        assert not scene.join(1).effective.is_over_limit and not caplog.records
        scene.subscribe("b", metrics="one.more")
        assert scene.join(2).effective == Effective(("*",), FIVE_MINUTES, is_over_limit=True)
        scene.join(3)
        scene.now_ms += WARNING_MS
        scene.join(4)
        (record,) = caplog.records
        assert vars(record)["client_id"] == "client-2" and vars(record)["subscriptions"] == 2
        scene.now_ms += 1
        scene.join(5)
        assert len(caplog.records) == 2
        scene.subscribe("b", metrics="1.one.that.is.covered")
        assert not scene.join(6).effective.is_over_limit


def test_the_clients_of_a_subscription_follow_changes_of_both() -> None:
    scene = Scene()
    instance = scene.join()
    assert run_through(scene.manager.matched(instance)) == ()
    scene.subscribe("b", metrics="*")
    scene.subscribe("a", metrics="*", match="client_source_port=50000")
    assert run_through(scene.manager.matched(instance)) == ("a", "b")
    scene.get(instance)
    scene.get(instance, client(1, connection_id="elsewhere", port=50_001))
    assert run_through(scene.manager.matched(instance)) == ("b",)
    scene.subscribe("b")
    assert run_through(scene.manager.matched(instance)) == ()


def test_metrics_of_an_instance_are_removed_with_it() -> None:
    scene = Scene()
    instance = scene.join()
    point = Point("a", (), "a", (), Shape.GAUGE, 1.0, False)
    scene.latest.take(instance.id, PushedPoints([point], 0), 0)
    scene.manager.disconnected(instance.client.connection_id)
    assert len(scene.latest) == 0 and list(scene.latest.families()) == []


def test_a_broker_remembers_as_many_instances_as_configured() -> None:
    scene = Scene(max_instances=16_384)
    assert isinstance(scene.manager, TelemetryManager)
    for number in range(16_386):
        who = client(1, connection_id=str(number))
        run_through(scene.manager.get(number.to_bytes(15, "big") + b"\x07", who, scene.now_ms))
    assert (len(scene.manager), scene.manager.evicted) == (16_384, 2)


MANY = 384


def crowded() -> Scene:
    scene = Scene()
    for number in range(MANY):
        scene.subscribe(f"s{number}", metrics=f"m{number:03}")
    return scene


def test_a_get_pauses_among_many_subscriptions_and_changes_nothing_before_the_last_pause() -> None:
    scene = crowded()
    steps = scene.manager.get(bytes(16), client(), scene.now_ms)
    paused = 0
    while len(scene.manager) == 0:
        if next(steps, "done") != "done":
            assert len(scene.manager) == 0
            paused += 1
    assert paused >= 3 * MANY, "when they are matched, added and sorted"
    (instance,) = scene.manager
    assert len(instance.effective.metrics) == MANY
    assert list(scene.manager.matched(instance)) == [], "it is known from the Get"
    assert list(scene.manager.get(instance.id, client(), scene.now_ms + 1)) == []


def test_a_subscription_that_changes_during_a_get_counts_from_the_next_one_on() -> None:
    scene = crowded()
    steps = scene.manager.get(b"\1" * 16, client(), scene.now_ms)
    next(steps)
    scene.subscribe("s0")
    list(steps)
    (instance,) = scene.manager
    assert len(instance.effective.metrics) == MANY
    scene.now_ms += 1
    assert scene.get(instance) is ErrorCode.NONE, "it may ask at once"
    assert len(instance.effective.metrics) == MANY - 1


def test_two_gets_of_one_instance_at_once_make_one_instance() -> None:
    scene = crowded()
    both = [scene.manager.get(b"\1" * 16, client(), scene.now_ms) for _ in range(2)]
    for steps in both:
        next(steps)
    for steps in both:
        list(steps)
    assert len(scene.manager) == 1
