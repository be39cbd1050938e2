"""The state machine of retry storms against AutoMQ's thresholds, to the millisecond."""

import pytest

from broker.common.errors import ErrorCode
from broker.protocol.api_key import ApiKey
from broker.quotas.retry_storm import STATE_EXPIRY_MS, RetryStorm

TRANSIENT = ErrorCode.LEADER_NOT_AVAILABLE
OTHER = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def ask(
    storm: RetryStorm,
    now_ms: int,
    code: int = TRANSIENT,
    *,
    resource: str = "t-0",
    connection: str = "c",
    api: int = ApiKey.PRODUCE,
    longest_ms: int | None = None,
) -> int:
    return storm.delay_of(api, connection, [(resource, code)], now_ms, longest_ms)


@pytest.mark.parametrize(("second_ms", "delay"), [(0, 1_000), (999, 1_000), (1_000, 1_000), (1_001, 0)])
def test_a_transient_error_is_delayed_from_the_second_within_a_second_on(second_ms, delay):
    storm = RetryStorm()
    assert ask(storm, 0) == 0
    assert ask(storm, second_ms) == delay


@pytest.mark.parametrize("count", [5, 6, 7])
def test_any_other_error_is_delayed_from_the_sixth_within_a_second_on(count):
    storm = RetryStorm()
    delays = [ask(storm, number * 200, OTHER) for number in range(count)]
    assert delays == [0, 0, 0, 0, 0, 1_000, 1_000][:count]


def test_five_other_errors_must_lie_within_the_second():
    storm = RetryStorm()
    assert [ask(storm, number * 201, OTHER) for number in range(12)] == [0] * 12


def test_transient_errors_count_among_the_others():
    storm = RetryStorm()
    times = [0, 1_001, 1_002]
    assert [ask(storm, now_ms, TRANSIENT) for now_ms in times[:2]] == [0, 0]
    for now_ms in (1_002, 1_003, 1_004, 1_005):
        assert ask(storm, now_ms, OTHER) == 0
    assert ask(storm, 1_006, OTHER) == 1_000


@pytest.mark.parametrize(("third_ms", "delay"), [(2_000, 1_000), (2_100, 1_000), (2_101, 0)])
def test_it_ends_when_nothing_came_for_more_than_a_second_after_the_delayed_answer(third_ms, delay):
    storm = RetryStorm()
    assert [ask(storm, 0), ask(storm, 100)] == [0, 1_000]  # out at 1,100
    assert ask(storm, third_ms) == delay


def test_after_the_end_it_begins_from_the_start():
    storm = RetryStorm()
    assert [ask(storm, now_ms) for now_ms in (0, 100, 2_101, 2_102)] == [0, 1_000, 0, 1_000]


def test_once_it_delays_every_error_of_the_same_kind_is_delayed():
    storm = RetryStorm()
    assert [
        ask(storm, now_ms, code) for now_ms, code in ((0, TRANSIENT), (1, TRANSIENT), (1_001, OTHER))
    ] == [
        0,
        1_000,
        1_000,
    ]


@pytest.mark.parametrize(
    ("maximum", "longest", "delay"),
    [
        (1_000, None, 1_000),
        (1_000, 999, 999),
        (1_000, 1_000, 1_000),
        (1_000, 1_001, 1_000),
        (10_000, None, 10_000),
    ],
)
def test_the_delay_is_the_keys_and_never_longer_than_the_request_can_wait(maximum, longest, delay):
    storm = RetryStorm(maximum)
    ask(storm, 0, longest_ms=longest)
    assert ask(storm, 0, longest_ms=longest) == delay


@pytest.mark.parametrize(("maximum", "longest"), [(0, None), (1_000, 0), (1_000, -1)])
def test_without_a_delay_it_answers_at_once_and_counts_all_the_same(maximum, longest):
    storm = RetryStorm(maximum)
    assert [ask(storm, 0, longest_ms=longest), ask(storm, 0, longest_ms=longest)] == [0, 0]
    assert storm.totals.delayed == 0
    storm.max_delay_ms = 500
    assert ask(storm, 1) == 500


@pytest.mark.parametrize("other", [{"resource": "t-1"}, {"connection": "d"}, {"api": ApiKey.FETCH}])
def test_another_resource_connection_or_api_has_a_state_of_its_own(other):
    storm = RetryStorm()
    assert [ask(storm, 0), ask(storm, 0, **other), ask(storm, 0)] == [0, 0, 1_000]


def test_one_of_several_resources_is_enough():
    storm = RetryStorm()
    ask(storm, 0, resource="a")
    errors = [("a", TRANSIENT), ("b", TRANSIENT)]
    assert storm.delay_of(ApiKey.PRODUCE, "c", errors, 10) == 1_000
    assert (storm.totals.delayed, storm.totals.delayed_ms) == (1, 1_000)


@pytest.mark.parametrize(
    ("api", "code", "is_transient"),
    [
        (ApiKey.METADATA, ErrorCode.LEADER_NOT_AVAILABLE, True),
        (ApiKey.FETCH, ErrorCode.NOT_LEADER_OR_FOLLOWER, True),
        (ApiKey.LIST_OFFSETS, ErrorCode.FENCED_LEADER_EPOCH, True),
        (ApiKey.PRODUCE, ErrorCode.NOT_COORDINATOR, False),
        (ApiKey.JOIN_GROUP, ErrorCode.NOT_COORDINATOR, True),
        (ApiKey.OFFSET_COMMIT, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, True),
        (ApiKey.FIND_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, True),
        (ApiKey.SYNC_GROUP, ErrorCode.LEADER_NOT_AVAILABLE, False),
        (ApiKey.METADATA, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False),
    ],
)
def test_which_errors_pass_by_themselves_depends_on_the_api(api, code, is_transient):
    storm = RetryStorm()
    assert [ask(storm, 0, code, api=api), ask(storm, 0, code, api=api)] == [0, 1_000 if is_transient else 0]


@pytest.mark.parametrize(
    ("quiet_ms", "states"), [(STATE_EXPIRY_MS - 1, 2), (STATE_EXPIRY_MS, 1), (STATE_EXPIRY_MS + 1, 1)]
)
def test_a_state_is_forgotten_when_it_was_not_asked_for_long(quiet_ms, states):
    storm = RetryStorm(10_000)
    ask(storm, 0)
    ask(storm, quiet_ms, resource="other")
    assert len(storm) == states


def test_of_very_many_states_those_that_were_not_asked_for_longest_go():
    storm = RetryStorm(max_states=3)
    for resource in "abc":
        ask(storm, 0, resource=resource)
    ask(storm, 2_000, resource="a")
    ask(storm, 2_000, resource="d")
    assert len(storm) == 3
    assert ask(storm, 2_000, resource="a") == 1_000
    ask(storm, 2_000, resource="b")
    assert len(storm) == 3


def test_disabling_it_forgets_everything():
    storm = RetryStorm()
    ask(storm, 0)
    storm.forget()
    assert (len(storm), ask(storm, 0)) == (0, 0)
