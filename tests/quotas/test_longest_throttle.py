"""quota.max.throttle.ms, the longest throttle of each kind, and the throttle time of a constant rate."""

import pytest

from broker.metrics.rate import INT_MAX, Window
from broker.quotas.bandwidth import RateQuotaManager
from broker.quotas.bucket import BucketQuotaManager
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.connection_rates import IpRates
from broker.quotas.entity import Entity
from broker.quotas.kinds import QuotaKind
from broker.quotas.mutation import MutationQuotaManager
from broker.quotas.request import RequestQuotaManager
from tests.quotas.scene import Scene
from tests.support.clock import ManualClock

CLIENT = ("alice", "app")
ALICE = Entity("alice")
BYTES = (QuotaKind.PRODUCE, QuotaKind.FETCH)


def quotas(longest_ms: int | None, *, paced: bool = False) -> ClientQuotas:
    made = ClientQuotas(longest_throttle_ms=longest_ms, paced=paced)
    for key in ("producer_byte_rate", "consumer_byte_rate"):
        made.apply(ALICE, key, 1_000)
    made.apply(ALICE, "request_percentage", 1)
    made.apply(ALICE, "controller_mutation_rate", 1)
    return made


@pytest.mark.parametrize("paced", [True, False])
@pytest.mark.parametrize("kind", BYTES)
@pytest.mark.parametrize(
    ("longest_ms", "wait_ms"), [(None, 1_000), (1_001, 1_000), (1_000, 1_000), (999, 999), (1, 1), (0, 0)]
)
def test_a_wait_for_a_byte_rate_is_cut_to_it(
    kind: QuotaKind, longest_ms: int | None, wait_ms: int, paced: bool
) -> None:
    manager = quotas(longest_ms, paced=paced).managers[kind]
    assert isinstance(manager, RateQuotaManager)
    throttle = manager.record(*CLIENT, 11_000, 0)
    assert (0 if throttle is None else throttle.throttle_ms) == wait_ms


@pytest.mark.parametrize("is_changed", [True, False])
@pytest.mark.parametrize("paced", [True, False])
@pytest.mark.parametrize(
    ("longest_ms", "wait_ms"), [(INT_MAX - 1, INT_MAX - 1), (INT_MAX, INT_MAX), (INT_MAX + 1, INT_MAX)]
)
def test_a_wait_always_fits_into_a_response(
    longest_ms: int, wait_ms: int, paced: bool, is_changed: bool
) -> None:
    made = quotas(None if is_changed else longest_ms, paced=paced)
    if is_changed:
        made.set_longest_throttle(longest_ms)
    throttle = made.produce.record(*CLIENT, 1e12, 0)
    assert throttle is not None and throttle.throttle_ms == wait_ms


def test_a_wait_for_request_time_fits_into_a_response_however_long_the_windows_are() -> None:
    request = RequestQuotaManager(Window(11, 1_000_000_000), paced=True)
    request.set_bound("alice", None, 1)
    throttle = request.record_handled(*CLIENT, 10**24, 0)
    assert throttle is not None and throttle.throttle_ms == INT_MAX


@pytest.mark.parametrize("paced", [True, False])
@pytest.mark.parametrize("kind", BYTES)
def test_a_new_value_holds_from_the_next_verdict_on(kind: QuotaKind, paced: bool) -> None:
    made = quotas(None, paced=paced)
    scene = Scene(made.managers[kind])  # type: ignore[arg-type]
    scene.clock = ManualClock(0)
    assert scene.record(*CLIENT, 14_000) == 4_000
    made.set_longest_throttle(250)
    assert scene.record(*CLIENT, 100) == 250
    made.set_longest_throttle(None)
    # With pacing, debt beyond two of the longest throttles is dropped; the rate still includes all of it.
    assert scene.record(*CLIENT, 0) == (500 if paced else 4_100)


@pytest.mark.parametrize(
    ("longest_ms", "size", "most"),
    [(1_000, 1_500, 1.0), (1_000, 2_000, 1.0), (1_000, 3_000, 1.5), (500, 1_000, 1.0), (None, 2_000, 1.0)],
)
def test_a_fetch_that_is_taken_back_pays_nothing_of_the_debt(
    longest_ms: int | None, size: int, most: float
) -> None:
    """Only what two throttles cannot repay goes beyond the limit."""
    fetch = quotas(longest_ms, paced=True).fetch
    at_ms = passed = 0
    while at_ms < 600_000:
        throttle = fetch.record(*CLIENT, size, at_ms)
        if throttle is None:
            passed += size if at_ms >= 300_000 else 0
        else:
            fetch.unrecord(*CLIENT, size, at_ms)
            at_ms += throttle.throttle_ms
    assert passed / 300 == pytest.approx(1_000 * most, rel=0.01)


@pytest.mark.parametrize(
    ("longest_ms", "size", "most"),
    [(5_000, 2_500, 1.0), (5_000, 3_000, 1.0), (5_000, 5_000, 1.0), (5_000, 7_500, 1.5)],
)
def test_requests_that_the_longest_throttle_repays_keep_to_the_limit(
    longest_ms: int, size: int, most: float
) -> None:
    produce = quotas(longest_ms, paced=True).produce
    at_ms = passed = 0
    while at_ms < 600_000:
        throttle = produce.record(*CLIENT, size, at_ms)
        passed += size if at_ms >= 300_000 else 0
        at_ms += 0 if throttle is None else throttle.throttle_ms
    assert passed / 300 == pytest.approx(1_000 * most, rel=0.02)


@pytest.mark.parametrize("longest_ms", [None, 5, 60_000])
def test_request_time_is_waited_for_one_window_at_most_whatever_the_setting(longest_ms: int | None) -> None:
    throttle = quotas(longest_ms).request.record_handled(*CLIENT, 3_000_000_000, 0)
    assert throttle is not None and throttle.throttle_ms == 1_000


@pytest.mark.parametrize("longest_ms", [None, 5, 60_000])
@pytest.mark.parametrize("strict", [True, False])
def test_mutations_are_waited_for_as_long_as_the_tokens_take(longest_ms: int | None, strict: bool) -> None:
    quota = quotas(longest_ms).mutation.quota_for(*CLIENT, 0, strict=False)
    quota.record(31, 0)
    throttle = quota.throttle(0)
    assert throttle is not None and throttle.throttle_ms == 20_000


@pytest.mark.parametrize(
    ("observed", "wait_ms"), [(999.0, 0), (1_000.0, 0), (1_100.0, 1_000), (3_000.0, 20_000)]
)
def test_a_rate_that_is_kept_up_is_told_the_formulas_wait(observed: float, wait_ms: int) -> None:
    for manager in (RateQuotaManager(QuotaKind.PRODUCE), MutationQuotaManager()):
        assert manager.wait_at(observed, 1_000) == wait_ms
    # The throttle time of a client with this rate in all windows.
    scene = Scene(RateQuotaManager(QuotaKind.PRODUCE))
    scene.limit(*CLIENT, 1_000)
    assert scene.record(*CLIENT, observed * 10) == wait_ms


def test_each_kind_cuts_it_as_it_cuts_its_verdicts() -> None:
    assert RateQuotaManager(QuotaKind.FETCH, longest_ms=700).wait_at(2_000, 1_000) == 700
    assert RequestQuotaManager().wait_at(2_000, 1_000) == 1_000
    assert MutationQuotaManager().wait_at(1e300, 1e-300) == 2**31 - 1
    assert BucketQuotaManager(QuotaKind.PRODUCE, burst_ms=2_000).wait_at(1_500, 1_000) == 1_000
    rates = IpRates(Window(11, 1_000))
    assert [rates.wait_at(observed, 10) for observed in (9, 10, 10.5, 20)] == [0, 0, 500, 1_000]
