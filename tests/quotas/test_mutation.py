"""Controller mutations against the numbers of Kafka's ControllerMutationQuotaManagerTest."""

import pytest

from broker.common.errors import ApiError, ErrorCode
from broker.metrics.rate import Window
from broker.quotas.entity import Entity
from broker.quotas.kinds import QuotaKind
from broker.quotas.mutation import MutationQuota, MutationQuotaManager, throttle_time_for_tokens
from tests.quotas.scene import Connection
from tests.support.clock import ManualClock

CLIENT = ("ANONYMOUS", "test-client")


class Scene:
    """A quota of 10 mutations per second over ten windows of a second, so a burst of 100."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.manager = MutationQuotaManager(Window(10, 1_000))
        self.manager.set_bound(*CLIENT, 10)

    def quota(self, *, strict: bool) -> MutationQuota:
        return self.manager.quota_for(*CLIENT, self.clock.ms(), strict=strict)

    def throttle_ms(self, quota: MutationQuota) -> int:
        throttle = quota.throttle(self.clock.ms())
        return 0 if throttle is None else throttle.throttle_ms

    def refused(self, quota: MutationQuota, mutations: float) -> bool:
        try:
            quota.record(mutations, self.clock.ms())
        except ApiError as error:
            return error.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
        return False

    def request(self, mutations: float) -> int:
        """Record one strict request and return its throttle time in milliseconds."""
        quota = self.quota(strict=True)
        self.refused(quota, mutations)
        return self.throttle_ms(quota)


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.mark.parametrize(("tokens", "wait_ms"), [(0, 0), (-5, 500), (-10, 1_000)])
def test_tokens_below_zero_are_waited_for(tokens, wait_ms):
    assert throttle_time_for_tokens(tokens, 10) == wait_ms


def test_strict_refuses_once_the_bucket_is_below_zero_and_the_wait_decays(scene):
    quota = scene.quota(strict=True)
    assert not quota.is_exceeded
    for _ in range(2):
        assert not scene.refused(quota, 90)
        assert not quota.is_exceeded
        assert scene.throttle_ms(quota) == 0
    assert scene.refused(quota, 90)
    assert quota.is_exceeded
    assert scene.throttle_ms(quota) == 8_000
    scene.clock.advance(5_000)
    assert scene.throttle_ms(quota) == 3_000
    scene.clock.advance(3_000)
    assert scene.throttle_ms(quota) == 0


def test_permissive_always_serves_and_remembers_the_wait(scene):
    quota = scene.quota(strict=False)
    for wait_ms in (0, 8_000, 17_000):
        assert not scene.refused(quota, 90)
        assert not quota.is_exceeded
        assert scene.throttle_ms(quota) == wait_ms
    scene.clock.advance(5_000)
    assert scene.throttle_ms(quota) == 12_000


def test_a_burst_is_served_and_the_next_waits_until_the_tokens_are_back(scene):
    for _ in range(10):
        assert scene.request(10) == 0
        scene.clock.advance(1_000)
    assert scene.request(110) == 0
    assert scene.request(110) == 1_000
    scene.clock.advance(1_000)
    assert scene.request(110) == 0


def test_refused_mutations_are_not_charged(scene):
    assert scene.request(110) == 0
    for _ in range(5):
        assert scene.request(1_000) == 1_000
    sensor = scene.manager.find(*CLIENT)
    assert sensor is not None
    assert sensor.bucket.measure(scene.clock.ms()) == -10
    assert sensor.observed(scene.clock.ms()) == pytest.approx(110 / 9)


def test_two_topics_of_thirty_partitions_against_two_per_second_one_is_refused():
    manager = MutationQuotaManager(Window(10, 1_000))
    manager.set_bound(None, "c", 2)
    clock = ManualClock()
    for strict, refusals, wait_ms in ((True, 1, 5_000), (False, 0, 20_000)):
        quota = manager.quota_for("u", "c", clock.ms(), strict=strict)
        refused = 0
        for _ in range(2):
            try:
                quota.record(30, clock.ms())
            except ApiError:
                refused += 1
        throttle = quota.throttle(clock.ms())
        assert throttle is not None
        assert (refused, throttle.throttle_ms) == (refusals, wait_ms)
        clock.advance(60_000)


def test_without_a_rule_everything_is_allowed_and_nothing_is_recorded():
    manager = MutationQuotaManager()
    quota = manager.quota_for("u", "c", ManualClock().ms(), strict=True)
    quota.record(10**9, ManualClock().ms())
    assert quota.throttle(ManualClock().ms()) is None
    assert list(manager.sensors()) == []


def test_a_client_under_no_rule_is_never_throttled(scene):
    quota = scene.manager.quota_for("other", "other", scene.clock.ms(), strict=False)
    quota.record(10**6, scene.clock.ms())
    assert quota.throttle(scene.clock.ms()) is None


def test_a_client_that_first_comes_under_a_rule_has_the_whole_burst(scene):
    unlimited = scene.manager.quota_for("new", "new", scene.clock.ms(), strict=True)
    unlimited.record(10**6, scene.clock.ms())
    scene.manager.set_bound("new", None, 1)
    quota = scene.manager.quota_for("new", "new", scene.clock.ms(), strict=True)
    assert not scene.refused(quota, 10)
    assert not scene.refused(quota, 5)
    assert scene.refused(quota, 1)
    assert scene.throttle_ms(quota) == 5_000


def test_the_verdict_names_the_rule_and_is_held_by_its_manager(scene):
    quota = scene.quota(strict=False)
    quota.record(150, scene.clock.ms())
    throttle = quota.throttle(scene.clock.ms())
    assert throttle is not None
    assert (throttle.kind, throttle.rule) == (QuotaKind.CONTROLLER_MUTATION, Entity(*CLIENT))
    assert (throttle.observed, throttle.bound) == (-50, 10)
    channel = Connection()
    scene.manager.throttle(channel, channel, throttle, scene.clock.ms())
    assert scene.manager.throttled.next_deadline() == scene.clock.ms() + 5_000


@pytest.mark.parametrize(
    ("charged", "more", "strict_ms", "permissive_ms"),
    [
        (110, -9, 0, 100),
        (110, -10, 0, 0),
        (110, -11, 0, 0),
        (90, 10, 0, 0),
        (90, 11, 0, 100),
        (90, 20, 0, 1_000),
    ],
)
def test_a_corrected_charge_counts_as_if_it_had_been_known(scene, charged, more, strict_ms, permissive_ms):
    for strict, throttle_ms in ((True, strict_ms), (False, permissive_ms)):
        scene = Scene()
        quota = scene.quota(strict=strict)
        assert quota.record(charged, scene.clock.ms())
        quota.correct(more, scene.clock.ms())
        assert scene.throttle_ms(quota) == throttle_ms
        # The next strict request waits for what the two left.
        assert scene.request(1) == max(charged + more - 100, 0) * 100


def test_only_charged_work_is_documented_as_charged(scene):
    no_rules = MutationQuotaManager(Window(10, 1_000))
    unlimited = no_rules.quota_for(*CLIENT, scene.clock.ms(), strict=True)
    assert not unlimited.record(1_000, scene.clock.ms())
    unlimited.correct(5, scene.clock.ms())
    assert scene.quota(strict=False).record(110, scene.clock.ms())
    assert scene.quota(strict=False).record(1, scene.clock.ms())
    scene.manager.set_shadow(*CLIENT, is_shadow=True)
    assert not scene.quota(strict=True).record(1, scene.clock.ms())
    assert scene.quota(strict=False).record(1, scene.clock.ms())
