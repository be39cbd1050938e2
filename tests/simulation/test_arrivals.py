"""The requests of a connection and their times."""

from array import array

import pytest

from broker.quotas.kinds import QuotaKind
from broker.simulation.arrivals import (
    Arrival,
    RequestSender,
    even_arrival_count,
    even_arrivals,
    greedy_arrivals,
    recorded_arrivals,
)
from broker.simulation.scenario import SECOND_US, ClientLoad, Piece


def sender(idle_until=lambda at_us: at_us, batch_bytes=0, patience_us=None) -> RequestSender:
    return RequestSender(idle_until, batch_bytes, patience_us)


def test_requests_come_evenly_from_the_phase_on():
    arrivals = even_arrivals([Piece(1_000, 1_400, 1.0)], 100, 7, 0.5, sender())
    assert list(arrivals) == [Arrival(1_050, 7), Arrival(1_150, 7), Arrival(1_250, 7), Arrival(1_350, 7)]


def test_half_the_factor_is_half_the_requests():
    assert [due.at_us for due in even_arrivals([Piece(0, 400, 0.5)], 100, 7, 0, sender())] == [0, 200]


@pytest.mark.parametrize(("end", "count"), [(200, 2), (201, 3), (300, 3)])
def test_a_request_at_the_end_of_a_piece_is_not_of_it(end, count):
    pieces = [Piece(0, end, 1.0)]
    assert (
        len(list(even_arrivals(pieces, 100, 7, 0, sender()))) == even_arrival_count(pieces, 100, 0) == count
    )


def test_idle_requests_are_counted_and_not_returned():
    quiet = sender(lambda at_us: 250 if at_us < 250 else at_us)
    assert [due.at_us for due in even_arrivals([Piece(0, 500, 1.0)], 100, 7, 0, quiet)] == [300, 400]
    assert (quiet.not_simulated.requests, quiet.not_simulated.nbytes) == (3, 21)


def test_requests_that_had_to_wait_go_together_up_to_a_batch():
    batched = sender(batch_bytes=25)
    arrivals = even_arrivals([Piece(0, 1_000, 1.0)], 100, 10, 0, batched)
    assert next(arrivals) == Arrival(0, 10)
    batched.free_us = 150
    assert next(arrivals) == Arrival(100, 10)
    batched.free_us = 320
    assert next(arrivals) == Arrival(200, 20, 2)
    batched.free_us = 900
    assert next(arrivals) == Arrival(400, 20, 2)


def test_requests_that_wait_longer_than_the_patience_are_given_up():
    batched = sender(patience_us=300)
    arrivals = even_arrivals([Piece(0, 1_000, 1.0)], 100, 10, 0, batched)
    assert next(arrivals).at_us == 0
    batched.free_us = 600
    assert next(arrivals).at_us == 300  # since exactly 300 us
    assert (batched.expired.requests, batched.expired.nbytes) == (2, 20)


def test_a_greedy_client_sends_whenever_it_is_free():
    free = sender()
    arrivals = greedy_arrivals([Piece(10, 100, 1.0), Piece(200, 210, 1.0)], 5, 7, free)
    assert next(arrivals).at_us == 10
    free.free_us = 95
    assert next(arrivals).at_us == 95
    free.free_us = 130
    assert next(arrivals).at_us == 200
    free.free_us = 210
    assert list(arrivals) == []


def test_a_greedy_client_that_is_not_throttled_is_counted_by_its_latency():
    quiet = sender(lambda at_us: 10**9)
    assert list(greedy_arrivals([Piece(0, 1_000, 1.0)], 100, 7, quiet)) == []
    assert quiet.not_simulated.requests == 10


def record(*rows: tuple[int, int, int]) -> ClientLoad:
    seconds, requests, nbytes = zip(*rows, strict=True)
    return ClientLoad(
        "u", "c", QuotaKind.PRODUCE, array("L", seconds), array("L", requests), array("Q", nbytes)
    )


def test_a_recorded_second_is_spread_evenly_and_sums_to_what_was_recorded():
    arrivals = list(recorded_arrivals(record((3, 4, 10)), sender()))
    assert [due.at_us - 3 * SECOND_US for due in arrivals] == [0, 250_000, 500_000, 750_000]
    assert [due.nbytes for due in arrivals] == [2, 3, 2, 3]


def test_many_recorded_requests_are_played_as_ten():
    arrivals = list(recorded_arrivals(record((0, 1_005, 100_001)), sender()))
    assert len(arrivals) == 10
    assert (sum(due.requests for due in arrivals), sum(due.nbytes for due in arrivals)) == (1_005, 100_001)


def test_a_recorded_client_without_a_limit_is_only_counted():
    free = sender(lambda at_us: 2**62)
    assert list(recorded_arrivals(record((0, 5, 50), (1, 5, 50)), free)) == []
    assert free.not_simulated.nbytes == 100
