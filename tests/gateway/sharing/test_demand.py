"""What a gateway's clients use and wait for, measured from its quotas."""

import pytest

from broker.common.clock import BASE_MS
from broker.common.slices import run_through
from broker.gateway.sharing.division import MAX_LINES, Demand, DemandMeter
from broker.gateway.sharing.report import LimitKey
from broker.metrics.rate import Window
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.entity import DEFAULT, Entity
from broker.quotas.kinds import QuotaKind
from tests.quotas.scene import Connection

LIMIT = 1_000_000
ALICE = LimitKey(QuotaKind.PRODUCE, "alice", None)


class Measured:
    """The quotas of a gateway, with a limit for alice, and its meter."""

    def __init__(self, window: Window | None = None) -> None:
        self.quotas = ClientQuotas(window or Window(11, 1_000), shared=True)
        self.quotas.apply(Entity("alice"), "producer_byte_rate", LIMIT, BASE_MS)
        self.meter = DemandMeter()

    def produce(self, nbytes: int, at_ms: int, *, user: str = "alice") -> Connection:
        """Produce over a new connection, which is muted if it is throttled."""
        connection = Connection(principal=user, client_id="app")
        throttle = self.quotas.record_produce(user, "app", nbytes, BASE_MS + at_ms)
        if throttle is not None:
            self.quotas.throttle(connection, connection, throttle, BASE_MS + at_ms)
        return connection

    def measure(self, at_ms: int, least: int = 0) -> dict[LimitKey, Demand]:
        self.quotas.produce.throttled.expired(BASE_MS + at_ms)
        return run_through(self.meter.measure(self.quotas, least, BASE_MS + at_ms))


def test_use_is_the_mean_of_the_last_three_seconds():
    measured = Measured()
    for second, nbytes in enumerate((900_000, 100_000, 200_000, 300_000)):
        measured.produce(nbytes, second * 1_000)
    assert measured.measure(3_999) == {ALICE: Demand(600_000 * 1_000_000 // 2_999_000, 0)}


def test_a_client_that_has_just_begun_used_its_bytes_within_a_second():
    measured = Measured()
    measured.produce(250_000, 0)
    assert measured.measure(10) == {ALICE: Demand(250_000, 0)}


@pytest.mark.parametrize(("least", "is_found"), [(249_999, True), (250_000, False), (250_001, False)])
def test_little_use_is_left_out(least, is_found):
    measured = Measured()
    measured.produce(250_000, 0)
    assert (ALICE in measured.measure(10, least)) is is_found


def test_an_idle_limit_is_left_out_after_three_seconds():
    measured = Measured()
    measured.produce(300_000, 0)
    assert measured.measure(2_999) == {ALICE: Demand(300_000 * 1_000_000 // 2_999_000, 0)}
    assert measured.measure(3_000) == {}
    assert measured.measure(60_000) == {}


def test_each_muted_connection_waits_with_one_request_of_the_mean_size():
    measured = Measured()
    for _ in range(5):
        measured.produce(400_000, 0)
    # The first is not throttled. The others wait for 400 ms to 1,600 ms.
    assert measured.measure(0) == {ALICE: Demand(1_000_000, 4 * 400_000)}
    assert measured.measure(1_000) == {ALICE: Demand(1_000_000, (4 + 2) * 400_000 // 2)}
    # From 1,600 ms on no client waits, and the limit is no longer used to the full.
    assert measured.measure(2_000) == {ALICE: Demand(1_000_000, (4 + 2 + 0) * 400_000 // 3)}
    assert measured.measure(2_999) == {ALICE: Demand(2_000_000_000_000 // 2_999_000, 2 * 400_000 // 3)}
    assert measured.measure(3_500) == {}


def test_clients_that_wait_for_longer_than_the_use_is_measured_are_not_forgotten():
    measured = Measured()
    for _ in range(2):
        measured.produce(20_000_000, 0)
    assert measured.measure(0)[ALICE].waiting == 20_000_000
    for second in range(1, 20):
        assert measured.measure(second * 1_000) == {ALICE: Demand(1_000_000, 20_000_000)}
    measured.measure(20_000)
    measured.measure(21_000)
    assert measured.measure(22_000) == {}


def test_clients_that_wait_pass_their_share():
    measured = Measured()
    run_through(measured.quotas.produce.set_shares({("alice", None): 0.125}, 1.0, BASE_MS))
    for _ in range(3):
        measured.produce(1_000_000, 0)
    assert measured.measure(100)[ALICE].passed == 125_000


def test_a_default_rule_has_a_limit_for_each_name():
    measured = Measured()
    measured.quotas.apply(Entity(DEFAULT, "app"), "producer_byte_rate", LIMIT, BASE_MS)
    measured.produce(100_000, 0, user="bob")
    measured.produce(200_000, 0, user="carol")
    assert measured.measure(0) == {
        LimitKey(QuotaKind.PRODUCE, "bob", "app"): Demand(100_000, 0),
        LimitKey(QuotaKind.PRODUCE, "carol", "app"): Demand(200_000, 0),
    }


def test_clients_without_a_limit_have_no_demand():
    measured = Measured()
    measured.produce(100_000, 0, user="bob")
    assert measured.measure(0) == {}


def test_mutations_and_request_time_are_measured():
    measured = Measured()
    quotas = measured.quotas
    quotas.apply(Entity("alice"), "controller_mutation_rate", 10, BASE_MS)
    quotas.apply(Entity("alice"), "request_percentage", 10, BASE_MS)
    quotas.mutation.quota_for("alice", "app", BASE_MS, strict=True).record(5, BASE_MS)
    quotas.request.record_handled("alice", "app", 1_000_000_000, BASE_MS)
    assert measured.measure(0) == {
        LimitKey(QuotaKind.CONTROLLER_MUTATION, "alice", None): Demand(500_000, 0),
        LimitKey(QuotaKind.REQUEST, "alice", None): Demand(10_000_000, 0),
    }


def test_long_windows_are_measured_over_two_of_them():
    measured = Measured(Window(11, 10_000))
    measured.produce(2_000_000, 0)
    measured.produce(2_000_000, 10_000)
    assert measured.measure(19_000)[ALICE].passed == 4_000_000 * 1_000 // 19_000


@pytest.mark.parametrize("over", [-1, 0, 1])
def test_only_the_most_used_limits_are_reported(over):
    measured = Measured()
    measured.quotas.apply(Entity(DEFAULT), "producer_byte_rate", LIMIT, BASE_MS)
    for number in range(MAX_LINES + over):
        measured.produce(1_000 + number, 0, user=f"user-{number}")
    found = measured.measure(0)
    assert len(found) == min(MAX_LINES + over, MAX_LINES)
    least_used = LimitKey(QuotaKind.PRODUCE, "user-0", None)
    assert (least_used in found) is (over <= 0)


def test_thousands_of_sensors_are_measured_in_steps():
    measured = Measured()
    measured.quotas.apply(Entity(DEFAULT), "producer_byte_rate", LIMIT, BASE_MS)
    for number in range(320):
        measured.produce(1_000, 0, user=f"user-{number}")
    assert sum(1 for _ in measured.meter.measure(measured.quotas, 0, BASE_MS)) >= 10
