"""When a client may get its subscription and push, in Kafka's order of checks. (Kafka:
ClientMetricsManagerTest, ClientMetricsInstanceTest)
"""

import pytest

from broker.common.errors import ErrorCode
from broker.records.compression import Codec
from tests.telemetry.scene import Scene, client

NONE, TOO_EARLY = ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED
INTERVAL_MS = 60_000


@pytest.fixture
def scene() -> Scene:
    made = Scene()
    made.subscribe(interval_ms=str(INTERVAL_MS), metrics="*")
    return made


def test_a_client_that_asks_again_must_wait_for_the_interval(scene: Scene) -> None:
    instance = scene.join()
    assert scene.get(instance) is TOO_EARLY
    scene.now_ms += INTERVAL_MS - 1
    assert scene.get(instance) is TOO_EARLY
    scene.now_ms += 1
    assert scene.get(instance) is NONE
    assert instance.throttles is not None and instance.throttles.total == 2


def test_a_refused_request_does_not_begin_the_interval_anew(scene: Scene) -> None:
    instance = scene.join()
    assert scene.push(instance) is NONE
    for _ in range(2):
        scene.now_ms += INTERVAL_MS // 2
        assert scene.push(instance) is (
            NONE if scene.now_ms % INTERVAL_MS == 1_000_000 % INTERVAL_MS else TOO_EARLY
        )


def test_a_client_that_asks_after_a_push_waits_for_the_interval_since_the_push(scene: Scene) -> None:
    instance = scene.join()
    scene.now_ms += INTERVAL_MS // 2
    assert scene.push(instance) is NONE
    scene.now_ms += INTERVAL_MS - 1
    assert scene.get(instance) is TOO_EARLY
    scene.now_ms += 1
    assert scene.get(instance) is NONE


def test_pushes_are_an_interval_apart_but_for_the_first_after_a_get(scene: Scene) -> None:
    instance = scene.join()
    scene.now_ms += 1
    assert scene.push(instance) is NONE
    assert scene.push(instance) is TOO_EARLY
    scene.now_ms += INTERVAL_MS - 1
    assert scene.push(instance) is TOO_EARLY
    scene.now_ms += 1
    assert scene.push(instance) is NONE
    scene.now_ms += INTERVAL_MS
    assert scene.get(instance) is NONE
    scene.now_ms += 1
    assert scene.push(instance) is NONE


def test_of_two_pushes_at_the_same_moment_one_is_too_early(scene: Scene) -> None:
    instance = scene.join()
    assert sorted([scene.push(instance), scene.push(instance)]) == [NONE, TOO_EARLY]


def test_a_client_that_this_broker_never_saw_may_push_with_the_right_id(scene: Scene) -> None:
    """The id is a function of subscription and instance, so another broker may have assigned it."""
    elsewhere = Scene()
    elsewhere.subscribe(interval_ms=str(INTERVAL_MS), metrics="*")
    stranger = elsewhere.join()
    assert scene.push(stranger) is NONE
    assert scene.push(stranger) is TOO_EARLY


@pytest.mark.parametrize("instance_id", [bytes(16), bytes(15) + b"\x01"])
def test_a_reserved_id_cannot_push(scene: Scene, instance_id: bytes) -> None:
    instance = scene.join()
    assert scene.push(instance, instance_id=instance_id) is ErrorCode.INVALID_REQUEST
    assert len(scene.manager) == 1


def test_errors_of_a_push_are_reported_in_kafkas_order(scene: Scene) -> None:
    instance = scene.join()
    wrong = {"subscription_id": instance.subscription_id ^ 1, "codec": 100, "size": 1_001}
    expected = [
        ErrorCode.UNKNOWN_SUBSCRIPTION_ID,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.TELEMETRY_TOO_LARGE,
    ]
    for key, error in zip(list(wrong), expected, strict=True):
        assert scene.push(instance, **wrong) is error
        assert scene.push(instance, **wrong) is TOO_EARLY
        scene.now_ms += INTERVAL_MS
        del wrong[key]
    assert scene.push(instance) is NONE
    assert scene.manager.unknown_subscriptions.total == 1


@pytest.mark.parametrize(("size", "error"), [(1_000, NONE), (1_001, ErrorCode.TELEMETRY_TOO_LARGE)])
def test_the_size_is_that_of_what_is_sent(scene: Scene, size: int, error: ErrorCode) -> None:
    assert scene.push(scene.join(), size=size) is error


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec_of_kafka_is_taken(scene: Scene, codec: Codec) -> None:
    assert scene.push(scene.join(), codec=codec) is NONE


@pytest.mark.parametrize(
    ("wrong", "may"), [({"subscription_id": 0}, True), ({"codec": 9}, True), ({"size": 5_000}, False)]
)
def test_a_client_that_is_told_to_ask_anew_may_do_so_at_once_and_push_then(
    scene: Scene, wrong: dict[str, int], may: bool
) -> None:
    instance = scene.join()
    assert scene.push(instance, **wrong) is not NONE
    scene.now_ms += 1
    assert scene.get(instance) is (NONE if may else TOO_EARLY)
    if may:
        scene.now_ms += 1
        assert scene.get(instance) is TOO_EARLY
        assert scene.push(instance) is NONE
        assert scene.push(instance) is TOO_EARLY


def test_the_last_push_of_a_client_need_not_wait_and_is_the_last(scene: Scene) -> None:
    instance = scene.join()
    assert scene.push(instance) is NONE
    assert scene.push(instance, terminating=True) is NONE
    for _ in range(3):
        assert scene.push(instance) is ErrorCode.INVALID_REQUEST
        scene.now_ms += INTERVAL_MS
    scene.subscribe(interval_ms="1000")
    assert scene.push(instance, terminating=True) is ErrorCode.INVALID_REQUEST


def test_a_changed_subscription_is_reported_at_once(scene: Scene) -> None:
    instance = scene.join()
    before = instance.subscription_id
    scene.subscribe(interval_ms="1000", metrics="*")
    assert scene.get(instance) is NONE
    assert (instance.effective.interval_ms, instance.subscription_id != before) == (1_000, True)
    assert scene.get(instance) is TOO_EARLY
    assert scene.push(instance, subscription_id=before) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID


def test_a_change_that_changes_nothing_for_a_client_leaves_its_subscription_id(scene: Scene) -> None:
    instance = scene.join()
    before = instance.subscription_id
    scene.subscribe("other", metrics="org.a.", match="client_id=nobody")
    assert scene.get(instance) is NONE
    assert instance.subscription_id == before
    assert scene.manager.version == 2


def test_a_client_that_comes_over_another_connection_keeps_its_gates(scene: Scene) -> None:
    instance = scene.join()
    scene.push(instance)
    moved = client(1, connection_id="elsewhere", port=50_001)
    assert scene.push(instance, moved) is TOO_EARLY
    assert scene.get(instance, moved) is TOO_EARLY
