"""The eight precedence levels, and the levels that have rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.quotas.entity import DEFAULT, Entity
from broker.quotas.table import CoveredTime, Levels, QuotaTable, RuleKey, probes

ORDER: list[RuleKey] = [
    ("alice", "app"),
    ("alice", DEFAULT),
    ("alice", None),
    (DEFAULT, "app"),
    (DEFAULT, DEFAULT),
    (DEFAULT, None),
    (None, "app"),
    (None, DEFAULT),
]


def test_the_probes_are_kafkas_eight_in_its_order():
    assert list(probes("alice", "app")) == ORDER


def test_removing_the_rule_that_governs_uncovers_the_next():
    table = QuotaTable()
    for number, rule in enumerate(ORDER):
        table.set(*rule, number + 1)
    for number, rule in enumerate(ORDER):
        assert table.match("alice", "app") == rule
        resolution = table.resolve("alice", "app")
        assert (resolution.matched, resolution.bound) == (Entity(*rule), number + 1)
        table.set(*rule, None)
    assert table.match("alice", "app") is None
    assert table.resolve("alice", "app").bound is None
    assert len(table) == 0


def test_a_resolution_shows_every_step_found_or_not():
    table = QuotaTable()
    table.set("alice", None, 10)
    table.set(None, DEFAULT, 20)
    steps = table.resolve("alice", "app").probes
    assert [(step.entity, step.bound) for step in steps] == [
        (Entity(*rule), {2: 10, 7: 20}.get(number)) for number, rule in enumerate(ORDER)
    ]


def test_a_client_that_calls_itself_default_is_only_itself():
    table = QuotaTable()
    table.set(None, "<default>", 10)
    assert table.match("alice", "<default>") == (None, "<default>")
    assert table.match("alice", "app") is None
    table.set(None, DEFAULT, 20)
    assert table.match("alice", "app") == (None, DEFAULT)


def test_a_level_is_on_while_it_has_a_rule():
    table = QuotaTable()
    assert table.enabled == Levels.NONE
    table.set("alice", None, 1)
    table.set("alice", None, 2)
    table.set(DEFAULT, None, 3)
    table.set(None, "app", 4)
    table.set("alice", "app", 5)
    assert table.enabled == Levels.USER | Levels.CLIENT_ID | Levels.USER_CLIENT_ID
    table.set("alice", None, None)
    table.set("alice", None, None)
    assert Levels.USER in table.enabled
    table.set(DEFAULT, None, None)
    assert table.enabled == Levels.CLIENT_ID | Levels.USER_CLIENT_ID
    table.set("alice", "app", None)
    table.set(None, "app", None)
    table.set("never", "set", None)
    assert table.enabled == Levels.NONE


NAMES = st.sampled_from(["alice", "app", "", "<default>"])
RULES = st.tuples(NAMES | st.none() | st.just(DEFAULT), NAMES | st.none() | st.just(DEFAULT)).filter(
    lambda rule: rule != (None, None)
)


@given(rules=st.lists(RULES), user=NAMES, client_id=NAMES)
def test_a_sensor_is_governed_by_the_rule_that_led_to_it(rules, user, client_id):
    table = QuotaTable()
    for number, rule in enumerate(rules):
        table.set(*rule, number + 1)
    rule = table.match(user, client_id)
    if rule is not None:
        apart = (None if rule[0] is None else user, None if rule[1] is None else client_id)
        assert table.governing(*apart) == rule


@pytest.mark.parametrize("apart", [("alice", "app"), ("alice", None), (None, "app")])
def test_a_sensor_that_no_rule_leads_to_any_longer_is_governed_by_none(apart):
    assert QuotaTable().governing(*apart) is None


def test_overlapping_intervals_cover_their_time_once():
    covered = CoveredTime()
    for duration_ms, now_ms, after_ms in [
        (1_000, 5_000, 1_000),  # 5.0 to 6.0
        (1_000, 5_400, 1_400),  # to 6.4
        (100, 5_500, 1_400),  # within
        (500, 6_400, 1_900),  # from its very end
        (500, 10_000, 2_400),  # much later
    ]:
        covered.add(duration_ms, now_ms)
        assert covered.at(now_ms + 60_000) == after_ms


def test_an_interval_of_covered_time_counts_as_it_passes():
    covered = CoveredTime()
    assert covered.at(5_000) == 0
    covered.add(67_000, 5_000)
    passed = [5_000, 5_001, 71_999, 72_000, 72_001]
    assert [covered.at(now_ms) for now_ms in passed] == [0, 1, 66_999, 67_000, 67_000]


def test_covered_time_never_grows_faster_than_time():
    covered = CoveredTime()
    for now_ms in range(0, 10_000, 100):
        covered.add(2_000, now_ms)
        assert covered.at(now_ms) == now_ms
