"""Throttle compliance: scripts of throttles and arrivals on a manual clock."""

import pytest

from broker.quotas.throttle_compliance import (
    CHECK_AFTER_MS,
    EXTRA_MS,
    HISTORY,
    MAX_CLIENTS,
    MAX_EXTENDED,
    MAX_GAP_MS,
    MIN_IN_A_ROW,
    MIN_THROTTLE_MS,
    ComplianceRecord,
    ThrottleCompliance,
)
from tests.quotas.scene import Connection

T = 1_000
GRACE = 250
MARGIN = 20


class Script:
    """One connection whose requests, of a byte each, arrive at given times. A request that waits at the
    end of a throttle is served then, and throttled again.
    """

    def __init__(
        self, connection: Connection | None = None, throttle_compliance: ThrottleCompliance | None = None
    ) -> None:
        self.throttle_compliance = throttle_compliance or ThrottleCompliance()
        self.connection = connection or Connection()
        self.now_ms = 1_000_000
        self.held_ms: list[int] = []
        self.arrived: list[int] = []

    def throttle(self, arrivals: tuple[int, ...] = (), *, ms: int = T, late_ms: int = 0) -> None:
        """Serve the first waiting request now, with a throttle in its response. Others arrive the given
        number of milliseconds later; those at or before 0 have arrived by then.
        """
        start = self.now_ms
        if self.arrived and self.arrived[0] <= start:
            self.arrived.pop(0)
        self.arrived = sorted([*self.arrived, *(start + each for each in arrivals)])
        seen = self.throttle_compliance
        seen.throttled(self.connection, ms, start, waiting=self.waiting(start))
        while (due := seen.next_deadline()) is not None and due <= start + ms:
            now = due + late_ms
            watch = seen.pop_due(now)
            assert watch is not None
            ms += seen.checked(watch, now, waiting=self.waiting(now))
        self.now_ms = start + ms
        self.held_ms.append(ms)

    def waiting(self, now_ms: int) -> int:
        return sum(each <= now_ms for each in self.arrived)

    def rest(self, ms: int) -> None:
        self.now_ms += ms

    @property
    def obeys(self) -> bool | None:
        return self.throttle_compliance.obeys(self.connection)


@pytest.mark.parametrize(("throttles", "verdict"), [(1, None), (2, None), (3, True), (20, True)])
def test_a_client_that_comes_back_when_the_throttle_is_over_obeys_from_the_second_time_on(throttles, verdict):
    # The third request decides on the second throttle.
    script = Script()
    for _ in range(throttles):
        script.throttle()
        script.rest(1)
    assert script.obeys is verdict


@pytest.mark.parametrize(("throttles", "verdict"), [(1, None), (2, False), (20, False)])
def test_a_client_that_sends_in_the_middle_of_a_throttle_does_not_from_the_second_time_on(throttles, verdict):
    script = Script()
    for _ in range(throttles):
        script.throttle((500,))
        script.rest(1)
    assert script.obeys is verdict


@pytest.mark.parametrize(
    ("arrival", "verdict"),
    [(GRACE, None), (GRACE + 1, False), (T - MARGIN, False), (T - MARGIN + 1, None)],
)
def test_only_what_arrives_between_the_grace_and_the_last_look_says_something(arrival, verdict):
    script = Script()
    for _ in range(4):
        script.throttle((arrival,))
        script.rest(60_000)  # so the throttles are not consecutive, and the client is not one that returns
    assert script.obeys is verdict


def test_requests_that_were_on_their_way_when_the_answer_left_are_no_sign():
    """Five in flight, as in Java: each is throttled while the next one waits. Then none follow."""
    script = Script()
    for _ in range(6):
        script.throttle((5,))
        for _ in range(4):
            script.throttle((0,))
        script.throttle()
        script.rest(2)
    assert script.obeys is True


@pytest.mark.parametrize(
    ("throttles", "verdict"), [(MIN_IN_A_ROW + 2, None), (MIN_IN_A_ROW + 3, False), (30, False)]
)
def test_a_client_that_sends_on_as_soon_as_it_is_answered_is_seen_when_nothing_else_is_on_its_way(
    throttles, verdict
):
    """librdkafka and aiokafka with one request at a time: a millisecond after each response."""
    script = Script()
    for _ in range(throttles):
        script.throttle((1,))
    assert script.obeys is verdict


def test_throttles_are_made_longer_for_a_while_and_never_shorter():
    """From the fourth in a row on, until there is a verdict."""
    script = Script()
    for _ in range(10):
        script.throttle((1,))
    assert script.held_ms == [T, T, T, T + EXTRA_MS, T + EXTRA_MS, T, T, T, T, T]


@pytest.mark.parametrize(
    ("ms", "margin"), [(40, 5), (50, 5), (59, 5), (60, 6), (199, 19), (200, 20), (201, 20), (60_000, 20)]
)
def test_the_last_look_comes_a_tenth_of_the_throttle_before_its_end_5_to_20_ms(ms, margin):
    verdicts = []
    for arrival in (ms - margin, ms - margin + 1):
        script = Script()
        for _ in range(2):
            script.throttle((arrival,), ms=ms)
            script.rest(60_000)
        verdicts.append(script.obeys)
    assert verdicts == [False, None]


def test_a_client_that_obeys_and_keeps_five_on_their_way_is_seen_to_send_when_it_is_free():
    """Java above its quota: whenever its throttle ends it sends one more, to keep five in flight. The broker
    responds to the next one at the same moment.
    """
    script = Script()
    script.throttle((0, 0, 0, 0, T))
    for _ in range(12):
        script.throttle((T,))
    assert script.obeys is True
    (client,) = script.throttle_compliance.clients()
    assert client.record.sent_early == 0 and min(script.held_ms) == T


@pytest.mark.parametrize(
    ("arrival", "observed"),
    [(T - MARGIN, 0), (T - MARGIN + 1, 1), (T + CHECK_AFTER_MS, 1), (T + CHECK_AFTER_MS + 1, 0)],
)
def test_a_request_sent_at_the_end_of_the_throttle_counts_as_waited(arrival, observed):
    script = Script()
    script.throttle((0,) * 10)
    for _ in range(MIN_IN_A_ROW - 1):
        script.throttle()
    script.throttle((arrival,))
    waited = sum(client.record.waited for client in script.throttle_compliance.clients())
    assert script.held_ms[-1] == T + EXTRA_MS
    assert waited == observed


@pytest.mark.parametrize(("pause_ms", "verdict"), [(0, False), (MAX_GAP_MS, False), (MAX_GAP_MS + 1, None)])
def test_a_request_that_came_long_after_a_throttle_was_free_to(pause_ms, verdict):
    script = Script()
    for _ in range(10):
        script.throttle((1,))
        script.rest(pause_ms)
    assert script.obeys is verdict


def test_a_client_that_shows_nothing_is_left_alone_after_a_while():
    """A queue of requests from before the first response: none arrives later, so there is no verdict."""
    script = Script()
    script.throttle((0,) * 100)
    for _ in range(60):
        script.throttle()
    assert script.obeys is None
    assert script.held_ms.count(T + EXTRA_MS) == MAX_EXTENDED and script.held_ms[-1] == T


def test_a_client_that_asks_now_and_then_is_not_known():
    """One request in ten seconds, each throttled for one second: idle clients give no verdict."""
    script = Script()
    for _ in range(20):
        script.throttle()
        script.rest(9_000)
    assert script.obeys is None


@pytest.mark.parametrize(("pause_ms", "verdict"), [(T, True), (T + 1, None)])
def test_coming_back_says_something_within_as_long_again(pause_ms, verdict):
    script = Script()
    for _ in range(5):
        script.throttle()
        script.rest(pause_ms)
    assert script.obeys is verdict


@pytest.mark.parametrize(
    ("ms", "verdict"), [(MIN_THROTTLE_MS - 1, None), (MIN_THROTTLE_MS, False), (MIN_THROTTLE_MS + 1, False)]
)
def test_throttles_that_a_round_trip_may_outlast_are_not_looked_at(ms, verdict):
    script = Script()
    for _ in range(6):
        script.throttle((ms // 2 + 1,), ms=ms)
    assert script.obeys is verdict


def test_short_throttles_alone_are_not_watched():
    script = Script()
    for _ in range(100):
        script.throttle((0,), ms=MIN_THROTTLE_MS - 1)
    assert script.obeys is None and script.throttle_compliance.next_deadline() is None


def test_a_look_that_comes_too_late_sees_nothing():
    script = Script()
    for _ in range(6):
        script.throttle((T + 1,), late_ms=T)
        script.rest(1)
    assert script.obeys is None


def test_the_last_eight_count_so_a_client_can_be_replaced_by_a_better_one():
    script = Script()
    for _ in range(20):
        script.throttle((500,))
    assert script.obeys is False
    verdicts = []
    for _ in range(HISTORY + 1):
        script.throttle()
        script.rest(1)
        verdicts.append(script.obeys)
    assert verdicts == [False] * 5 + [None, None, True, True]


@pytest.mark.parametrize(
    ("observations", "verdict"),
    [
        ("", None),
        ("w", None),
        ("ww", True),
        ("e", None),
        ("ee", False),
        ("we", None),
        ("wwe", None),
        ("eew", False),
        ("eeww", False),
        ("eewww", None),
        ("wwwwwwwe", True),
        ("wwwwwwee", None),
        ("wwwwweee", None),
        ("wwwweeee", False),
    ],
)
def test_a_verdict_needs_two_and_one_kind_that_prevails(observations, verdict):
    record = ComplianceRecord()
    for each in observations:
        record.note(early=each == "e")
    assert record.obeys is verdict


def test_observations_of_a_connection_hold_for_the_next_of_its_client():
    script = Script()
    for _ in range(3):
        script.throttle((500,))
    again, other = Connection("c-2"), Connection("c-3", client_id="other")
    assert script.throttle_compliance.obeys(again) is False
    assert script.throttle_compliance.obeys(other) is None
    script.throttle_compliance.forget(script.connection)
    assert script.throttle_compliance.obeys(again) is False
    (client,) = script.throttle_compliance.clients()
    assert client[:2] == ("ANONYMOUS", "client1")
    assert (client.record.sent_early, client.record.waited) == (3, 0)


def test_connections_of_a_client_are_summed():
    throttle_compliance = ThrottleCompliance()
    for number in range(2):
        script = Script(Connection(f"c-{number}"), throttle_compliance)
        script.throttle((500,))
        script.rest(60_000)
        assert script.obeys is (None if number == 0 else False)


def test_a_connection_that_closes_while_it_is_held_is_not_looked_at():
    script = Script()
    script.throttle_compliance.throttled(script.connection, T, script.now_ms, waiting=0)
    script.throttle_compliance.forget(script.connection)
    assert script.throttle_compliance.next_deadline() is None
    assert script.throttle_compliance.pop_due(script.now_ms + T) is None


def test_a_throttle_that_ends_early_says_nothing():
    script = Script()
    for _ in range(4):
        script.throttle_compliance.throttled(script.connection, T, script.now_ms, waiting=0)
        while (due := script.throttle_compliance.next_deadline()) is not None:
            watch = script.throttle_compliance.pop_due(due)
            assert watch is not None
            script.throttle_compliance.released(watch)
        script.rest(300)
    assert script.obeys is None


def test_clients_are_remembered_up_to_a_number_and_those_seen_last():
    throttle_compliance = ThrottleCompliance()
    for number in range(MAX_CLIENTS + 1):
        script = Script(Connection(client_id=f"c{number}"), throttle_compliance)
        script.throttle((500,))
        throttle_compliance.forget(script.connection)
    names = [client.client_id for client in throttle_compliance.clients()]
    assert len(names) == MAX_CLIENTS
    assert (names[0], names[-1]) == ("c1", f"c{MAX_CLIENTS}")


def test_observations_are_taken_once_and_the_verdict_stays():
    script = Script()
    take = script.throttle_compliance.take_observations
    assert take(script.connection) == (None, 0, 0)
    for _ in range(3):
        script.throttle((500,))
    assert take(script.connection) == (False, 0, 3)
    assert take(script.connection) == (False, 0, 0)
    script.throttle((500,))
    assert take(script.connection) == (False, 0, 1)
    # A client's observations outlive its connection; the counts of `take_observations` do not.
    script.throttle_compliance.forget(script.connection)
    assert take(script.connection) == (False, 0, 0)
