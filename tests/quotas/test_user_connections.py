"""A user's connections: their number and rate, and that each is counted and released once."""

import random

import pytest

from broker.common.clock import BASE_MS
from broker.common.slices import run_through
from broker.metrics.rate import Window
from broker.quotas.connections import TooFastOfUser, TooManyOfUser, UserConnections, UserLimit

WINDOW = Window(2, 1_000)
FREE = UserLimit()


def account(count: UserLimit = FREE, rate: UserLimit = FREE) -> UserConnections:
    made = UserConnections(WINDOW)
    made.set_limits(count, rate)
    return made


@pytest.mark.parametrize(("maximum", "let_in"), [(0, 0), (1, 1), (3, 3), (4, 4), (5, 4)])
def test_a_user_has_as_many_as_the_limit_says(maximum, let_in):
    users = account(UserLimit(maximum))
    refusals = [users.enter("alice", BASE_MS) for _ in range(4)]
    assert refusals == [None] * let_in + [TooManyOfUser(maximum)] * (4 - let_in)
    assert users.counts.get("alice", 0) == let_in
    assert (users.enter("bob", BASE_MS) is None) is (maximum > 0)


def test_one_that_closes_leaves_its_place_and_nothing_is_left_of_the_last():
    users = account(UserLimit(1))
    assert users.enter("alice", BASE_MS) is None
    assert users.enter("alice", BASE_MS) == TooManyOfUser(1)
    users.release("alice")
    assert users.counts == {}
    assert users.enter("alice", BASE_MS) is None
    users.release("alice")
    with pytest.raises(KeyError):
        users.release("alice")


def test_overrides_are_for_one_user_each():
    users = account(UserLimit(1, {"alice": 2, "bob": 0}))
    assert [users.enter("alice", BASE_MS) for _ in range(3)] == [None, None, TooManyOfUser(2)]
    assert users.enter("bob", BASE_MS) == TooManyOfUser(0)
    assert [users.enter("carol", BASE_MS) for _ in range(2)] == [None, TooManyOfUser(1)]


def test_a_lowered_limit_keeps_open_connections():
    users = account()
    for _ in range(5):
        users.enter("alice", BASE_MS)
    users.set_limits(UserLimit(3), FREE)
    assert users.enter("alice", BASE_MS) == TooManyOfUser(3)
    for _ in range(3):
        users.release("alice")
    assert users.enter("alice", BASE_MS) is None


def test_a_rate_is_over_the_windows_and_a_wait_one_of_them_at_most():
    """Two windows of a second: the rate's number at once is allowed; one more is half as much too many."""
    users = account(rate=UserLimit(2))
    assert [users.enter("alice", BASE_MS) for _ in range(2)] == [None, None]
    assert users.enter("alice", BASE_MS) == TooFastOfUser(500, 2)
    assert users.enter("alice", BASE_MS + 499) == TooFastOfUser(1, 2)
    assert users.enter("alice", BASE_MS + 500) is None
    assert account(rate=UserLimit(1)).enter("bob", BASE_MS) is None


def test_a_client_that_came_too_fast_is_not_counted_and_does_not_make_it_worse():
    users = account(rate=UserLimit(2))
    waits = [users.enter("alice", BASE_MS) for _ in range(50)]
    assert waits == [None] * 2 + [TooFastOfUser(500, 2)] * 48
    assert users.counts == {"alice": 2}


def test_a_client_that_is_one_too_many_does_not_count_for_the_rate():
    users = account(UserLimit(1), UserLimit(2))
    assert [users.enter("alice", BASE_MS) for _ in range(9)] == [None] + [TooManyOfUser(1)] * 8
    users.release("alice")
    assert users.enter("alice", BASE_MS) is None


def test_a_rate_of_another_user_and_a_rate_that_changes():
    users = account(rate=UserLimit(2, {"alice": 1}))
    assert users.enter("alice", BASE_MS) is None
    assert users.enter("alice", BASE_MS) == TooFastOfUser(1_000, 1)
    assert users.enter("bob", BASE_MS) is None
    assert users.enter("bob", BASE_MS) is None
    users.set_limits(FREE, UserLimit(4))
    assert [users.enter("alice", BASE_MS) for _ in range(3)] == [None] * 3
    users.set_limits(FREE, FREE)
    assert [users.enter("bob", BASE_MS) for _ in range(100)] == [None] * 100


@pytest.mark.parametrize(("idle_ms", "forgotten"), [(3_600_000, 0), (3_600_001, 1)])
def test_a_rate_is_forgotten_after_an_hour(idle_ms, forgotten):
    users = account(rate=UserLimit(2))
    users.enter("alice", BASE_MS)
    assert run_through(users.rates.expire(BASE_MS + idle_ms)) == forgotten
    assert users.counts == {"alice": 1}


def test_rates_are_kept_of_so_many_users_those_seen_last():
    users = UserConnections(WINDOW, max_sensors=8)
    users.set_limits(FREE, UserLimit(5))
    for number in range(9):
        users.enter(f"u{number}", BASE_MS + number)
    assert sorted(users.rates) == [f"u{number}" for number in range(1, 9)]


def test_random_comings_and_goings_end_at_nothing():
    dice = random.Random(7)
    users = account(UserLimit(5, {"b": 2}), UserLimit(50))
    connected: list[str] = []
    for step in range(5_000):
        if connected and dice.random() < 0.5:
            users.release(connected.pop(dice.randrange(len(connected))))
        else:
            user = dice.choice("abc")
            if users.enter(user, BASE_MS + step * 7) is None:
                connected.append(user)
        if step % 500 == 0:
            users.set_limits(UserLimit(dice.randint(0, 9)), UserLimit(dice.randint(1, 99)))
        assert sum(users.counts.values()) == len(connected)
    for user in connected:
        users.release(user)
    assert users.counts == {}
