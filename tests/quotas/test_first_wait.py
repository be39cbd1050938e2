"""How long a client is throttled first after a change: what is foretold is what its next request gets."""

import pytest

from broker.common.slices import run_through
from broker.quotas.bandwidth import RateQuotaManager
from broker.quotas.bucket import BucketQuotaManager
from broker.quotas.entity import DEFAULT
from broker.quotas.kinds import QuotaKind
from broker.quotas.mutation import MutationQuotaManager
from broker.quotas.request import RequestQuotaManager
from broker.quotas.usage import SensorKey
from tests.quotas.scene import Scene
from tests.support.clock import ManualClock

APP = ("ANONYMOUS", "app")
OWN: SensorKey = (None, "app")
OF_USER: SensorKey = ("ANONYMOUS", None)


def scene(manager: RateQuotaManager) -> Scene:
    made = Scene(manager)
    made.clock = ManualClock(0)
    return made


def predicted(scene: Scene, key: SensorKey, bound: float) -> int:
    return scene.manager.first_wait_ms(*APP, key, bound, scene.clock.ms())


def busy(scene: Scene, per_s: float, seconds: int) -> None:
    """Record `per_s` in each of the seconds, in requests of a tenth of a second."""
    for _ in range(10 * seconds):
        scene.record(*APP, per_s / 10)
        scene.clock.advance(100)


@pytest.mark.parametrize("paced", [True, False])
@pytest.mark.parametrize(("bound", "wait_ms"), [(5_000, 0), (2_300, 0), (2_000, 1_500), (300, 66_667)])
def test_a_lowered_limit_throttles_by_the_last_ten_seconds(paced: bool, bound: int, wait_ms: int) -> None:
    changed = scene(RateQuotaManager(QuotaKind.PRODUCE, paced=paced))
    changed.limit(None, "app", 5_000)
    busy(changed, 2_300, 10)
    assert predicted(changed, OWN, bound) == wait_ms
    changed.limit(None, "app", bound)
    assert changed.record(*APP, 0) == wait_ms


def test_a_client_that_is_paced_only_repays_its_debt() -> None:
    """Its debt is what it sent at once, less what was repaid."""
    paced = scene(RateQuotaManager(QuotaKind.PRODUCE, paced=True))
    paced.limit(None, "app", 2_000)
    assert paced.record(*APP, 22_000) == 1_000
    assert predicted(paced, OWN, 500) == 44_000
    paced.clock.advance(500)
    assert predicted(paced, OWN, 500) == 42_000
    paced.limit(None, "app", 500)
    assert paced.record(*APP, 1) == 42_000


def test_a_rule_without_a_sensor_lets_the_next_request_through_first() -> None:
    new = scene(RateQuotaManager(QuotaKind.PRODUCE, paced=True))
    assert predicted(new, OWN, 1) == 0
    new.limit(None, "other", 5)
    busy(new, 2_300, 10)
    # Another rule of this kind measured the client before: its next rule judges what was measured.
    assert predicted(new, OWN, 300) > 60_000
    assert predicted(new, OF_USER, 300) == 0


def test_a_client_takes_its_debt_to_another_rule() -> None:
    moved = scene(RateQuotaManager(QuotaKind.PRODUCE, paced=True))
    moved.limit(None, "app", 1_000)
    assert moved.record(*APP, 30_000) == 20_000
    assert predicted(moved, OF_USER, 4_000) == 7_500
    moved.limit(DEFAULT, None, 4_000)
    run_through(moved.manager.recheck_clients([APP], moved.clock.ms()))
    assert moved.record(*APP, 1) == 7_500


def test_no_first_throttle_is_longer_than_the_longest() -> None:
    short = scene(RateQuotaManager(QuotaKind.PRODUCE, longest_ms=700))
    short.limit(None, "app", 5_000)
    busy(short, 2_300, 10)
    assert predicted(short, OWN, 300) == 700
    timed = scene(RequestQuotaManager())
    timed.limit(None, "app", 80)
    busy(timed, 40, 10)
    assert predicted(timed, OWN, 4) == 1_000


def test_a_token_bucket_waits_for_its_missing_tokens() -> None:
    bucket = scene(BucketQuotaManager(QuotaKind.PRODUCE, burst_ms=1_000))
    bucket.limit(None, "app", 1_000)
    assert predicted(bucket, OWN, 100) == 0
    assert bucket.record(*APP, 3_000) == 2_000
    assert predicted(bucket, OWN, 500) == 4_000


@pytest.mark.parametrize(("partitions", "wait_ms"), [(21, 0), (22, 0), (23, 1_000), (32, 10_000)])
def test_mutations_wait_for_their_missing_tokens(partitions: int, wait_ms: int) -> None:
    manager = MutationQuotaManager()
    manager.set_bound(None, "app", 2)
    manager.quota_for(*APP, 1_000, strict=False).record(partitions, 1_000)
    assert manager.first_wait_ms(*APP, OWN, 1, 1_000) == wait_ms
