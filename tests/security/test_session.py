"""Session expiry and re-authentication, to the millisecond."""

from broker.security.sasl import MIN_RENEWAL_INTERVAL_MS, SaslSession


def test_it_is_over_after_its_last_millisecond() -> None:
    session = SaslSession("PLAIN", 1_500, 10_000)
    assert [session.is_over(now) for now in (11_499, 11_500, 11_501)] == [False, False, True]


def test_a_renewal_makes_it_last_as_long_again() -> None:
    session = SaslSession("PLAIN", 1_500, 10_000)
    assert session.begin_renewal(11_000) and session.renewing
    session.renewed(2_000, 11_250)
    assert (session.renewing, session.latency_ms) == (False, 250)
    assert [session.is_over(now) for now in (13_250, 13_251)] == [False, True]


def test_renewals_are_a_second_apart() -> None:
    session = SaslSession("PLAIN", 1_500, 10_000)
    assert session.begin_renewal(10_000)  # the first may come at once
    session.renewed(1_500, 10_001)
    assert not session.begin_renewal(10_000 + MIN_RENEWAL_INTERVAL_MS - 1)
    assert not session.renewing
    assert session.begin_renewal(10_000 + MIN_RENEWAL_INTERVAL_MS)
