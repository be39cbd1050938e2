"""examples/quota_groups.py does what docs/quota-callback.md says of it."""

import pytest

from broker.quotas.bandwidth import RateQuotaManager
from broker.quotas.entity import DEFAULT
from broker.quotas.guarded_callback import GuardedCallback, load_callback
from broker.quotas.kinds import QuotaKind
from broker.quotas.table import UNLIMITED
from tests.quotas.scene import Scene

CLASS = "examples.quota_groups:QuotaGroups"
CONFIGS = {
    "quota.group.analytics": "analytics-.*",
    "quota.group.robots": ".*-[0-9]+",
    "quota.exempt.users": "mirror, monitor",
}


@pytest.fixture
def scene() -> Scene:
    guarded = GuardedCallback(load_callback(CLASS, CONFIGS), CLASS, lambda: 0)
    return Scene(RateQuotaManager(QuotaKind.PRODUCE, callback=guarded))


def test_a_group_shares_one_limit_and_the_whole_name_must_match(scene: Scene) -> None:
    scene.limit("group:analytics", None, 1_000.0)
    assert scene.record("analytics-1", "a", 10_000) == 0
    assert scene.record("analytics-2", "b", 1_000) == 1_000
    assert scene.record("my-analytics-2x", "b", 10**9) == 0


def test_the_first_group_in_the_configuration_wins(scene: Scene) -> None:
    scene.limit("group:robots", None, 500.0)
    assert scene.manager.bound("analytics-1", "") == UNLIMITED
    assert scene.manager.bound("cleaner-1", "") == 500


def test_users_outside_are_under_their_own_rule_or_the_default_one_each_for_himself(scene: Scene) -> None:
    scene.limit(DEFAULT, None, 1_000.0)
    scene.limit("bob", None, 2_000.0)
    assert scene.record("alice", "a", 11_000) == 1_000
    assert scene.record("carol", "a", 10_000) == 0
    assert scene.record("bob", "a", 20_000) == 0
    scene.limit("bob", None, None)
    assert scene.manager.bound("bob", "") == 1_000


@pytest.mark.parametrize("user", ["mirror", "monitor"])
def test_nothing_limits_an_exempt_user(scene: Scene, user: str) -> None:
    scene.limit(DEFAULT, None, 1_000.0)
    scene.limit(user, None, 1_000.0)
    assert scene.record(user, "a", 10**9) == 0


def test_rules_for_client_ids_do_nothing(scene: Scene) -> None:
    scene.limit(None, "a", 1_000.0)
    scene.limit("alice", "a", 1_000.0)
    scene.limit("alice", "a", None)
    assert scene.record("alice", "a", 10**9) == 0
