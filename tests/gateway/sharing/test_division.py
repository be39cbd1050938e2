"""The parts of a limit, in millionths."""

from hypothesis import given
from hypothesis import strategies as st

from broker.gateway.sharing.division import CONTENDED, Demand, part_of
from broker.gateway.sharing.report import WHOLE


def parts(*demands: tuple[int, int], floor: int | None = None) -> list[int]:
    given_floor = WHOLE // (4 * len(demands)) if floor is None else floor
    named = [Demand(*each) for each in demands]
    return [
        part_of(each, [*named[:number], *named[number + 1 :]], given_floor)
        for number, each in enumerate(named)
    ]


def test_a_gateway_that_uses_a_limit_alone_has_all_of_it():
    assert parts((1, 0)) == [WHOLE]
    assert parts((0, 1)) == [WHOLE]
    assert parts((0, 0)) == [WHOLE]
    assert parts((2 * WHOLE, WHOLE)) == [WHOLE]


def test_while_nothing_waits_the_limit_is_divided_by_what_passes():
    assert parts((300_000, 0), (100_000, 0)) == [750_000, 250_000]
    assert parts((900_000, 0), (300_000, 0)) == [750_000, 250_000]


def test_gateways_that_only_wait_have_parts_by_what_waits():
    assert parts((0, 30), (0, 10)) == [750_000, 250_000]


def test_a_gateway_that_waits_gets_half_of_the_unused_limit():
    """400,000 pass and 600,000 are free: half goes to the one that waits, half by use."""
    assert parts((300_000, 0), (100_000, 50_000)) == [300_000 + 225_000, 100_000 + 75_000 + 300_000]


def test_a_limit_is_contended_from_nine_tenths_on():
    # Just below, both have what they use. Half of the rest is divided 7 to 1 by use, half goes to the one
    # that waits.
    assert parts((CONTENDED - 112_501, 0), (112_500, 10_000)) == [787_499 + 43_750, 112_500 + 56_250]
    # From there on, the first keeps seven eighths of what it uses, and the second a sixteenth more. Half of
    # the other 191,406 goes to the first, which keeps less than it uses, and half to the one that waits.
    assert parts((CONTENDED - 112_500, 0), (112_500, 10_000)) == [689_063 + 95_703, 119_531 + 95_703]


def test_gateways_with_equal_demand_have_equal_parts():
    assert parts((500_000, 70_000), (500_000, 70_000)) == [500_000, 500_000]


def test_a_gateway_whose_clients_wait_longer_gains():
    """The first keeps an eighth, the second four fifths of seven eighths of its half. Of the other 525,000,
    half is divided 375 to 150 by use, half 9 to 1 by what waits.
    """
    first = 125_000 + (375_000 + 472_500) // 2
    second = 350_000 + (150_000 + 52_500) // 2
    assert parts((500_000, 90_000), (500_000, 10_000)) == [first, second] == [548_750, 451_250]


def test_a_gateway_that_uses_little_keeps_it_and_a_sixteenth_more():
    assert parts((16_000, 0), (984_000, 500_000)) == [17_000, 983_000]


def test_a_gateway_without_waiting_clients_keeps_seven_eighths_of_what_it_uses():
    """It keeps 700,000, the other an eighth of the limit. Of the other 175,000, half is divided 100 to 75 by
    use, and half is the other's, for only its clients wait.
    """
    assert parts((800_000, 0), (200_000, 100_000)) == [700_000 + 50_000, 125_000 + (75_000 + 175_000) // 2]


def test_use_above_the_limit_is_scaled_down():
    assert parts((3 * WHOLE, 0), (WHOLE, 0)) == [750_000, 250_000]


amounts = st.integers(0, 2_000_000)


@given(st.lists(st.tuples(amounts, amounts), min_size=1, max_size=60))
def test_the_parts_never_exceed_the_limit_but_for_a_millionth_each(demands):
    found = parts(*demands)
    assert min(found) >= 1
    assert sum(found) <= WHOLE + len(demands)


@given(st.lists(st.tuples(st.integers(1, 2_000_000), st.integers(1, 2_000_000)), min_size=1, max_size=60))
def test_nothing_is_left_over_but_for_the_remainders_of_divisions(demands):
    assert sum(parts(*demands)) >= WHOLE - 2 * len(demands)


@given(st.integers(1, 2_000_000), st.integers(1, 2_000_000), st.integers(2, 50))
def test_equal_demands_give_equal_parts(passed, waiting, count):
    assert len(set(parts(*[(passed, waiting)] * count))) == 1
